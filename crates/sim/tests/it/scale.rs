use skep_sim::{Known, Setup, run};
use skep_wire::swarm::{End, Share};

#[test]
fn a_thousand_nodes_do_a_task_together() {
    let report = run(&Setup::calm(1, 1_000, 1));
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let Some(Known::Ended(ended)) = &report.outcomes[0].known else {
        panic!("{:?}", report.outcomes);
    };
    assert_eq!(ended.end, End::Succeeded);
}

/// Messages about one task in a swarm: what all get, how many get any, what the busiest gets.
fn work(seed: u64, nodes: usize) -> (u64, u64, u64) {
    let report = run(&Setup::calm(seed, nodes, 1));
    let works: Vec<u64> = report.loads.iter().map(|load| u64::from(load.work)).collect();
    let busy = works.iter().filter(|work| **work > 0).count() as u64;
    (works.iter().sum(), busy, works.into_iter().max().unwrap_or(0))
}

/// What a task costs those who take part must not grow with those who do not.
#[test]
fn a_larger_swarm_does_not_mean_more_messages_for_each() {
    let over_seeds = |nodes| {
        let each = (5..8).map(|seed| work(seed, nodes));
        each.fold((0, 0, 0), |sums, (all, busy, most)| (sums.0 + all, sums.1 + busy, sums.2 + most))
    };
    let (small, large) = (over_seeds(100), over_seeds(1_000));
    assert!(small.0 > 0);
    // From 100 to 1,000 the logarithm grows by half: nothing may grow by more. Neither all messages
    // together, nor what the busiest one gets: the leader hears each of its witnesses, and no
    // others. Of 100 nearly all take part; of more, 64 witnesses, those who sit and those who work.
    const TAKE_PART_MAX: u64 = 160;
    let grows_little = |small: u64, large: u64| 2 * large <= 3 * small;
    assert!(grows_little(small.0, large.0), "all: {small:?}, {large:?}");
    assert!(large.1 <= 3 * TAKE_PART_MAX, "who takes part: {large:?}");
    assert!(grows_little(small.2, large.2), "the busiest: {small:?}, {large:?}");
}

/// What is lost is sent again, and not everything with it.
#[test]
fn loss_costs_about_as_many_bytes_as_messages() {
    const SEEDS: std::ops::Range<u64> = 1..6;
    let bytes = |loss| -> u64 {
        let each = SEEDS.map(|seed| {
            let report =
                run(&Setup { loss, faults_ms: Some(300_000), ..Setup::calm(seed, 100, 1) });
            assert!(report.violations.is_empty(), "{:?}", report.violations);
            if std::env::var("TRAFFIC").is_ok() {
                println!("seed {seed}, loss {loss}:\n{}", report.traffic);
            }
            report.loads.iter().map(|load| load.work_bytes).sum::<u64>()
        });
        each.sum()
    };
    let (calm, lossy) = (bytes(Share::ZERO), bytes(Share::percent(10)));
    println!("{calm} bytes, with losses {lossy}");
    assert!(lossy < 2 * calm, "{calm} bytes, with losses {lossy}");
}

/// What a process of ours has taken at most, as the system counts it.
#[cfg(target_os = "linux")]
fn memory_peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    number.expect("the kernel counts in kB")
}

#[cfg(target_os = "linux")]
#[test]
fn ten_thousand_nodes_fit_into_8_gb() {
    if std::env::var("SKEP_TEST_LONG").is_err() {
        return;
    }
    let report = run(&Setup::calm(1, 10_000, 1));
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let peak_kib = memory_peak_kib();
    println!("{peak_kib} KiB, {:?}, {} s", report.counts, report.virtual_ms / 1000);
    assert!(peak_kib < 8 << 20, "{peak_kib} KiB");
}
