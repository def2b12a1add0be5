//! Counts an election again, apart from how the nodes do it: by the rules as they are written
//! (decisions 43 to 45), in whole millionths, with limits of its own.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use skep_base::{Did, Hash32, hash::sha256_parts};
use skep_swarm::genesis::Genesis;
use skep_wire::swarm::{
    Candidacy, Elected, ElectionVote, Location, Member, Message, Observed, ProofOfWork, Quality,
    Share, Signed,
};

#[cfg(test)]
mod tests;

const ONE_E6: u32 = 1_000_000;
/// What any vote weighs, and what somebody needs to stand.
const WEIGHT_MIN_E6: u32 = 100_000;
const COMPOSITE_MIN_E6: u32 = 300_000;
const UPTIME_MIN_E6: u32 = 500_000;
const STANDING_MAX: usize = 100;
/// Up to so many members everybody watches everybody, of more five are drawn for each.
const ALL_WATCH_MAX: usize = 64;
const WATCHERS: usize = 5;
/// So many elections somebody may let pass, less one.
const MISSED_MAX: u32 = 3;
const MEMBERS_PER_JOINER: usize = 10;
const EVIDENCE_MAX: usize = 64;
const PUBLISHED_MAX: usize = 4;
const DIFFICULTY_MAX: u32 = 64;
const SEATS_MIN: usize = 3;
const SEATS_MAX: usize = 10;
/// Nobody is farther away.
const FAR_US: f64 = 1e9;

/// What an election is counted from.
pub struct Poll<'a> {
    pub genesis: &'a Genesis,
    /// Who was elected before, and the hash of what was certified then.
    pub previous: &'a Elected,
    pub beacon: Hash32,
    pub epoch: u64,
    pub record: &'a [Arc<Signed>],
}

impl Poll<'_> {
    /// Who is elected.
    pub fn count(&self) -> Elected {
        let count = Count::new(self);
        let scores = count.scores();
        let weights: BTreeMap<Did, u32> =
            scores.iter().map(|(did, score)| (*did, score.composite_e6)).collect();
        let members = count.members(&weights);
        let seats = seats(members.len());
        let winners = count.winners(&scores, &weights, seats);
        let (epoch, previous) = (self.epoch, self.previous.epoch);
        let tier1 = seated(&winners, &self.previous.tier1, &members, seats);
        Elected { epoch, previous, members, tier1 }
    }
}

/// What is left of a claim when evidence and watchers were asked.
struct Cut {
    composite_e6: u32,
    uptime_e6: u32,
}

struct Count<'a> {
    poll: &'a Poll<'a>,
    before: BTreeMap<Did, &'a Member>,
    ballots: BTreeMap<Did, &'a ElectionVote>,
    joiners: BTreeSet<Did>,
    /// Those before by their lots, where not everybody watches everybody.
    ring: Vec<Did>,
}

