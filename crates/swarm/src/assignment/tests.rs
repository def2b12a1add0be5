use super::*;

/// DIDs in the order of their numbers.
fn did(n: u8) -> Did {
    Did::from_fingerprint(skep_base::Hash32([n; 32]))
}

fn texts(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

fn part(index: u32, needs: &str) -> Subtask {
    Subtask {
        index,
        description: String::new(),
        required_capabilities: texts(needs),
        estimated_complexity: Share::ZERO,
    }
}

fn worker(n: u8, can: &str, active_tasks: u32, percent: u32) -> Worker {
    Worker { did: did(n), capabilities: texts(can), active_tasks, weight: Share::percent(percent) }
}

fn assigned(parts: &[Subtask], workers: &[Worker], avoid: &[(u32, u8)]) -> Vec<(u32, u8)> {
    let avoid = avoid.iter().map(|(index, n)| (*index, did(*n))).collect();
    let assigned = assign(parts, workers, &avoid);
    assigned.into_iter().map(|(index, did)| (index, did.fingerprint().0[0])).collect()
}

#[test]
fn work_goes_to_who_can_then_to_who_is_free() {
    let workers =
        [worker(3, "web", 0, 90), worker(1, "web sql", 2, 50), worker(2, "sql web", 2, 60)];
    let parts = [part(2, "web"), part(0, "sql web"), part(1, "sql sql"), part(3, "")];
    assert_eq!(assigned(&parts, &workers, &[]), [(0, 2), (1, 1), (2, 3), (3, 3)]);
    let equal = [worker(2, "", 0, 50), worker(1, "", 0, 50)];
    let parts: Vec<Subtask> = (0..4).map(|index| part(index, "")).collect();
    assert_eq!(assigned(&parts, &equal, &[]), [(0, 1), (1, 2), (2, 1), (3, 2)]);
}

#[test]
fn nobody_can_do_it_all() {
    let workers = [worker(1, "a", 0, 50), worker(2, "a b", 9, 10), worker(3, "", 0, 90)];
    assert_eq!(assigned(&[part(0, "a b c")], &workers, &[]), [(0, 2)]);
    assert_eq!(assigned(&[part(0, "z")], &workers, &[]), [(0, 3)]);
    assert_eq!(assigned(&[part(0, "a")], &[], &[]), []);
    assert_eq!(assigned(&[], &workers, &[]), []);
}

#[test]
fn who_failed_comes_last() {
    let workers = [worker(1, "a", 0, 50), worker(2, "", 5, 50)];
    assert_eq!(assigned(&[part(0, "a")], &workers, &[(0, 1)]), [(0, 2)]);
    assert_eq!(assigned(&[part(1, "a")], &workers, &[(0, 1)]), [(1, 1)], "at another part only");
    assert_eq!(assigned(&[part(0, "a")], &workers, &[(0, 1), (0, 2)]), [(0, 1)]);
}

fn answer(n: u8, active_tasks: u32, affinities: &[(&str, u32)]) -> Accept {
    Accept {
        task_id: "t".to_owned(),
        agent_id: did(n),
        active_tasks,
        capabilities: Vec::new(),
        affinity_scores: affinities
            .iter()
            .map(|(name, percent)| (name.to_string(), Share::percent(*percent)))
            .collect(),
    }
}

#[test]
fn a_board_takes_the_least_busy_then_the_fittest() {
    let answers = [
        answer(4, 1, &[("a", 100), ("b", 100)]),
        answer(3, 0, &[("a", 50), ("other", 100)]),
        answer(2, 0, &[("a", 30), ("b", 30)]),
        answer(1, 0, &[("a", 50)]),
        answer(1, 0, &[]),
    ];
    let order = [2, 1, 3, 4].map(did);
    assert_eq!(board(&answers, &texts("a b a"), 10), order);
    assert_eq!(board(&answers, &texts("a b"), 2), order[..2]);
    assert_eq!(board(&answers, &[], 3), [1, 2, 3].map(did), "nothing is required: by DID");
    assert_eq!(board(&[], &texts("a"), 3), []);
}

#[test]
fn seats_by_pool() {
    let cases = [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (12, 3),
        (13, 4),
        (29, 9),
        (30, 10),
        (31, 5),
        (36, 6),
        (100, 10),
        (usize::MAX, 10),
    ];
    for (pool, seats) in cases {
        assert_eq!(capacity(pool), seats, "{pool}");
    }
}
