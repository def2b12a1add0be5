use std::collections::BTreeMap;

use proptest::prelude::*;
use skep_base::hash::sha256;
use skep_wire::swarm::{CriticScore, Share};

use super::*;

fn did(n: u32) -> Did {
    Did::from_fingerprint(sha256(&n.to_be_bytes()))
}

fn score(percent: u32) -> CriticScore {
    let share = Share::percent(percent);
    CriticScore {
        feasibility: share,
        parallelism: share,
        completeness: share,
        risk: Share::percent(100 - percent),
    }
}

fn plans(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| id.to_string()).collect()
}

/// `"ab"` ranks plan a before plan b.
fn ballot(voter: u32, ranking: &str) -> Ballot {
    let rankings = ranking.chars().map(String::from).collect();
    Ballot { voter: did(voter), rankings, critic_scores: BTreeMap::new() }
}

fn ballots(rankings: &[&str]) -> Vec<Ballot> {
    (0..).zip(rankings).map(|(voter, ranking)| ballot(voter, ranking)).collect()
}

fn winner(ids: &[&str], ballots: &[Ballot]) -> String {
    instant_runoff(&plans(ids), ballots).unwrap().winner
}

#[test]
fn second_choices_decide_when_nobody_has_a_majority() {
    let votes = ballots(&["ab", "ab", "bc", "bc", "cb"]);
    let runoff = instant_runoff(&plans(&["c", "a", "b"]), &votes).unwrap();
    assert_eq!(runoff.winner, "b");
    let tally = |plan: &str, votes| (plan.to_owned(), votes);
    assert_eq!(
        runoff.rounds,
        [
            Round {
                tallies: vec![tally("a", 2), tally("b", 2), tally("c", 1)],
                eliminated: Some("c".to_owned()),
                exhausted: 0,
            },
            Round { tallies: vec![tally("a", 2), tally("b", 3)], eliminated: None, exhausted: 0 },
        ]
    );
}

#[test]
fn exhausted_ballots_leave_the_count() {
    // b and c go out with their ballots; then a has two of the three that still count.
    let votes = ballots(&["a", "b", "c", "a", "d"]);
    let runoff = instant_runoff(&plans(&["a", "b", "c", "d"]), &votes).unwrap();
    let exhausted: Vec<u64> = runoff.rounds.iter().map(|round| round.exhausted).collect();
    assert_eq!((exhausted, runoff.winner.as_str()), (vec![0, 1, 2], "a"));
}

#[test]
fn ties_fall_to_the_better_critics_then_to_the_id() {
    let mut votes = ballots(&["a", "b"]);
    assert_eq!(winner(&["a", "b"], &votes), "b", "the lower id is eliminated");
    votes[0].critic_scores.insert("a".to_owned(), score(90));
    votes[0].critic_scores.insert("b".to_owned(), score(20));
    for _ in 0..200 {
        assert_eq!(winner(&["b", "a"], &votes), "a");
        votes.reverse();
    }
}

#[test]
fn one_voter_has_one_ballot() {
    let mut votes = ballots(&["a", "a", "a"]);
    // Five different ballots by one voter count nothing; the same one five times counts once.
    for other in ["b", "bc", "bca", "c", "cb"] {
        votes.push(ballot(7, other));
        votes.push(ballot(8, "b"));
    }
    let runoff = instant_runoff(&plans(&["a", "b", "c"]), &votes).unwrap();
    let counts: Vec<u64> = runoff.rounds[0].tallies.iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [3, 1, 0]);
}

#[test]
fn few_or_no_plans_and_ballots() {
    assert_eq!(instant_runoff(&[], &ballots(&["a"])), None);
    assert_eq!(winner(&["a"], &[]), "a");
    assert_eq!(winner(&["a", "c", "b"], &[]), "c");
    // Nobody ranks anything that exists: the critics decide.
    let mut votes = ballots(&["xx", ""]);
    votes[1].critic_scores.insert("a".to_owned(), score(1));
    votes[1].critic_scores.insert("unknown".to_owned(), score(100));
    assert_eq!(winner(&["a", "b", "c"], &votes), "a");
    // One voter, one who repeats itself.
    assert_eq!(winner(&["a", "b"], &ballots(&["xaab"])), "a");
}