impl<'a> Count<'a> {
    fn new(poll: &'a Poll<'a>) -> Count<'a> {
        let before: BTreeMap<Did, &Member> =
            poll.previous.members.iter().map(|member| (member.did, member)).collect();
        let ballots = only_words(poll.record, |message| match message {
            Message::ElectionVote(vote) if vote.epoch == poll.epoch => Some(vote),
            _ => None,
        });
        let mut new: Vec<(Hash32, Did)> = works(poll)
            .into_iter()
            .filter(|(did, _)| !before.contains_key(did) && ballots.contains_key(did))
            .map(|(did, work)| (work, did))
            .collect();
        new.sort_unstable();
        let room = (before.len() / MEMBERS_PER_JOINER).max(1);
        let joiners = new.into_iter().take(room).map(|(_, did)| did).collect();
        let mut ring = Vec::new();
        if before.len() > ALL_WATCH_MAX {
            ring.extend(before.keys().copied());
            ring.sort_by_cached_key(|did| {
                let name = did.to_string();
                sha256_parts(&[poll.beacon.as_bytes(), b"attesters", name.as_bytes()])
            });
        }
        Count { poll, before, ballots, joiners, ring }
    }

    fn may_vote(&self, did: &Did) -> bool {
        self.before.contains_key(did) || self.joiners.contains(did)
    }

    /// Of everybody whose candidacy is worth something.
    fn scores(&self) -> BTreeMap<Did, Cut> {
        let candidacies = only_words(self.poll.record, |message| match message {
            Message::Candidacy(candidacy) if candidacy.epoch == self.poll.epoch => Some(candidacy),
            _ => None,
        });
        let mut scores = BTreeMap::new();
        for (did, candidacy) in candidacies {
            if self.may_vote(&did) && self.is_evident(&did, candidacy) {
                scores.insert(did, self.cut(&did, candidacy));
            }
        }
        scores
    }

    /// Decision 44a: no more reputation and stake is claimed than issuers have signed.
    fn is_evident(&self, did: &Did, candidacy: &Candidacy) -> bool {
        let Poll { genesis, epoch, .. } = self.poll;
        let (mut reputation, mut stake) = (Share::ZERO, Share::ZERO);
        for signed in candidacy.evidence.0.iter().take(EVIDENCE_MAX) {
            let said = &signed.attestation;
            let is_trusted = genesis.issuers.iter().any(|key| key.did() == said.attester);
            let is_recent = said.epoch == *epoch || said.epoch == *epoch - 1;
            if said.subject == *did && is_trusted && is_recent {
                match said.quality {
                    Quality::Reputation => reputation = reputation.max(said.value),
                    Quality::Stake => stake = stake.max(said.value),
                }
            }
        }
        let at = genesis.election_start(*epoch);
        for published in candidacy.published.iter().take(PUBLISHED_MAX) {
            let score = published.score(did, at, &genesis.issuers);
            reputation = reputation.max(score.unwrap_or_default());
        }
        let claimed = &candidacy.score;
        claimed.agent_id == *did && claimed.reputation <= reputation && claimed.stake <= stake
    }

    /// Nobody was there for longer, or has computed more, than those who watch it have seen.
    fn cut(&self, did: &Did, candidacy: &Candidacy) -> Cut {
        let claimed = &candidacy.score;
        let uptime_e6 = upper_median(&self.seen(did, |seen| seen.uptime)).min(claimed.uptime.e6());
        let compute_e6 = upper_median(&self.seen(did, |seen| seen.proof_of_compute))
            .min(claimed.proof_of_compute.e6());
        let parts = [
            (25, compute_e6),
            (40, claimed.reputation.e6()),
            (20, uptime_e6),
            (15, claimed.stake.e6()),
        ];
        let sum: u32 = parts.iter().map(|(percent, e6)| percent * e6).sum();
        Cut { composite_e6: sum / 100, uptime_e6 }
    }

    /// What watchers say, the least first. Where everybody watches, a missing ballot says nothing;
    /// where few do, it says all that could be claimed.
    fn seen(&self, did: &Did, of: impl Fn(&Observed) -> Share) -> Vec<u32> {
        let mut seen = Vec::new();
        for watcher in self.watchers(did) {
            match self.ballots.get(watcher) {
                Some(ballot) => seen.push(ballot.observed.get(did).map_or(0, |it| of(it).e6())),
                None if self.ring.is_empty() => {}
                None => seen.push(ONE_E6),
            }
        }
        seen.sort_unstable();
        seen
    }

    fn watchers(&self, did: &Did) -> Vec<&Did> {
        if self.ring.is_empty() {
            return self.before.keys().filter(|other| *other != did).collect();
        }
        let place = self.ring.iter().position(|other| other == did);
        self.ring.iter().cycle().skip(place.map_or(0, |place| place + 1)).take(WATCHERS).collect()
    }

    /// Those before and those who join, but for whoever was silent too often.
    fn members(&self, weights: &BTreeMap<Did, u32>) -> Vec<Member> {
        let all: BTreeSet<Did> = self.before.keys().chain(&self.joiners).copied().collect();
        let mut members = Vec::new();
        for did in all {
            let (ballot, before) = (self.ballots.get(&did), self.before.get(&did));
            let missed = match (ballot, before) {
                (None, Some(before)) => before.missed + u32::from(self.is_silent(&did)),
                _ => 0,
            };
            let place = ballot.and_then(|ballot| ballot.location_vector);
            let at_us = place.map(micros).or(before.and_then(|before| before.at_us));
            let weight = Share::from_e6(weight_e6(weights, &did));
            if missed < MISSED_MAX {
                members.push(Member { did, weight, missed, at_us });
            }
        }
        members
    }

    /// Nobody that watches it has heard it, or most where everybody watches.
    fn is_silent(&self, did: &Did) -> bool {
        let seen = self.seen(did, |seen| seen.uptime);
        match self.ring.is_empty() {
            true => upper_median(&seen) == 0,
            false => seen.iter().all(|uptime| *uptime == 0),
        }
    }

    /// ASIP 3: by points, then by composite score, then by the lower DID.
    fn winners(
        &self,
        scores: &BTreeMap<Did, Cut>,
        weights: &BTreeMap<Did, u32>,
        seats: usize,
    ) -> Vec<Did> {
        let mut standing: Vec<(Reverse<u32>, Did)> = scores
            .iter()
            .filter(|(_, it)| it.composite_e6 >= COMPOSITE_MIN_E6 && it.uptime_e6 >= UPTIME_MIN_E6)
            .map(|(did, it)| (Reverse(it.composite_e6), *did))
            .collect();
        standing.sort_unstable();
        standing.truncate(STANDING_MAX);
        let mut points: BTreeMap<Did, u64> = standing.iter().map(|(_, did)| (*did, 0)).collect();
        for (voter, ballot) in self.ballots.iter().filter(|(voter, _)| self.may_vote(voter)) {
            let mut ranked: Vec<&Did> = Vec::new();
            for did in &ballot.candidate_rankings {
                if points.contains_key(did) && did != voter && !ranked.contains(&did) {
                    ranked.push(did);
                }
            }
            let mut below = ranked.len() as u64;
            for did in ranked {
                below -= 1;
                *points.entry(*did).or_default() += below * u64::from(weight_e6(weights, voter));
            }
        }
        standing.sort_by_key(|(composite, did)| (Reverse(points[did]), *composite, *did));
        standing.into_iter().take(seats).map(|(_, did)| did).collect()
    }
}

