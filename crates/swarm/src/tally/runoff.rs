//! Instant runoff: which plan is followed (ASIP 8).

use std::collections::BTreeMap;

use skep_base::Did;
use skep_wire::swarm::{CriticScore, Share};

use super::counted;

/// What one voter said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ballot {
    pub voter: Did,
    /// Plan ids, best first.
    pub rankings: Vec<String>,
    pub critic_scores: BTreeMap<String, CriticScore>,
}

/// One count of first choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The plans that are left, by id, with their ballots.
    pub tallies: Vec<(String, u64)>,
    /// Nobody in the last round.
    pub eliminated: Option<String>,
    /// Ballots that name none of the plans that are left.
    pub exhausted: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runoff {
    pub winner: String,
    pub rounds: Vec<Round>,
}

/// Eliminates plans until one has more than half of the ballots that still count.
///
/// Those with the fewest first choices go first; among equals the lower mean critic score, then
/// the lower id. Without ballots the same order leaves one plan. `None` without plans.
pub fn instant_runoff(plans: &[String], ballots: &[Ballot]) -> Option<Runoff> {
    let ballots = counted(ballots, |ballot| &ballot.voter);
    let plans = Plans::new(plans);
    let mut piles = Piles::new(&plans, &ballots);
    // Only ties need them.
    let mut means: Option<Vec<u64>> = None;
    let mut left: Vec<u32> = (0..plans.ids.len() as u32).collect();
    let mut rounds = Vec::with_capacity(left.len());
    loop {
        let first = *left.first()?;
        let tally = |plan: &u32| piles.tallies[*plan as usize];
        let mut round = Round {
            tallies: left.iter().map(|plan| (plans.id(*plan), tally(plan))).collect(),
            eliminated: None,
            exhausted: piles.exhausted,
        };
        let best = left.iter().copied().max_by_key(tally).unwrap_or(first);
        let total: u64 = left.iter().map(tally).sum();
        if left.len() == 1 || 2 * tally(&best) > total {
            rounds.push(round);
            return Some(Runoff { winner: plans.id(best), rounds });
        }
        let fewest = left.iter().map(tally).min().unwrap_or(0);
        let mut last = left.iter().copied().filter(|plan| tally(plan) == fewest);
        let mut out = last.next().unwrap_or(first);
        for other in last {
            let means = means.get_or_insert_with(|| plans.critic_means_e6(&ballots));
            // Plans are in the order of their ids: of equals the first is the lowest.
            if means[other as usize] < means[out as usize] {
                out = other;
            }
        }
        left.retain(|plan| *plan != out);
        piles.hand_on(out);
        round.eliminated = Some(plans.id(out));
        rounds.push(round);
    }
}

/// The mean of what critics gave a plan, in millionths; 0 if nobody scored it.
///
/// Means are taken for each dimension over the ballots that scored the plan, then
/// 0.30 feasibility + 0.25 parallelism + 0.30 completeness + 0.15 (1 - risk); one division at the
/// end, rounded down.
pub fn critic_mean_e6(plan: &str, ballots: &[Ballot]) -> u64 {
    let mut scored = Scored::default();
    for ballot in counted(ballots, |ballot| &ballot.voter) {
        if let Some(score) = ballot.critic_scores.get(plan) {
            scored.add(score);
        }
    }
    scored.mean_e6()
}

/// A sum of critic scores. The weights are hundredths; there is room for 10^11 ballots.
#[derive(Clone, Copy, Default)]
struct Scored {
    sum_e8: u64,
    count: u64,
}

impl Scored {
    fn add(&mut self, score: &CriticScore) {
        let e6 = |share: Share| u64::from(share.e6());
        let safety = e6(Share::ONE) - e6(score.risk);
        self.sum_e8 += 30 * e6(score.feasibility)
            + 25 * e6(score.parallelism)
            + 30 * e6(score.completeness)
            + 15 * safety;
        self.count += 1;
    }

    fn mean_e6(&self) -> u64 {
        self.sum_e8.checked_div(100 * self.count).unwrap_or(0)
    }
}

/// The plans in the order of their ids, each once; from here on they are numbers.
struct Plans<'a> {
    ids: Vec<&'a str>,
    /// Sorted by key, then id.
    by_key: Vec<(u64, &'a str, u32)>,
    /// Where in `by_key` those begin whose keys start with these bits, and where the next ones do.
    starts: [u32; (1 << KEY_BITS) + 1],
}

/// So many bits tell ten plans mostly apart.
const KEY_BITS: u32 = 8;

