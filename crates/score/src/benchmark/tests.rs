use expect_test::expect;

use super::*;

const DAY_MS: i64 = 24 * 3600 * 1000;

fn at(day: i64) -> Timestamp {
    Timestamp::from_ms(day * DAY_MS)
}

fn before(status: BenchmarkStatus) -> Benchmark {
    let earned = (status != BenchmarkStatus::None).then(|| at(1));
    Benchmark {
        status,
        tier: if earned.is_some() { BenchmarkTier::Standard } else { BenchmarkTier::None },
        first_earned_at: earned,
        continuous_since: (status == BenchmarkStatus::Active).then(|| at(5)),
        last_evaluated_at: earned.map(|_| at(9)),
    }
}

/// Decision 39, whole: every status and every input.
#[test]
fn the_whole_table() {
    use {BenchmarkStatus as Status, BenchmarkTier as Tier, Evaluator::*};
    let evaluated = |tier, evaluator| Input::Evaluated { tier, evaluator, why: "idle" };
    let inputs = [
        ("session NONE", evaluated(Tier::None, SessionCompletion)),
        ("session STANDARD", evaluated(Tier::Standard, SessionCompletion)),
        ("session ELITE", evaluated(Tier::Elite, SessionCompletion)),
        ("beat NONE", evaluated(Tier::None, Heartbeat)),
        ("beat STANDARD", evaluated(Tier::Standard, Heartbeat)),
        ("beat ELITE", evaluated(Tier::Elite, Heartbeat)),
        ("revoke", Input::Revoke { reason: "fraud" }),
        ("clear", Input::Clear { reason: "a mistake" }),
    ];
    let mut table = String::new();
    for status in [Status::None, Status::Active, Status::Suspended, Status::Revoked] {
        for (name, input) in inputs {
            let line = match step(&before(status), at(10), 759, input) {
                Err(refused) => format!("refused: {refused}"),
                Ok((after, event)) => {
                    let day = |time: Option<Timestamp>| match time {
                        Some(time) => (time.as_ms() / DAY_MS).to_string(),
                        None => "-".to_owned(),
                    };
                    let told = event.map_or("silent".to_owned(), |event| {
                        assert_eq!((event.timestamp, event.swarm_score_at_event), (at(10), 759));
                        let reason = event.reason.unwrap_or_default();
                        format!("{:?} {:?} {reason}", event.benchmark_event_type, event.tier)
                    });
                    format!(
                        "{:?} {:?} first {} since {} looked {}: {told}",
                        after.status,
                        after.tier,
                        day(after.first_earned_at),
                        day(after.continuous_since),
                        day(after.last_evaluated_at),
                    )
                }
            };
            table.push_str(format!("{status:?}, {name}: {line}").trim_end());
            table.push('\n');
        }
    }
    expect![[r#"
        None, session NONE: None None first - since - looked 10: silent
        None, session STANDARD: Active Standard first 10 since 10 looked 10: Granted Standard
        None, session ELITE: Active Elite first 10 since 10 looked 10: Granted Elite
        None, beat NONE: None None first - since - looked 10: silent
        None, beat STANDARD: None None first - since - looked 10: silent
        None, beat ELITE: None None first - since - looked 10: silent
        None, revoke: Revoked None first - since - looked -: Revoked None fraud
        None, clear: refused: the benchmark is not revoked
        Active, session NONE: Suspended Standard first 1 since - looked 10: Suspended Standard idle
        Active, session STANDARD: Active Standard first 1 since 5 looked 10: silent
        Active, session ELITE: Active Elite first 1 since 5 looked 10: Renewed Elite
        Active, beat NONE: Suspended Standard first 1 since - looked 10: Suspended Standard idle
        Active, beat STANDARD: Active Standard first 1 since 5 looked 10: Renewed Standard
        Active, beat ELITE: Active Elite first 1 since 5 looked 10: Renewed Elite
        Active, revoke: Revoked Standard first 1 since - looked 9: Revoked Standard fraud
        Active, clear: refused: the benchmark is not revoked
        Suspended, session NONE: Suspended Standard first 1 since - looked 10: silent
        Suspended, session STANDARD: Active Standard first 1 since 10 looked 10: Cleared Standard
        Suspended, session ELITE: Active Elite first 1 since 10 looked 10: Cleared Elite
        Suspended, beat NONE: Suspended Standard first 1 since - looked 10: silent
        Suspended, beat STANDARD: Active Standard first 1 since 10 looked 10: Cleared Standard
        Suspended, beat ELITE: Active Elite first 1 since 10 looked 10: Cleared Elite
        Suspended, revoke: Revoked Standard first 1 since - looked 9: Revoked Standard fraud
        Suspended, clear: refused: the benchmark is not revoked
        Revoked, session NONE: Revoked Standard first 1 since - looked 10: silent
        Revoked, session STANDARD: Revoked Standard first 1 since - looked 10: silent
        Revoked, session ELITE: Revoked Standard first 1 since - looked 10: silent
        Revoked, beat NONE: Revoked Standard first 1 since - looked 10: silent
        Revoked, beat STANDARD: Revoked Standard first 1 since - looked 10: silent
        Revoked, beat ELITE: Revoked Standard first 1 since - looked 10: silent
        Revoked, revoke: refused: the benchmark is revoked already
        Revoked, clear: None Standard first 1 since - looked 9: Cleared Standard a mistake
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_streak_counts_whole_days_while_it_lasts() {
    let active = before(BenchmarkStatus::Active);
    assert_eq!(active.streak_days(at(66)), 61);
    assert_eq!(active.streak_days(Timestamp::from_ms(at(66).as_ms() - 1)), 60);
    assert_eq!(active.held(), BenchmarkTier::Standard);
    let suspended = before(BenchmarkStatus::Suspended);
    assert_eq!((suspended.streak_days(at(66)), suspended.held()), (0, BenchmarkTier::None));
}
