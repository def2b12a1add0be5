//! An election is a function of its record: candidacies, ballots and what voters have observed.

use std::collections::{BTreeMap, BTreeSet};

use skep_base::Did;
use skep_wire::swarm::{
    Candidacy, Elected, ElectionVote, Handshake, Location, Member, Message, Observed, Score, Share,
};

use crate::{
    epoch::Epoch,
    genesis::Genesis,
    kept::Kept,
    layout::k_of,
    pow,
    score::{self, CANDIDATES_MAX, WEIGHT_MIN, upper_median},
    tally::borda,
};

/// Elections after which a silent member is one no more; its ballot in one of them ends the count.
pub const MISSED_MAX: u32 = 3;
/// One newcomer for so many members, and at least one, joins at each election: nobody can bring a
/// crowd that outvotes the others overnight.
pub const MEMBERS_PER_JOINER: usize = 10;

/// Published scores that are looked at.
pub const PUBLISHED_MAX: usize = 4;

/// Whether a candidacy claims more reputation or stake than its evidence shows (decision 44a).
pub fn is_beyond_evidence(genesis: &Genesis, candidacy: &Candidacy) -> bool {
    let (did, evidence) = (&candidacy.agent_id, &candidacy.evidence);
    let issuers = |did: &Did| genesis.is_issuer(did);
    let mut shown = score::evidenced(did, candidacy.epoch, evidence, issuers);
    // Three signatures for each: only where the rest is not enough.
    if candidacy.score.reputation > shown.reputation {
        let at = genesis.election_start(candidacy.epoch);
        let published = candidacy.published.iter().take(PUBLISHED_MAX);
        let best = published.filter_map(|it| it.score(did, at, &genesis.issuers)).max();
        shown.reputation = shown.reputation.max(best.unwrap_or_default());
    }
    candidacy.score.agent_id != *did || score::is_beyond(&candidacy.score, &shown)
}

/// Whether a message has a part in an epoch's election.
pub fn belongs(epoch: u64, kept: &Kept) -> bool {
    match &kept.message {
        Message::Candidacy(m) => m.epoch == epoch,
        Message::ElectionVote(m) => m.epoch == epoch,
        Message::Handshake(_) => true,
        _ => false,
    }
}

/// The messages of a record by who signed them; two different ones by one signer are none.
struct Heard<'a> {
    candidacies: BTreeMap<Did, &'a Candidacy>,
    votes: BTreeMap<Did, &'a ElectionVote>,
    handshakes: BTreeMap<Did, &'a Handshake>,
}

fn sort<'a>(genesis: &Genesis, epoch: u64, record: &'a [Kept]) -> Heard<'a> {
    let mut candidacies: BTreeMap<Did, Vec<&Candidacy>> = BTreeMap::new();
    let mut votes: BTreeMap<Did, Vec<&ElectionVote>> = BTreeMap::new();
    let mut handshakes = BTreeMap::new();
    for kept in record {
        let signer = kept.meta.signer;
        match &kept.message {
            Message::Candidacy(m) if m.epoch == epoch => {
                candidacies.entry(signer).or_default().push(m);
            }
            Message::ElectionVote(m) if m.epoch == epoch => {
                votes.entry(signer).or_default().push(m)
            }
            Message::Handshake(m) if pow::check(&signer, &m.proof_of_work, genesis.difficulty) => {
                handshakes.insert(signer, m);
            }
            _ => {}
        }
    }
    fn alone<T: PartialEq>(all: BTreeMap<Did, Vec<&T>>) -> BTreeMap<Did, &T> {
        let is_one = |said: &Vec<&T>| said.iter().all(|other| *other == said[0]);
        all.into_iter().filter(|(_, said)| is_one(said)).map(|(did, said)| (did, said[0])).collect()
    }
    Heard { candidacies: alone(candidacies), votes: alone(votes), handshakes }
}

/// Who is elected for an epoch by this record.
pub fn elect(previous: &Epoch, genesis: &Genesis, epoch: u64, record: &[Kept]) -> Elected {
    let heard = sort(genesis, epoch, record);
    let joiners = joiners(previous, &heard);
    let is_in = |did: &Did| previous.contains(did) || joiners.contains(did);
    let mut standing: Vec<(Share, Did, Share)> = Vec::new();
    let mut weights: BTreeMap<Did, Share> = BTreeMap::new();
    for (did, candidacy) in heard.candidacies.iter().filter(|(did, _)| is_in(did)) {
        if is_beyond_evidence(genesis, candidacy) {
            continue;
        }
        let score = as_observed(previous, candidacy, &heard.votes);
        let composite = score::composite(&score);
        weights.insert(*did, composite.max(WEIGHT_MIN));
        if score::may_stand(&score) {
            standing.push((composite, *did, composite));
        }
    }
    standing.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    standing.truncate(CANDIDATES_MAX);
    let candidates: BTreeMap<Did, Share> =
        standing.into_iter().map(|(_, did, composite)| (did, composite)).collect();
    // Decision 44a: who shows nothing in this record weighs least, whatever it has shown before.
    let weight_of = |did: &Did| weights.get(did).copied().unwrap_or(WEIGHT_MIN);
    let votes: Vec<(Did, Share, Vec<Did>)> = heard
        .votes
        .iter()
        .filter(|(did, _)| is_in(did))
        .map(|(did, vote)| (*did, weight_of(did), vote.candidate_rankings.clone()))
        .collect();
    let members = members(previous, &heard, &joiners, &weight_of);
    let seats = k_of(members.len());
    let mut tier1: Vec<Did> =
        borda(&candidates, &votes, seats).into_iter().map(|(did, _)| did).collect();
    fill(&mut tier1, previous, &members, seats);
    Elected { epoch, previous: previous.number(), members, tier1 }
}