/// The end of an id, mixed: ids differ there where they are made by chance. Where somebody made
/// them alike on purpose, a binary search remains.
fn key(id: &str) -> u64 {
    /// Odd and without a pattern: 2^64 divided by the golden ratio.
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let tail = match id.as_bytes().last_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => id.bytes().fold(0, |tail, byte| tail << u8::BITS | u64::from(byte)),
    };
    tail.wrapping_mul(MIX)
}

fn start(key: u64) -> usize {
    (key >> (u64::BITS - KEY_BITS)) as usize
}

impl<'a> Plans<'a> {
    fn new(plans: &'a [String]) -> Self {
        let mut ids: Vec<&str> = plans.iter().map(String::as_str).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut by_key: Vec<(u64, &str, u32)> =
            ids.iter().zip(0..).map(|(id, number)| (key(id), *id, number)).collect();
        by_key.sort_unstable();
        let mut starts = [0; (1 << KEY_BITS) + 1];
        for (key, ..) in &by_key {
            starts[start(*key) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        Plans { ids, by_key, starts }
    }

    fn id(&self, plan: u32) -> String {
        self.ids[plan as usize].to_owned()
    }

    fn find(&self, id: &str) -> Option<u32> {
        let sought = key(id);
        let start = start(sought);
        match &self.by_key[self.starts[start] as usize..self.starts[start + 1] as usize] {
            [] => None,
            [(_, only, plan)] => (*only == id).then_some(*plan),
            some => {
                let order = |(key, known, _): &(u64, &str, u32)| (*key, *known).cmp(&(sought, id));
                some.binary_search_by(order).ok().map(|at| some[at].2)
            }
        }
    }

    fn critic_means_e6(&self, ballots: &[&Ballot]) -> Vec<u64> {
        let mut scored = vec![Scored::default(); self.ids.len()];
        for ballot in ballots {
            // Both are in the order of ids: one walk along both finds what they share.
            let mut plans = self.ids.iter().zip(&mut scored).peekable();
            for (id, score) in &ballot.critic_scores {
                while plans.next_if(|(plan, _)| **plan < id.as_str()).is_some() {}
                if let Some((_, scored)) = plans.next_if(|(plan, _)| **plan == id.as_str()) {
                    scored.add(score);
                }
            }
        }
        scored.iter().map(Scored::mean_e6).collect()
    }
}

/// Which ballots lie with which plan.
struct Piles {
    /// All rankings one after the other.
    choices: Vec<u32>,
    /// What of its ranking each ballot has not used up: from, to in `choices`.
    rest: Vec<(u32, u32)>,
    /// The first ballot of each plan's pile, and the ballot after each; `NONE` ends a pile.
    top: Vec<u32>,
    next: Vec<u32>,
    tallies: Vec<u64>,
    gone: Vec<bool>,
    exhausted: u64,
}

const NONE: u32 = u32::MAX;

impl Piles {
    fn new(plans: &Plans<'_>, ballots: &[&Ballot]) -> Self {
        let count = plans.ids.len();
        let mut piles = Piles {
            choices: Vec::with_capacity(count * ballots.len()),
            rest: Vec::with_capacity(ballots.len()),
            top: vec![NONE; count],
            next: vec![NONE; ballots.len()],
            tallies: vec![0; count],
            gone: vec![false; count],
            exhausted: 0,
        };
        // The ballot that named a plan last, counted from 1.
        let mut named_by = vec![0; count];
        for (ballot, number) in ballots.iter().zip(1..) {
            let from = piles.choices.len() as u32;
            for id in &ballot.rankings {
                if let Some(plan) = plans.find(id)
                    && named_by[plan as usize] != number
                {
                    named_by[plan as usize] = number;
                    piles.choices.push(plan);
                }
            }
            piles.rest.push((from, piles.choices.len() as u32));
            piles.lay(number - 1);
        }
        piles
    }

    /// Puts a ballot on the pile of its best plan that is left.
    fn lay(&mut self, ballot: u32) {
        let (from, to) = &mut self.rest[ballot as usize];
        while from < to {
            let plan = self.choices[*from as usize] as usize;
            *from += 1;
            if !self.gone[plan] {
                self.next[ballot as usize] = std::mem::replace(&mut self.top[plan], ballot);
                self.tallies[plan] += 1;
                return;
            }
        }
        self.exhausted += 1;
    }

    /// Takes a plan out and gives its ballots to their next choices.
    fn hand_on(&mut self, plan: u32) {
        let plan = plan as usize;
        self.gone[plan] = true;
        self.tallies[plan] = 0;
        let mut ballot = std::mem::replace(&mut self.top[plan], NONE);
        while ballot != NONE {
            let next = self.next[ballot as usize];
            self.lay(ballot);
            ballot = next;
        }
    }
}
