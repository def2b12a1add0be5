use skep_base::{Timestamp, ed25519::SecretKey};

use super::*;

fn genesis(swarm: &str, founders: u8) -> Genesis {
    Genesis {
        swarm: swarm.to_owned(),
        start: Timestamp::from_ms(0),
        founders: (0..founders).map(|n| SecretKey::from_seed([n; 32]).public()).collect(),
        issuers: Vec::new(),
        difficulty: 8,
        timing: crate::genesis::Timing::default(),
    }
}

#[test]
fn a_shared_document_founds_the_same_epoch_and_another_document_another() {
    let mut one = Arc::new(genesis("one", 5));
    let two = Arc::new(genesis("two", 5));
    for document in [&one, &two, &two, &one] {
        let shared = Epoch::founding_shared(document);
        assert_eq!(shared.beacon, document.hash());
        assert!(Arc::ptr_eq(&shared, &Epoch::founding_shared(&document.clone())));
    }
    // Whoever alone holds a document may change it.
    Arc::make_mut(&mut one).swarm.push('s');
    assert_eq!(Epoch::founding_shared(&one).beacon, one.hash());
}

#[test]
fn watchers_hear_whom_they_watch() {
    for founders in [1, 2, 5, 70, 200] {
        let epoch = Epoch::founding(&genesis("watched", founders));
        for did in epoch.members() {
            let (told, watchers) = (epoch.audience(did), epoch.attesters(did));
            assert!(told.is_sorted() && !told.contains(did), "{founders} founders");
            let others = usize::from(founders) - 1;
            assert_eq!(watchers.len(), if epoch.is_small() { others } else { ATTESTERS });
            assert!(watchers.iter().all(|watcher| told.binary_search(watcher).is_ok()));
        }
    }
}

/// Whoever names a task knows the beacon: names are cheap, and give few sets of witnesses.
#[test]
fn nobody_finds_witnesses_by_trying_names() {
    let epoch = Epoch::founding(&genesis("many", 200));
    let drawn = |n: u32| {
        let subject = Subject::Plan { task_id: format!("task-{n}") };
        let witnesses = epoch.witnesses(&subject, epoch.tier1());
        assert_eq!(witnesses.len(), WITNESSES_MAX);
        let result = Subject::Result { task_id: format!("task-{n}") };
        assert_eq!(epoch.witnesses(&result, epoch.tier1()), witnesses);
        witnesses
    };
    let sets: BTreeSet<Vec<Did>> = (0..1_000).map(drawn).collect();
    assert_eq!(sets.len(), usize::from(TASK_DRAWS));
}
