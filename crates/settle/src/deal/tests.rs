//! Deals in a small language. `http window 3600: 10 deliver; 20 fail; 30 dispute provider` is a
//! deal that an engine judges, with a window of an hour to contest that; the times are seconds
//! since acceptance.

mod language;
mod properties;

use std::fmt::Write;

use expect_test::{Expect, expect, expect_file};

use self::language::{INPUTS, at, begin, limits, play, read, seconds, show_change, show_refusal};
use super::*;

/// Where a deal can stand, and how it came there.
const SITUATIONS: [(&str, &str); 28] = [
    ("active", "http"),
    ("active, with the provider's word", "http word"),
    ("cancel asked", "http: 1000 cancel requester"),
    ("split offered", "http: 1000 split provider 4000"),
    ("baseline wanted", "delta"),
    ("baseline taken", "delta: 10 baseline v1"),
    ("pending", "http window 3600: 10 deliver"),
    ("running", "http: 10 deliver; 20 ack"),
    ("failed, in its window", "http window 3600: 10 deliver; 20 fail"),
    ("disputed by the provider", "http window 3600: 10 deliver; 20 fail; 30 dispute provider"),
    ("disputed by the requester", "http window 3600: 10 deliver; 20 fail; 30 dispute requester"),
    (
        "disputed, a reviewer could not tell",
        "http window 3600: 10 deliver; 20 fail; 30 dispute provider; 40 decide error",
    ),
    (
        "disputed, split offered",
        "http window 3600: 10 deliver; 20 fail; 30 dispute provider; 40 split provider 4000",
    ),
    ("timed out", "http: 10 deliver; 1810 tick"),
    ("timed out, split offered", "http: 10 deliver; 1810 tick; 1820 split provider 4000"),
    ("timed out, review with an end", "http review 7200: 10 deliver; 1810 tick"),
    ("no verifier", "http: 10 deliver alone"),
    ("after one error", "http: 10 deliver; 20 error v2"),
    ("after two errors", "http: 10 deliver; 20 error v2; 30 error v3"),
    ("self-attested", "http word: 10 deliver word"),
    ("self-attested, split offered", "http word: 10 deliver word; 20 split provider 4000"),
    ("objected", "http word: 10 deliver word; 20 object v1"),
    ("human review", "human window 3600: 10 deliver"),
    ("requester verification", "requester: 10 deliver"),
    ("released", "http: 10 deliver; 20 pass"),
    ("refunded", "http: 10 deliver; 20 fail"),
    ("cancelled", "http: 10 cancel provider"),
    ("divided", "http: 10 deliver; 20 split provider 4000; 30 split requester 4000"),
];

/// Every situation × every input × before, at and after each limit that still lies ahead.
///
/// Times with the same outcome share a line. An outcome is agreement, escrow, each attempt and
/// what else has changed, then what is owed; or the refusal.
#[test]
fn the_whole_table() {
    let mut table = String::new();
    for (name, story) in SITUATIONS {
        let played = play(story);
        let (deal, policy) = (&played.deal, &played.policy);
        let soon = played.now.plus(Duration::from_secs(1));
        let mut times = vec![("soon".to_owned(), soon)];
        for (limit, time) in limits(deal).into_iter().filter(|(_, time)| *time > soon) {
            for (suffix, ms) in [("-1ms", -1), ("", 0), ("+1ms", 1)] {
                let time = Timestamp::from_ms(time.as_ms() + ms);
                times.push((format!("{limit}{suffix}"), time));
            }
        }
        times.sort_by_key(|(_, time)| *time);
        let due = deal.due_at().map_or("never".to_owned(), seconds);
        writeln!(table, "{name} ({story}), due {due}").unwrap();
        for words in INPUTS {
            let mut runs: Vec<(String, &str, &str)> = Vec::new();
            for (label, now) in &times {
                let outcome = match step(deal, *now, policy, read(deal, words)) {
                    Ok((next, effects)) => show_change(deal, &next, *now, &effects),
                    Err(refusal) => show_refusal(&refusal),
                };
                match runs.last_mut() {
                    Some((known, _, last)) if *known == outcome => *last = label,
                    _ => runs.push((outcome, label, label)),
                }
            }
            for (outcome, first, last) in &runs {
                let when = match (runs.len(), first == last) {
                    (1, _) => String::new(),
                    (_, true) => format!(" @{first}"),
                    (_, false) => format!(" @{first}..{last}"),
                };
                writeln!(table, "{name} | {words}{when} => {outcome}").unwrap();
            }
        }
        table.push('\n');
    }
    let table = format!("{}\n", table.trim_end());
    expect_file!["table.txt"].assert_eq(&table);
}

