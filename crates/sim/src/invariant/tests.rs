use skep_base::Timestamp;
use skep_wire::swarm::{Artifact, End, Meta, PlanVote};

use super::*;
use crate::seal::{Key, Signatures};

fn did(number: u8) -> Did {
    Did::from_fingerprint(Hash32([number; 32]))
}

fn plan(name: &str, record: Vec<Hash32>) -> Event {
    let chosen = Chosen::Plan { plan_id: name.to_owned(), proposer: did(1) };
    let value = Value { outcome: Outcome::Plan(chosen), record };
    Event::PlanDecided { task_id: "t".to_owned(), value }
}

fn part(task_id: &str) -> Option<Artifact> {
    Some(Artifact {
        artifact_id: format!("artifact of {task_id}"),
        task_id: task_id.to_owned(),
        producer: did(2),
        content_cid: String::new(),
        merkle_hash: Hash32::ZERO,
        content_type: "text/plain".to_owned(),
        size_bytes: 1,
        created_at: Timestamp::from_ms(1),
    })
}

fn end(end: End, parts: Vec<Option<Artifact>>) -> Event {
    let ended = Ended { end, root: aggregate::root(&parts), parts };
    Event::Ended { task_id: "t".to_owned(), ended }
}

/// What the events, by node, break.
fn broken(events: &[(usize, Event)]) -> Vec<Invariant> {
    let mut watch = Watch::new("replay".to_owned());
    events.iter().for_each(|(node, event)| watch.observe(5, *node, event, Some(10)));
    watch.pass_time(10);
    watch.into_violations().into_iter().map(|violation| violation.invariant).collect()
}

#[test]
fn nodes_that_agree_break_nothing() {
    let all = vec![part("a"), None, part("c")];
    let ended = end(End::SucceededPartially, all);
    let story = [(0, plan("p", vec![])), (1, plan("p", vec![])), (0, ended.clone()), (1, ended)];
    assert_eq!(broken(&story), []);
}

#[test]
fn each_contradiction_is_named() {
    let two_plans = [(0, plan("p", vec![])), (1, plan("q", vec![]))];
    assert_eq!(broken(&two_plans), [Invariant::OnePlan]);

    let twice = plan("p", vec![Hash32([1; 32]), Hash32([2; 32]), Hash32([1; 32])]);
    assert_eq!(broken(&[(0, twice)]), [Invariant::BallotOnce]);

    let done = vec![part("a")];
    let two_ends = [(0, end(End::Succeeded, done.clone())), (1, end(End::Failed, done.clone()))];
    assert_eq!(broken(&two_ends), [Invariant::TaskOnce]);
    let done_twice = end(End::Succeeded, vec![part("a"), part("a")]);
    assert_eq!(broken(&[(0, done_twice)]), [Invariant::TaskOnce]);

    let Event::Ended { task_id, mut ended } = end(End::Succeeded, done) else { panic!() };
    ended.root = Hash32::ZERO;
    assert_eq!(broken(&[(0, Event::Ended { task_id, ended })]), [Invariant::RootMatches]);

    let follows = |number| Event::Succession { epoch: 1, leader: did(1), successor: did(number) };
    assert_eq!(broken(&[(0, follows(2)), (1, follows(3))]), [Invariant::OneSuccessor]);
    let elected = |number| Event::Elected { epoch: 2, hash: Hash32([number; 32]) };
    assert_eq!(broken(&[(0, elected(2)), (1, elected(3))]), [Invariant::OneSuccessor]);
}

#[test]
fn what_was_begun_is_overdue_until_it_ends() {
    let mut watch = Watch::new(String::new());
    watch.observe(5, 3, &plan("p", vec![]), Some(10));
    watch.pass_time(10);
    assert!(watch.has_open());
    watch.pass_time(11);
    assert!(!watch.has_open());
    let found = watch.into_violations();
    assert_eq!((found[0].invariant, found[0].node), (Invariant::EndsInTime, Some(3)));
}

#[test]
fn a_ballot_of_another_task_does_not_count() {
    let key = Key::derive(Signatures::Fast, 1, 1);
    let vote = PlanVote {
        task_id: "another".to_owned(),
        epoch: 1,
        voter: key.did,
        rankings: Vec::new(),
        critic_scores: BTreeMap::new(),
    };
    let sent_at = Timestamp::from_ms(1);
    let meta = Meta { signer: key.did, swarm: "s".to_owned(), epoch: 1, sent_at };
    let ballot = Arc::new(Signed::seal(meta, Message::PlanVote(vote), Vec::new(), &key));
    let mut watch = Watch::new(String::new());
    watch.see(&ballot);
    watch.observe(5, 0, &plan("p", vec![ballot.hash()]), Some(10));
    assert_eq!(watch.into_violations()[0].invariant, Invariant::BallotOnce);
}
