use skep_base::{Timestamp, ed25519::SecretKey};
use skep_wire::swarm::{Share, named};

use super::*;

fn plan(plan_id: &str, proposer: Did) -> Plan {
    Plan {
        plan_id: plan_id.to_owned(),
        task_id: "t".to_owned(),
        proposer,
        epoch: 1,
        subtasks: Vec::new(),
        rationale: String::new(),
        estimated_parallelism: Share::ONE,
        created_at: Timestamp::from_ms(0),
        salt: None,
    }
}

#[test]
fn a_part_may_have_any_index() {
    assert_eq!(part_id("t", u32::MAX, 1), "t-st-4294967296");
    assert!(is_part("t", u32::MAX, "t-st-4294967296~2"));
}

#[test]
fn whoever_copies_an_id_that_names_another_voids_nothing() {
    let [honest, liar, other] = [1, 2, 3].map(|n| SecretKey::from_seed([n; 32]).public().did());
    let id = named("plan-1", &honest);
    let [right, copy, second] = [honest, liar, other].map(|did| plan(&id, did));
    assert_eq!(owner(Some(&right), &copy), Some(&right));
    assert_eq!(owner(Some(&copy), &right), Some(&right));
    assert_eq!(owner(owner(Some(&copy), &second), &right), Some(&right));
    assert_eq!(owner(Some(&right), &right), Some(&right));
    // An id that names nobody is nobody's when two have taken it.
    let [one, two] = [honest, liar].map(|did| plan("plan-1", did));
    assert_eq!(owner(Some(&one), &two), None);
    assert_eq!(owner(Some(&one), &one), Some(&one));
}