/// What each signer has said of a kind, in however many messages; who says two things has said
/// nothing.
fn only_words<'a, T: PartialEq>(
    record: &'a [Arc<Signed>],
    of_kind: impl Fn(&'a Message) -> Option<&'a T>,
) -> BTreeMap<Did, &'a T> {
    let mut words: BTreeMap<Did, Option<&T>> = BTreeMap::new();
    for signed in record {
        if let Some(word) = of_kind(&signed.message) {
            let known = words.entry(signed.meta.signer).or_insert(Some(word));
            *known = known.filter(|other| *other == word);
        }
    }
    words.into_iter().filter_map(|(did, word)| Some((did, word?))).collect()
}

/// Whose work is proven, by the last proof of each.
fn works(poll: &Poll<'_>) -> BTreeMap<Did, Hash32> {
    let mut works = BTreeMap::new();
    for signed in poll.record {
        if let Message::Handshake(handshake) = &signed.message
            && is_worked(&signed.meta.signer, &handshake.proof_of_work, poll.genesis.difficulty)
        {
            works.insert(signed.meta.signer, handshake.proof_of_work.hash);
        }
    }
    works
}

/// Decision 43.
fn is_worked(did: &Did, proof: &ProofOfWork, asked: u32) -> bool {
    let hash = sha256_parts(&[did.to_string().as_bytes(), &proof.nonce.to_le_bytes()]);
    let first = hash.0.first_chunk().map_or(0, |first| u64::from_be_bytes(*first).leading_zeros());
    let claimed = proof.difficulty;
    hash == proof.hash && claimed >= asked && claimed <= DIFFICULTY_MAX && first >= claimed
}

fn weight_e6(weights: &BTreeMap<Did, u32>, did: &Did) -> u32 {
    weights.get(did).copied().unwrap_or(0).max(WEIGHT_MIN_E6)
}

fn upper_median(sorted: &[u32]) -> u32 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

/// The square root, rounded: so many that the square of half a seat less is below the members.
fn seats(members: usize) -> usize {
    let is_reached = |seats: &usize| seats * seats - seats < members;
    (SEATS_MIN..=SEATS_MAX).rev().find(is_reached).unwrap_or(SEATS_MIN)
}

fn micros(at: Location) -> [i64; 3] {
    [at.x, at.y, at.z].map(|seconds| (seconds * 1e6).round().clamp(-FAR_US, FAR_US) as i64)
}

/// Seats that no winner takes are kept by who has had one, then the weightiest come.
fn seated(winners: &[Did], in_office: &[Did], members: &[Member], seats: usize) -> Vec<Did> {
    let mut by_weight: Vec<(Reverse<Share>, Did)> =
        members.iter().map(|member| (Reverse(member.weight), member.did)).collect();
    by_weight.sort_unstable();
    let weightiest = by_weight.iter().map(|(_, did)| did);
    let mut seated = Vec::new();
    for did in winners.iter().chain(in_office).chain(weightiest) {
        let is_member = members.iter().any(|member| member.did == *did);
        if seated.len() < seats && is_member && !seated.contains(did) {
            seated.push(*did);
        }
    }
    seated
}

/// What nodes say otherwise than the ballots do.
pub fn differences(told: &Elected, counted: &Elected) -> Vec<String> {
    let mut found = Vec::new();
    if told.tier1 != counted.tier1 {
        let names = |tier1: &[Did]| tier1.iter().map(Did::to_string).collect::<Vec<_>>().join(", ");
        let (told, counted) = (names(&told.tier1), names(&counted.tier1));
        found.push(format!("Tier 1 is {told}; the ballots give {counted}"));
    }
    let by_did = |elected: &Elected| -> BTreeMap<Did, Member> {
        elected.members.iter().map(|member| (member.did, member.clone())).collect()
    };
    let (told, counted) = (by_did(told), by_did(counted));
    let all: BTreeSet<&Did> = told.keys().chain(counted.keys()).collect();
    for did in all {
        let (told, counted) = (told.get(did), counted.get(did));
        if told != counted {
            let (told, counted) = (described(told), described(counted));
            found.push(format!("{did} is {told}, by the ballots {counted}"));
        }
    }
    found
}

fn described(member: Option<&Member>) -> String {
    match member {
        Some(Member { weight, missed, at_us, .. }) => {
            format!("a member that weighs {weight}, has missed {missed} and is at {at_us:?}")
        }
        None => "no member".to_owned(),
    }
}