#[test]
fn what_is_settled_takes_nothing_but_the_time() {
    for (name, story) in SITUATIONS {
        let played = play(story);
        if played.deal.escrow == escrow::State::Held {
            continue;
        }
        for words in INPUTS {
            let input = read(&played.deal, words);
            let now = played.now.plus(DISPUTE_REVIEW);
            let stepped = step(&played.deal, now, &played.policy, input.clone());
            match input {
                Input::Tick => assert_eq!(stepped, Ok((played.deal.clone(), vec![]))),
                _ => assert!(stepped.is_err(), "{name} | {words}"),
            }
        }
    }
}

fn told(story: &str, expected: Expect) {
    expected.assert_eq(&play(story).to_string());
}

#[test]
fn good_work_is_paid_once_however_often_the_verdict_comes() {
    told(
        "http: 10 deliver; 20 ack; 25 ack; 30 pass; 40 pass; 41 fail; 50 deliver; 9999999 tick",
        expect![[r#"
            40 pass: Over(Verified)
            41 fail: Over(Verified)
            50 deliver: AlreadySettled
            30: settle 10000
            Completed Released, 10000 by Proof of #1 at 30s"#]],
    );
}

#[test]
fn bad_work_is_refunded_at_once_where_no_window_was_agreed() {
    told(
        "http: 10 deliver; 20 fail; 20 dispute provider",
        expect![[r#"
            20 dispute provider: AlreadySettled
            20: settle 0
            Disputed(closed) Refunded(VerificationFailed), 0 by Proof of #1 at 20s"#]],
    );
}

#[test]
fn a_failed_verdict_stands_when_its_window_passes_unused() {
    told(
        "http window 100: 10 deliver; 20 fail; 119 tick; 120 dispute provider; 120 tick",
        expect![[r#"
            120 dispute provider: NothingToDispute
            120: settle 0
            Disputed(closed) Refunded(VerificationFailed), 0 by Proof of #1 at 120s"#]],
    );
}

#[test]
fn a_provider_who_wins_its_dispute_gets_price_and_deposit() {
    told(
        "http window 100: 0 deliver; 10 ack; 20 fail; 30 dispute provider; 31 dispute requester; \
         40 decide release",
        expect![[r#"
            31 dispute requester: DisputeOpen
            30: take 500 from Provider
            40: settle 10000, deposit of Provider PaidByOther
            Completed Released, 10000 by Proof of #2 at 40s"#]],
    );
}

#[test]
fn a_provider_who_loses_its_dispute_loses_the_deposit_too() {
    told(
        "http window 100: 10 deliver; 20 fail; 30 dispute provider; 40 decide refund",
        expect![[r#"
            30: take 500 from Provider
            40: settle 0, deposit of Provider Lost
            Disputed(closed) Refunded(VerificationFailed), 0 by Proof of #2 at 40s"#]],
    );
}

#[test]
fn a_requester_who_disputes_and_is_proved_right_gets_its_deposit_back() {
    told(
        "http window 100: 10 deliver; 20 fail; 30 dispute requester; 40 decide refund",
        expect![[r#"
            30: take 500 from Requester
            40: settle 0, deposit of Requester Returned
            Disputed(closed) Refunded(VerificationFailed), 0 by Proof of #2 at 40s"#]],
    );
}

#[test]
fn where_a_reviewer_divides_the_price_nobody_has_lost() {
    told(
        "http window 100: 10 deliver; 20 fail; 30 dispute provider; 40 decide part 10001; \
         41 decide part 0; 42 decide part 4000",
        expect![[r#"
            40 decide part 10001: BadSplit
            41 decide part 0: BadSplit
            30: take 500 from Provider
            42: settle 4000, deposit of Provider Returned
            Completed Released, 4000 by Proof of #2 at 42s"#]],
    );
}

#[test]
fn a_dispute_that_no_reviewer_decides_leaves_the_verdict_as_it_was() {
    told(
        "http window 100: 10 deliver; 20 fail; 30 dispute provider; 259229 tick; \
         259230 decide release; 259230 tick",
        expect![[r#"
            259230 decide release: Review TooLate(259230s)
            30: take 500 from Provider
            259230: settle 0, deposit of Provider Returned
            Disputed(closed) Refunded(VerificationFailed), 0 by Proof of #1 at 259230s"#]],
    );
}

#[test]
fn reviewers_who_cannot_tell_neither_prolong_a_dispute_nor_replace_the_verdict() {
    told(
        "http window 100: 10 deliver; 20 fail; 30 dispute provider; 40 decide error; \
         50 decide error; 259229 tick; 259230 tick",
        expect![[r#"
            30: take 500 from Provider
            259230: settle 0, deposit of Provider Returned
            Disputed(closed) Refunded(VerificationFailed), 0 by Proof of #1 at 259230s"#]],
    );
}

#[test]
fn nobody_but_the_requester_and_the_time_can_judge_the_providers_word() {
    told(
        "http word: 10 deliver word; 20 pass; 21 fail; 22 error v2; 23 ack v1",
        expect![[r#"
            20 pass: NotTheVerifier
            21 fail: NotTheVerifier
            22 error v2: NotTheVerifier
            23 ack v1: NotTheVerifier
            Active Held"#]],
    );
}

#[test]
fn silence_of_the_verifier_moves_no_money_until_a_person_decides() {
    told(
        "http: 10 deliver; 20 ack; 1809 tick; 1810 pass; 1810 tick; 99999999 tick; \
         99999999 pass #1; 99999999 decide release",
        expect![[r#"
            1810 pass: TooLate(1810s)
            99999999 pass #1: TooLate(1810s)
            99999999: settle 10000
            Completed Released, 10000 by Proof of #2 at 99999999s"#]],
    );
}

#[test]
fn an_agreed_end_of_the_review_refunds_and_blames_nobody() {
    told(
        "http review 7200: 10 deliver; 1810 tick; 9010 decide release; 9010 tick",
        expect![[r#"
            9010 decide release: Review TooLate(9010s)
            9010: settle 0
            Cancelled Refunded(ReviewDeadline), 0 by None at 9010s"#]],
    );
}

#[test]
fn an_error_is_looked_at_once_more_by_another_and_then_by_a_person() {
    told(
        "http: 10 deliver; 20 error v2; 25 ack #2 v1; 30 ack; 40 error v3; 45 pass #2; \
         50 decide error; 60 decide release",
        expect![[r#"
            25 ack #2 v1: NotTheVerifier
            45 pass #2: Over(Error)
            60: settle 10000
            Completed Released, 10000 by Proof of #4 at 60s"#]],
    );
}

#[test]
fn the_providers_word_is_enough_only_if_nobody_objects_for_a_day() {
    told(
        "http word: 10 deliver word; 86409 tick; 86410 object v1; 86410 tick",
        expect![[r#"
            86410 object v1: NothingToObject
            86410: settle 10000
            Completed Released, 10000 by SelfAttested of #1 at 86410s"#]],
    );
    told(
        "http word: 10 deliver word; 20 object v1; 30 fail",
        expect![[r#"
            30: settle 0
            Disputed(closed) Refunded(VerificationFailed), 0 by Proof of #2 at 30s"#]],
    );
    told(
        "http: 10 deliver word; 20 deliver",
        expect![[r#"
            10 deliver word: AutoApproveNotAgreed(the requester has not agreed to it in the terms)
            Active Held"#]],
    );
}

#[test]
fn who_objects_does_not_judge() {
    let objected = play("requester word: 10 deliver word; 20 object").deal;
    assert!(objected.is_in_review());
    assert_eq!(objected.last_attempt().unwrap().verifier, None);
}

#[test]
fn both_sides_same_words_divide_the_price_at_any_time_and_return_the_deposit() {
    told(
        "http window 100: 10 deliver; 20 fail; 30 dispute provider; 40 split provider 4000; \
         41 split provider 4000; 42 split requester 3999; 43 split provider 3999",
        expect![[r#"
            30: take 500 from Provider
            43: settle 3999, deposit of Provider Returned
            Completed Released, 3999 by Agreed at 43s"#]],
    );
    told(
        "http: 10 split requester 0; 20 split provider 0",
        expect![[r#"
            20: settle 0
            Completed Refunded(Agreed), 0 by Agreed at 20s"#]],
    );
}

#[test]
fn cancelling_is_free_for_a_quarter_of_an_hour_and_then_needs_the_other_side() {
    let cancelled = |story: &str| play(story).deal.escrow;
    let refunded = |reason| escrow::State::Refunded(reason);
    use RefundReason::*;
    assert_eq!(cancelled("http: 899 cancel requester"), refunded(CancelledByRequester));
    assert_eq!(cancelled("http: 900 cancel requester"), escrow::State::Held);
    assert_eq!(cancelled("http: 900 cancel requester; 901 cancel provider"), refunded(Agreed));
    assert_eq!(cancelled("http: 900 cancel provider"), refunded(CancelledByProvider));
    assert_eq!(cancelled("http: 604799 cancel requester"), escrow::State::Held);
    assert_eq!(cancelled("http: 604800 cancel requester"), refunded(DeadlineMissed));
    assert_eq!(cancelled("http: 10 deliver; 20 cancel provider"), escrow::State::Held);
    assert_eq!(cancelled("http: 10 deliver failed"), refunded(DeliveryFailed));
    assert_eq!(cancelled("http: 608399 claim; 608399 tick"), escrow::State::Held);
    assert_eq!(cancelled("http: 608400 claim"), refunded(DeadlineMissed));
    assert_eq!(cancelled("http: 608400 deliver; 608400 tick"), refunded(DeadlineMissed));
}

#[test]
fn a_changed_page_is_compared_with_what_was_there_before() {
    let baseline = |story: &str| {
        let deal = play(story).deal;
        deal.last_attempt().map(|attempt| attempt.spec.baseline_fingerprint.is_some())
    };
    assert_eq!(baseline("delta: 10 deliver"), None);
    assert_eq!(baseline("delta: 10 baseline v9; 20 deliver"), None);
    assert_eq!(baseline("delta: 10 baseline v1; 20 deliver"), Some(true));
    assert_eq!(baseline("delta: 299 deliver"), None);
    assert_eq!(baseline("delta: 300 deliver"), Some(false));
}

#[test]
fn a_verifier_is_due_its_price_for_a_verdict_and_nobody_else_is() {
    let due = |story: &str| play(story).deal.verifier_due.map(|id| language::name(&id));
    assert_eq!(due("http: 10 deliver; 20 pass").as_deref(), Some("v1"));
    assert_eq!(due("http: 10 deliver; 20 fail").as_deref(), Some("v1"));
    assert_eq!(due("http: 10 deliver; 20 error v2; 30 pass").as_deref(), Some("v2"));
    assert_eq!(due("http: 10 deliver; 20 reject").as_deref(), Some("v1"));
    let overturned = "http window 9: 10 deliver; 20 fail; 21 dispute provider; 22 decide release";
    assert_eq!(due(overturned).as_deref(), Some("v1"));
    for story in [
        "http: 10 deliver; 20 error",
        "http: 10 deliver; 1810 tick; 1820 decide release",
        "requester: 10 deliver; 20 pass",
        "human: 10 deliver; 20 pass",
        "http word: 10 deliver word; 86410 tick",
        "http: 10 deliver; 20 split provider 1; 30 split requester 1",
    ] {
        assert_eq!(due(story), None, "{story}");
    }
}

#[test]
fn reviewers_who_never_can_tell_run_out_of_attempts_but_not_of_time() {
    let errors: String = (11..20).map(|s| format!("; {s} decide error")).collect();
    let played = play(&format!("human review 100: 10 deliver{errors}"));
    assert_eq!(played.deal.attempts.len(), ATTEMPTS_MAX);
    assert!(played.to_string().contains("19 decide error: TooManyAttempts"), "{played}");
    let due = played.deal.due_at().unwrap();
    let (ended, _) = step(&played.deal, due, &played.policy, Input::Tick).unwrap();
    assert_eq!(ended.escrow, escrow::State::Refunded(RefundReason::ReviewDeadline));
}

#[test]
fn a_deal_is_the_same_after_it_was_stored() {
    for (_, story) in SITUATIONS {
        let deal = play(story).deal;
        let stored = serde_json::to_vec(&deal).unwrap();
        assert_eq!(serde_json::from_slice::<Deal>(&stored).unwrap(), deal, "{story}");
    }
    let (deal, _) = begin("http");
    let roles = [deal.requester, deal.provider, AgentId([9; 20])].map(|id| deal.role_of(&id));
    assert_eq!(roles, [Some(Role::Requester), Some(Role::Provider), None]);
    assert_eq!(deal.due_at(), Some(at(608_400)));
}
