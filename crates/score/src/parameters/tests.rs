use super::*;

#[test]
fn minimums_are_tightened_reachable_and_other_than_before() {
    let spec = Parameters::SPEC;
    let with = |change: fn(&mut Level)| {
        let mut standard = spec.standard;
        change(&mut standard);
        tighten(&spec, standard, spec.elite)
    };
    assert_eq!(with(|_| {}), Err(NotTighter::Same));
    assert_eq!(with(|level| level.score = 699), Err(NotTighter::Eased));
    assert_eq!(with(|level| level.success_rate = f64::NAN), Err(NotTighter::Eased));
    assert_eq!(with(|level| level.success_rate = 1.01), Err(NotTighter::Unreachable));
    assert_eq!(with(|level| level.ap2_sessions = u32::MAX), Err(NotTighter::Unreachable));
    let after = with(|level| level.conduit_sessions = 60).unwrap();
    assert_eq!((after.version, after.standard.conduit_sessions), (2, 60));
    assert!(are_allowed(&spec) && are_allowed(&after));
    assert!(!are_allowed(&Parameters { version: 2, ..spec }), "nothing has changed");
    assert!(!are_allowed(&Parameters { version: 1, ..after }), "it is no longer the first");
}
