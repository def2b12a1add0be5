use skep_base::Hash32;
use skep_wire::swarm::{Artifact, TaskStatus};

use super::*;

const NOW: Timestamp = Timestamp::from_ms(1_000);

fn agent(number: u8) -> Agent {
    let me = Did::from_fingerprint(Hash32([number; 32]));
    Agent { seed: 1, me, botches: false, accepts_all: false }
}

fn task() -> Task {
    Task {
        task_id: "task-1".to_owned(),
        parent_task_id: None,
        epoch: 1,
        status: TaskStatus::Pending,
        description: "Count the ships".to_owned(),
        assigned_to: None,
        tier_level: 1,
        subtasks: Vec::new(),
        created_at: NOW,
        deadline: NOW,
        capabilities_required: Vec::new(),
        depth: 0,
        index: 0,
        complexity: Share::percent(20),
        needs_approval: false,
    }
}

fn result(content: &str) -> SubmitResult {
    let artifact = Artifact {
        artifact_id: "a".to_owned(),
        task_id: "task-1".to_owned(),
        producer: agent(2).me,
        content_cid: String::new(),
        merkle_hash: Hash32::ZERO,
        content_type: "text/plain".to_owned(),
        size_bytes: 0,
        created_at: NOW,
    };
    SubmitResult {
        task_id: "task-1".to_owned(),
        agent_id: agent(2).me,
        artifact,
        merkle_proof: Vec::new(),
        content: Some(content.to_owned()),
        parts: Vec::new(),
    }
}

fn accepts(agent: &Agent, content: &str) -> bool {
    let ask = Ask::Check { task: task(), result: Box::new(result(content)) };
    matches!(agent.answer(NOW, &ask), (_, Answer::Checked { accepted: true, .. }))
}

#[test]
fn false_work_is_told_from_true() {
    let honest = agent(1);
    let ask = Ask::Execute { task: task(), attempt: 1, reason: None };
    let (_, Answer::Work { content, .. }) = honest.answer(NOW, &ask) else { panic!() };
    assert!(accepts(&honest, &content));

    let liar = Agent { botches: true, ..agent(2) };
    let (_, Answer::Work { content, .. }) = liar.answer(NOW, &ask) else { panic!() };
    assert!(!accepts(&honest, &content));
    assert!(accepts(&Agent { accepts_all: true, ..agent(3) }, &content));
}

#[test]
fn a_ballot_ranks_every_plan_once_and_its_own_last() {
    let plans: Vec<Plan> = (1..5)
        .map(|number| match agent(number).answer(NOW, &Ask::Plan { task: task() }) {
            (_, Answer::Plan { plan, .. }) => plan,
            _ => panic!(),
        })
        .collect();
    assert!(plans.iter().all(|plan| (2..=5).contains(&plan.subtasks.len())));
    let ask = Ask::Vote { task: task(), plans: plans.clone(), critiques: Vec::new() };
    let (_, Answer::Vote { rankings, .. }) = agent(2).answer(NOW, &ask) else { panic!() };
    assert_eq!(rankings.last(), Some(&plans[1].plan_id));
    let mut sorted = rankings.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), plans.len());
}

/// Some honest work is botched; when it is done again, it is good.
#[test]
fn what_is_botched_is_mended_when_it_is_done_again() {
    let honest = agent(1);
    let works = |attempt: u32| {
        let each = (0..200).map(move |number| {
            let task = Task { task_id: format!("task-{number}"), ..task() };
            Ask::Execute { task, attempt, reason: None }
        });
        let good = good_work(&task().description);
        each.filter(|ask| {
            matches!(honest.answer(NOW, ask),
                (_, Answer::Work { content, .. }) if content == good)
        })
        .count()
    };
    assert!((170..200).contains(&works(1)), "{}", works(1));
    assert_eq!(works(2), 200);
}