#[test]
fn the_critic_mean_is_exact() {
    let mut votes = ballots(&["a", "a", "a"]);
    assert_eq!(critic_mean_e6("a", &votes), 0);
    let parts = |f, p, c, r| CriticScore {
        feasibility: Share::percent(f),
        parallelism: Share::percent(p),
        completeness: Share::percent(c),
        risk: Share::percent(r),
    };
    votes[0].critic_scores.insert("a".to_owned(), parts(90, 80, 85, 20));
    // 0.27 + 0.20 + 0.255 + 0.12
    assert_eq!(critic_mean_e6("a", &votes), 845_000);
    votes[1].critic_scores.insert("a".to_owned(), parts(70, 60, 90, 40));
    // and 0.21 + 0.15 + 0.27 + 0.09 = 0.72
    assert_eq!(critic_mean_e6("a", &votes), 782_500);
    votes[2].critic_scores.insert("a".to_owned(), parts(0, 0, 0, 100));
    assert_eq!(critic_mean_e6("a", &votes), 521_666);
}

/// The rule, word for word, over texts.
fn slow_runoff(plans: &[String], ballots: &[Ballot]) -> Option<String> {
    let mut left: Vec<String> = plans.to_vec();
    left.sort();
    left.dedup();
    while left.len() > 1 {
        let firsts: Vec<&String> = ballots
            .iter()
            .filter_map(|ballot| ballot.rankings.iter().find(|plan| left.contains(plan)))
            .collect();
        let votes = |plan: &String| firsts.iter().filter(|first| **first == plan).count();
        if let Some(won) = left.iter().find(|plan| 2 * votes(plan) > firsts.len()) {
            return Some(won.clone());
        }
        let key = |plan: &&String| (votes(plan), critic_mean_e6(plan, ballots), (*plan).clone());
        let out = left.iter().min_by_key(key).unwrap().clone();
        left.retain(|plan| *plan != out);
    }
    left.pop()
}

fn slow_borda(
    candidates: &BTreeMap<Did, Share>,
    votes: &[(Did, Share, Vec<Did>)],
    seats: usize,
) -> Vec<(Did, u128)> {
    let mut points: BTreeMap<Did, u128> = candidates.keys().map(|did| (*did, 0)).collect();
    for (voter, weight, ranking) in votes {
        let mut kept: Vec<Did> = Vec::new();
        for did in ranking {
            if candidates.contains_key(did) && !kept.contains(did) && did != voter {
                kept.push(*did);
            }
        }
        for (rank, did) in kept.iter().enumerate() {
            let won = (kept.len() - 1 - rank) as u128 * u128::from(weight.e6());
            *points.get_mut(did).unwrap() += won;
        }
    }
    let mut order: Vec<(Did, u128)> = points.into_iter().collect();
    order.sort_by(|(a, pa), (b, pb)| {
        pb.cmp(pa).then(candidates[b].cmp(&candidates[a])).then(a.cmp(b))
    });
    order.truncate(seats);
    order
}

prop_compose! {
    fn any_ballot()(
        ranking in prop::collection::vec(0u8..8, 0..10),
        scores in prop::collection::btree_map(0u8..8, 0u32..=100, 0..6),
        voter in 0u32..40,
    ) -> Ballot {
        // Ids of different lengths, longer and shorter than what is compared first.
        let id = |n: u8| format!("{}{n}", "plan-number-".repeat(usize::from(n % 3)));
        Ballot {
            voter: did(voter),
            rankings: ranking.into_iter().map(id).collect(),
            critic_scores: scores.into_iter().map(|(n, s)| (id(n), score(s))).collect(),
        }
    }
}

