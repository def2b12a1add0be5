use skep_base::Timestamp;
use skep_swarm::{election::elect, epoch::Epoch, kept::Kept, pow};
use skep_wire::{
    identity::Statement,
    swarm::{Attestation, Evidence, Handshake, Meta, Resources, Score, SignedAttestation},
};

use super::*;
use crate::{
    rng::Rng,
    seal::{Key, Signatures},
    setup::brisk,
};

const EPOCH: u64 = 2;

/// An election that is held by hand.
struct Town {
    genesis: Genesis,
    issuer: Key,
    /// Of members first, the lowest DID first.
    keys: Vec<Key>,
    previous: Elected,
    beacon: Hash32,
    record: Vec<Arc<Signed>>,
}

impl Town {
    /// So many members, the last three of whom are in office, and as many strangers.
    fn new(members: usize, strangers: usize) -> Town {
        let numbers = 0..(members + strangers) as u64;
        let mut keys: Vec<Key> =
            numbers.map(|number| Key::derive(Signatures::Fast, 1, number)).collect();
        keys[..members].sort_by_key(|key| key.did);
        let issuer = Key::derive(Signatures::Fast, 1, 1_000);
        let genesis = Genesis {
            swarm: "s".to_owned(),
            start: Timestamp::from_ms(1),
            founders: keys[..members].iter().map(|key| key.public).collect(),
            issuers: vec![issuer.public],
            difficulty: 4,
            timing: brisk(),
        };
        let weight = Share::from_e6(WEIGHT_MIN_E6);
        let member = |key: &Key| Member { did: key.did, weight, missed: 0, at_us: None };
        let previous = Elected {
            epoch: 1,
            previous: 1,
            members: keys[..members].iter().map(member).collect(),
            tier1: keys[members - 3..members].iter().map(|key| key.did).collect(),
        };
        let beacon = genesis.hash();
        Town { genesis, issuer, keys, previous, beacon, record: Vec::new() }
    }

    fn did(&self, who: usize) -> Did {
        self.keys[who].did
    }

    fn say(&mut self, by: usize, message: Message) {
        let key = &self.keys[by];
        // What is said again is another message.
        let sent_at = Timestamp::from_ms(self.record.len() as i64);
        let meta = Meta { signer: key.did, swarm: "s".to_owned(), epoch: 1, sent_at };
        self.record.push(Arc::new(Signed::seal(meta, message, Vec::new(), key)));
    }

    fn stand(&mut self, by: usize, claimed: Share, shown: Share) {
        let agent_id = self.did(by);
        let attestation = Attestation {
            subject: agent_id,
            quality: Quality::Reputation,
            value: shown,
            epoch: 1,
            attester: self.issuer.did,
        };
        let signature = attestation.sign(self.issuer.secret()).unwrap();
        let candidacy = Candidacy {
            agent_id,
            epoch: EPOCH,
            score: Score {
                agent_id,
                proof_of_compute: Share::ONE,
                reputation: claimed,
                uptime: Share::ONE,
                stake: Share::ZERO,
            },
            location_vector: Location::default(),
            evidence: Evidence(vec![SignedAttestation { attestation, signature }]),
            published: Vec::new(),
        };
        self.say(by, Message::Candidacy(candidacy));
    }

    fn all_stand(&mut self) {
        (0..self.previous.members.len()).for_each(|by| self.stand(by, Share::ONE, Share::ONE));
    }

    /// A ballot of somebody that has seen these and all that they do.
    fn ballot(&self, by: usize, ranking: &[usize], seen: &[usize]) -> ElectionVote {
        let (uptime, proof_of_compute) = (Share::ONE, Share::ONE);
        let saw = |who: &usize| (self.did(*who), Observed { uptime, proof_of_compute });
        ElectionVote {
            voter: self.did(by),
            epoch: EPOCH,
            candidate_rankings: ranking.iter().map(|who| self.did(*who)).collect(),
            observed: seen.iter().map(saw).collect(),
            location_vector: Some(Location { x: 0.001, y: 0.0, z: -5_000.0 }),
        }
    }

    fn vote(&mut self, by: usize, ranking: &[usize]) {
        let everybody: Vec<usize> = (0..self.keys.len()).collect();
        self.say(by, Message::ElectionVote(self.ballot(by, ranking, &everybody)));
    }