/// How many newcomers can join those of an epoch.
pub fn joiners_max(previous: &Epoch) -> usize {
    (previous.members().len() / MEMBERS_PER_JOINER).max(1)
}

/// Newcomers with a proof of work who have voted: those whose work is rarest, few at a time.
fn joiners(previous: &Epoch, heard: &Heard<'_>) -> BTreeSet<Did> {
    let is_new = |did: &&Did| !previous.contains(did) && heard.votes.contains_key(*did);
    let mut new: Vec<_> = heard.handshakes.keys().filter(is_new).copied().collect();
    new.sort_by_key(|did| (heard.handshakes[did].proof_of_work.hash, *did));
    new.truncate(joiners_max(previous));
    new.into_iter().collect()
}

/// What a candidate claims, cut to the upper median of what those who watch it have seen.
fn as_observed(
    previous: &Epoch,
    candidacy: &Candidacy,
    votes: &BTreeMap<Did, &ElectionVote>,
) -> Score {
    let watched =
        |of: fn(&Observed) -> Share| upper_median(&seen(previous, &candidacy.agent_id, votes, of));
    let claimed = &candidacy.score;
    Score {
        uptime: claimed.uptime.min(watched(|seen| seen.uptime)),
        proof_of_compute: claimed.proof_of_compute.min(watched(|seen| seen.proof_of_compute)),
        ..claimed.clone()
    }
}

/// What those who watch a subject have seen of it by their ballots, the least first.
///
/// Up to 64 members everybody watches, and the ballots of the record count: each honest one of the
/// quorum that has signed it has its own in there, so that liars are never more than the honest
/// others, and about one of their own they are fewer. A ballot that is missing says nothing, since
/// whoever leads can leave out as many as there may be liars. Of the five that are drawn in a large
/// swarm it can leave out all but its friends: there who is missing takes nothing away.
fn seen(
    previous: &Epoch,
    subject: &Did,
    votes: &BTreeMap<Did, &ElectionVote>,
    of: fn(&Observed) -> Share,
) -> Vec<Share> {
    let missing = (!previous.is_small()).then_some(Share::ONE);
    let said = |did: &Did| {
        let seen = votes.get(did).map(|vote| vote.observed.get(subject));
        seen.map(|seen| seen.map(of).unwrap_or_default()).or(missing)
    };
    let mut all: Vec<Share> = previous.attesters(subject).iter().filter_map(said).collect();
    all.sort_unstable();
    all
}

/// Whether a member without a ballot was not heard by those who watch it, either. It is not enough
/// that whoever leads has left its ballot out: else those who lie expel others until they are more
/// than a third. Five that are drawn must all say so, since three of them may well lie.
fn is_silent(previous: &Epoch, did: &Did, votes: &BTreeMap<Did, &ElectionVote>) -> bool {
    let uptimes = seen(previous, did, votes, |seen| seen.uptime);
    let heard = match previous.is_small() {
        true => upper_median(&uptimes),
        false => uptimes.last().copied().unwrap_or_default(),
    };
    heard == Share::ZERO
}

fn members(
    previous: &Epoch,
    heard: &Heard<'_>,
    joiners: &BTreeSet<Did>,
    weight_of: &dyn Fn(&Did) -> Share,
) -> Vec<Member> {
    let dids: BTreeSet<Did> = previous.members().iter().chain(joiners).copied().collect();
    let member = |did: Did| {
        let vote = heard.votes.get(&did);
        let before = previous.member(&did);
        let missed = match vote {
            Some(_) => 0,
            None => {
                let silent = is_silent(previous, &did, &heard.votes);
                before.map_or(0, |member| member.missed) + u32::from(silent)
            }
        };
        let place = vote.and_then(|vote| vote.location_vector).map(microseconds);
        let at_us = place.or_else(|| before.and_then(|member| member.at_us));
        Member { did, weight: weight_of(&did), missed, at_us }
    };
    dids.into_iter().map(member).filter(|member| member.missed < MISSED_MAX).collect()
}

/// Coordinates that nobody can reach are cut.
fn microseconds(at: Location) -> [i64; 3] {
    const FAR_US: f64 = 1e9;
    [at.x, at.y, at.z].map(|seconds| (seconds * 1e6).round().clamp(-FAR_US, FAR_US) as i64)
}

/// Where too few are elected, those in office stay, then the weightiest come.
fn fill(tier1: &mut Vec<Did>, previous: &Epoch, members: &[Member], seats: usize) {
    let is_member = |did: &Did| members.binary_search_by(|member| member.did.cmp(did)).is_ok();
    tier1.retain(is_member);
    let mut rest: Vec<&Member> = members.iter().collect();
    rest.sort_by(|a, b| b.weight.cmp(&a.weight).then(a.did.cmp(&b.did)));
    let in_office = previous.tier1().iter().copied().filter(is_member);
    for did in in_office.chain(rest.into_iter().map(|member| member.did)) {
        if tier1.len() >= seats {
            return;
        }
        if !tier1.contains(&did) {
            tier1.push(did);
        }
    }
}