proptest! {
    #[test]
    fn runoff_is_what_the_slow_count_gives(
        mut ballots in prop::collection::vec(any_ballot(), 0..30),
        known in 0u8..8,
    ) {
        ballots.sort_by_key(|ballot| ballot.voter);
        ballots.dedup_by_key(|ballot| ballot.voter);
        let id = |n: u8| format!("{}{n}", "plan-number-".repeat(usize::from(n % 3)));
        let plans: Vec<String> = (0..known).map(id).collect();
        let fast = instant_runoff(&plans, &ballots);
        prop_assert_eq!(fast.as_ref().map(|run| run.winner.clone()), slow_runoff(&plans, &ballots));
        for round in fast.iter().flat_map(|run| &run.rounds) {
            let on_piles: u64 = round.tallies.iter().map(|(_, votes)| votes).sum();
            prop_assert_eq!(on_piles + round.exhausted, ballots.len() as u64);
        }
        ballots.reverse();
        prop_assert_eq!(instant_runoff(&plans, &ballots), fast);
    }

    #[test]
    fn borda_is_what_the_slow_count_gives(
        composites in prop::collection::vec(0u32..4, 0..12),
        votes in prop::collection::btree_map(
            0u32..40,
            (0u32..5, prop::collection::vec(0u32..15, 0..15)),
            0..30,
        ),
        seats in 0usize..13,
    ) {
        let candidates: BTreeMap<Did, Share> =
            (0..).zip(composites).map(|(n, c)| (did(n), Share::percent(c * 25))).collect();
        let votes: Vec<(Did, Share, Vec<Did>)> = votes
            .into_iter()
            .map(|(voter, (weight, ranking))| {
                (did(voter), Share::percent(weight * 20), ranking.into_iter().map(did).collect())
            })
            .collect();
        let fast = borda(&candidates, &votes, seats);
        prop_assert_eq!(fast, slow_borda(&candidates, &votes, seats));
    }
}

fn standing(composites: &[u32]) -> BTreeMap<Did, Share> {
    (0..).zip(composites).map(|(n, percent)| (did(n), Share::percent(*percent))).collect()
}

#[test]
fn borda_points_are_weighted() {
    let candidates = standing(&[50, 50, 50]);
    let votes = [
        (did(10), Share::percent(30), vec![did(0), did(1), did(2)]),
        (did(11), Share::percent(50), vec![did(1), did(2)]),
    ];
    let order = borda(&candidates, &votes, 3);
    // 0: 2 × 0.3; 1: 1 × 0.3 + 1 × 0.5; 2: nothing.
    assert_eq!(order, [(did(1), 800_000), (did(0), 600_000), (did(2), 0)]);
}

#[test]
fn nobody_votes_for_itself_or_twice() {
    let candidates = standing(&[40, 40]);
    let own = (did(0), Share::ONE, vec![did(0), did(1)]);
    assert_eq!(borda(&candidates, std::slice::from_ref(&own), 2)[0].1, 0, "one is left: no points");
    let vote = (did(9), Share::ONE, vec![did(1), did(0)]);
    let again = vec![vote.clone(), own.clone(), vote.clone()];
    assert_eq!(borda(&candidates, &again, 1), [(did(1), 1_000_000)]);
    let other = (did(9), Share::ONE, vec![did(0), did(1)]);
    let void = borda(&candidates, &[vote, own, other], 2);
    assert!(void.iter().all(|(_, points)| *points == 0), "different votes void both");
}

#[test]
fn equal_candidates_and_empty_elections() {
    let candidates = standing(&[50; 7]);
    let order: Vec<Did> = borda(&candidates, &[], 7).into_iter().map(|(did, _)| did).collect();
    assert!(order.is_sorted(), "all equal: by DID");
    assert_eq!(borda(&standing(&[30, 90]), &[], 1)[0].0, did(1), "then by composite score");
    assert_eq!(borda(&BTreeMap::new(), &[(did(1), Share::ONE, vec![did(2)])], 10), []);
    assert_eq!(borda(&candidates, &[], 0), []);
}