    fn greet(&mut self, by: usize) {
        let key = &self.keys[by];
        let handshake = Handshake {
            agent_id: key.did,
            pub_key: key.public,
            key_chain: Vec::new(),
            capabilities: Vec::new(),
            resources: Resources { cpu_cores: 1, ram_gb: 1, gpu_vram_gb: None, disk_gb: 1 },
            location_vector: Location::default(),
            proof_of_work: pow::solve(&key.did, self.genesis.difficulty),
            protocol_version: "1".to_owned(),
            evidence: Evidence::default(),
        };
        self.say(by, Message::Handshake(handshake));
    }

    fn count(&self) -> Elected {
        let Town { genesis, previous, beacon, record, .. } = self;
        Poll { genesis, previous, beacon: *beacon, epoch: EPOCH, record }.count()
    }

    /// As nodes count.
    fn elect(&self) -> Elected {
        let previous = Epoch::shared(self.previous.clone(), self.beacon);
        let record: Vec<Kept> = self.record.iter().cloned().map(Kept).collect();
        elect(&previous, &self.genesis, EPOCH, &record)
    }

    fn tier1(&self) -> Vec<usize> {
        let elected = self.count();
        assert_eq!(elected, self.elect());
        let number = |did: &Did| self.keys.iter().position(|key| key.did == *did).unwrap();
        elected.tier1.iter().map(number).collect()
    }

    fn member(&self, who: usize) -> Option<Member> {
        self.count().members.into_iter().find(|member| member.did == self.did(who))
    }
}

#[test]
fn a_voter_counts_once_and_one_with_two_ballots_not_at_all() {
    let mut town = Town::new(8, 0);
    town.all_stand();
    town.vote(0, &[5, 4, 3]);
    town.vote(1, &[5, 4, 3]);
    (0..5).for_each(|_| town.vote(2, &[3, 4, 5]));
    assert_eq!(town.tier1(), [5, 4, 3]);
    // Another ballot of one of the two voids both of its own.
    town.vote(1, &[4, 5, 3]);
    assert_eq!(town.tier1(), [3, 4, 5]);
    // Nobody else's: with a third voter it is as it was.
    town.vote(6, &[5, 4, 3]);
    assert_eq!(town.tier1(), [5, 4, 3]);
}

/// The rest of a ranking moves up: the first of C that remain gets C-1 points.
#[test]
fn own_unknown_and_repeated_names_get_no_points() {
    let mut town = Town::new(8, 1);
    (0..7).for_each(|by| town.stand(by, Share::ONE, Share::ONE));
    // 7 does not stand, 8 is nobody: two points for 1, one for 2, nothing for 3.
    town.vote(0, &[0, 7, 1, 8, 1, 2, 0, 3]);
    assert_eq!(town.tier1(), [1, 2, 3]);
    // Were 0, 7 or 8 counted in the first ballot, or 1 twice, 2 would not lead now.
    town.vote(4, &[2, 5, 1]);
    assert_eq!(town.tier1(), [2, 1, 5]);
}

#[test]
fn the_weightier_then_the_lower_wins_a_tie() {
    let mut town = Town::new(8, 0);
    for by in 0..8 {
        let reputation = if by == 6 { Share::ONE } else { Share::percent(50) };
        town.stand(by, reputation, reputation);
    }
    // Equal voters: 5 and 6 have one point each, as 2 has, and the others have none.
    town.vote(0, &[5, 1]);
    town.vote(3, &[6, 1]);
    town.vote(4, &[2, 1]);
    assert_eq!(town.tier1(), [6, 2, 5]);
}

#[test]
fn who_claims_too_much_weighs_least_and_does_not_stand() {
    let mut town = Town::new(8, 0);
    (0..7).for_each(|by| town.stand(by, Share::percent(50), Share::percent(50)));
    town.stand(7, Share::ONE, Share::percent(99));
    (0..5).for_each(|by| town.vote(by, &[7, 6, 5]));
    // 0.25 and 0.2 for what others have seen, 0.4 of a half.
    assert_eq!(town.member(0).unwrap().weight, Share::percent(65));
    assert_eq!(town.member(7).unwrap().weight, Share::percent(10));
    // Of the two that remain of each ballot, one gets a point.
    assert_eq!(town.tier1(), [6, 0, 1]);
}

