use skep_base::Timestamp;
use skep_wire::swarm::{ElectionVote, Meta, Share};

use super::*;
use crate::{
    seal::{Key, Signatures},
    setup::brisk,
};

/// A swarm of five in which nobody votes but the first, for another epoch.
struct Quiet {
    genesis: Genesis,
    keys: Vec<Key>,
}

impl Quiet {
    fn new() -> Quiet {
        let keys: Vec<Key> =
            (0..5).map(|number| Key::derive(Signatures::Fast, 1, number)).collect();
        let genesis = Genesis {
            swarm: "s".to_owned(),
            start: Timestamp::from_ms(1),
            founders: keys.iter().map(|key| key.public).collect(),
            issuers: Vec::new(),
            difficulty: 4,
            timing: brisk(),
        };
        Quiet { genesis, keys }
    }

    fn polls(&self) -> Polls {
        Polls::new(&Epoch::founding(&self.genesis))
    }

    /// All have missed it, and who was in office stays.
    fn told(&self) -> Told {
        let mut elected = Epoch::founding(&self.genesis).elected.clone();
        elected.epoch = 2;
        elected.members.iter_mut().for_each(|member| member.missed = 1);
        Told { elected, hash: Hash32([2; 32]), names: Vec::new(), record: Vec::new() }
    }

    fn ballot(&self, epoch: u64) -> Arc<Signed> {
        let key = &self.keys[0];
        let vote = ElectionVote {
            voter: key.did,
            epoch,
            candidate_rankings: Vec::new(),
            observed: BTreeMap::new(),
            location_vector: None,
        };
        let sent_at = Timestamp::from_ms(1);
        let meta = Meta { signer: key.did, swarm: "s".to_owned(), epoch: 1, sent_at };
        Arc::new(Signed::seal(meta, Message::ElectionVote(vote), Vec::new(), key))
    }

    fn with_record(&self, record: Vec<Arc<Signed>>) -> Told {
        let names = record.iter().map(|signed| signed.hash()).collect();
        Told { names, record, ..self.told() }
    }

    fn found(&self, told: &Told) -> Vec<String> {
        self.polls().count(&self.genesis, told)
    }
}

#[test]
fn what_the_ballots_give_is_fine_and_counted_once() {
    let quiet = Quiet::new();
    let (mut polls, mut told) = (quiet.polls(), quiet.told());
    assert_eq!(polls.count(&quiet.genesis, &told), Vec::<String>::new());
    assert!(polls.has_counted(2, &told.hash));
    told.elected.tier1.reverse();
    assert_eq!(polls.count(&quiet.genesis, &told), Vec::<String>::new());
    // Another outcome of the same election is counted, too.
    told.hash = Hash32([3; 32]);
    assert_eq!(polls.count(&quiet.genesis, &told).len(), 1);
    assert_eq!(polls.totals(), (1, 2));
}

#[test]
fn a_weight_that_nobody_has_shown_is_found() {
    let quiet = Quiet::new();
    let mut told = quiet.told();
    told.elected.members[0].weight = Share::percent(20);
    let found = quiet.found(&told);
    assert!(found.len() == 1 && found[0].contains("weighs 0.2"), "{found:?}");
}

#[test]
fn no_message_is_in_a_record_twice_and_no_ballot_of_another_epoch() {
    let quiet = Quiet::new();
    let found = quiet.found(&quiet.with_record(vec![quiet.ballot(3)]));
    assert!(found.len() == 1 && found[0].contains("another epoch"), "{found:?}");
    let mut told = quiet.with_record(vec![quiet.ballot(2), quiet.ballot(2)]);
    let voter = quiet.keys[0].did;
    let member = told.elected.members.iter_mut().find(|member| member.did == voter);
    member.unwrap().missed = 0;
    let found = quiet.found(&told);
    assert!(found.len() == 1 && found[0].contains("twice"), "{found:?}");
}

#[test]
fn without_its_record_an_election_is_left_to_the_next_node() {
    let quiet = Quiet::new();
    let (mut polls, mut told) = (quiet.polls(), quiet.with_record(vec![quiet.ballot(3)]));
    let record = std::mem::take(&mut told.record);
    assert_eq!(polls.count(&quiet.genesis, &told), Vec::<String>::new());
    assert_eq!(polls.totals(), (1, 0));
    told.record = record;
    assert_eq!(polls.count(&quiet.genesis, &told).len(), 1);
    assert_eq!(polls.totals(), (1, 1));
}