#[test]
fn empty_seats_are_kept_then_the_weightiest_come() {
    let mut town = Town::new(8, 0);
    town.stand(3, Share::percent(80), Share::percent(80));
    // It weighs most, but nobody has seen it: it may not stand.
    town.stand(4, Share::ONE, Share::ONE);
    let said = town.ballot(0, &[3, 4], &[0, 1, 2, 3, 5, 6]);
    town.say(0, Message::ElectionVote(said));
    assert_eq!(town.tier1(), [3, 5, 6]);
    town.previous.tier1.truncate(1);
    town.beacon = Hash32::ZERO;
    assert_eq!(town.tier1(), [3, 5, 4]);
}

#[test]
fn the_silent_are_counted_until_they_are_out() {
    let mut town = Town::new(8, 0);
    town.previous.members[6].missed = 1;
    town.previous.members[7].missed = 2;
    for by in 0..5 {
        let said = town.ballot(by, &[], &[0, 1, 2, 3, 4, 5]);
        town.say(by, Message::ElectionVote(said));
    }
    assert_eq!(town.count(), town.elect());
    let missed: Vec<Option<u32>> =
        (4..8).map(|who| town.member(who).map(|member| member.missed)).collect();
    assert_eq!(missed, [Some(0), Some(0), Some(2), None]);
    assert_eq!(town.member(0).unwrap().at_us, Some([1_000, 0, -1_000_000_000]));
    assert_eq!(town.member(5).unwrap().at_us, None);
}

#[test]
fn one_stranger_with_a_ballot_and_a_proof_of_work_joins() {
    let mut town = Town::new(8, 4);
    [8, 9, 11].iter().for_each(|by| town.greet(*by));
    [8, 9, 10].iter().for_each(|by| town.vote(*by, &[0]));
    let joined: Vec<usize> = (8..12).filter(|who| town.member(*who).is_some()).collect();
    assert!(joined == [8] || joined == [9], "{joined:?}");
    assert_eq!(town.count(), town.elect());
}

#[test]
fn seats_are_the_rounded_square_root() {
    let expected = [(1, 3), (12, 3), (13, 4), (20, 4), (21, 5), (90, 9), (91, 10), (5_000, 10)];
    expected.iter().for_each(|(members, k)| assert_eq!(seats(*members), *k, "{members}"));
}

/// Ballots without sense, some twice and some otherwise, in swarms where all watch and in others.
#[test]
fn nodes_count_the_same() {
    for seed in 0..60 {
        let mut rng = Rng::fork(seed, "recount");
        let members = if seed % 10 == 0 { 70 } else { rng.between(4, 30) as usize };
        let mut town = Town::new(members, 3);
        town.beacon = skep_base::hash::sha256(&seed.to_be_bytes());
        let all = members + 3;
        for by in 0..all {
            let shown = rng.share(20, 100);
            let claimed = if rng.percent(10) { Share::ONE } else { shown };
            if rng.percent(80) {
                town.stand(by, claimed, shown);
            }
            for _ in 0..rng.below(3) {
                let ranking: Vec<usize> = (0..rng.below(8)).map(|_| rng.index(all)).collect();
                let seen: Vec<usize> = (0..all).filter(|_| rng.percent(70)).collect();
                let said = Message::ElectionVote(town.ballot(by, &ranking, &seen));
                (0..=rng.below(2)).for_each(|_| town.say(by, said.clone()));
            }
            if by >= members {
                town.greet(by);
            }
        }
        for member in &mut town.previous.members {
            member.missed = rng.below(3) as u32;
        }
        assert_eq!(differences(&town.elect(), &town.count()), Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn whatever_differs_is_named() {
    let town = Town::new(8, 0);
    let counted = town.count();
    assert_eq!(differences(&counted, &counted), Vec::<String>::new());
    let mut told = counted.clone();
    told.tier1.reverse();
    assert!(differences(&told, &counted)[0].starts_with("Tier 1 is "));
    let mut told = counted.clone();
    told.members[1].weight = Share::percent(20);
    told.members[2].missed += 1;
    told.members.remove(0);
    let found = differences(&told, &counted);
    assert_eq!(found.len(), 3);
    assert!(found[0].contains("is no member") && found[1].contains("weighs 0.2"), "{found:?}");
}
