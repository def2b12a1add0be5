//! How a plan is carried out: orders, work, checks, the whole result.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use skep_sim::Setup;
use skep_swarm::aggregate;
use skep_wire::swarm::{End, ErrorCode, Message, plain_id};

use super::{World, room::Room};

pub async fn tasks_enter_through_tier_1(_: &World) -> Result<String> {
    let mut room = Room::new(12);
    let epoch = room.epoch();
    let below = room.nodes.keys().copied().find(|did| !epoch.tier1().contains(did));
    let order = room.order(room.task("task"));
    let code = room.give(&below.context("all lead")?, order);
    ensure!(code == Some(ErrorCode::InvalidRequest), "a task below Tier 1: {code:?}");
    for leader in epoch.tier1() {
        let order = room.order(room.task(&leader.to_string()));
        ensure!(room.give(leader, order).is_none(), "{leader} took no task");
    }
    Ok(format!("each of the {} leaders takes one, others do not", epoch.tier1().len()))
}

pub async fn parts_are_ordered_by_the_coordinator(world: &World) -> Result<String> {
    let report = world.done.audit()?;
    let task = report.tasks.first().context("no task was planned")?;
    let orders = world.done.said(|said| match said {
        Message::Assign(order) if plain_id(&order.parent_task_id) == "task" => Some(order),
        _ => None,
    });
    let signers: BTreeSet<_> = orders.iter().map(|(did, _)| did).collect();
    ensure!(signers.len() == 1, "{} gave orders", signers.len());
    let plans: BTreeSet<_> = orders.iter().map(|(_, order)| &order.winning_plan_id).collect();
    ensure!(plans.len() == 1 && task.plans.contains(plans.first().context("none")?), "{plans:?}");
    for (_, order) in &orders {
        ensure!(order.task.assigned_to == Some(order.assignee), "an order for somebody else");
    }
    Ok(format!("{} orders by one coordinator, for the plan that won", orders.len()))
}

pub async fn results_are_proven_up_to_the_root(world: &World) -> Result<String> {
    let report = world.done.audit()?;
    let ended = report.tasks.first().and_then(|task| task.ended.clone()).context("no end")?;
    ensure!(aggregate::root(&ended.parts) == ended.root, "the root is of something else");
    for (index, part) in (0..).zip(&ended.parts) {
        let artifact = part.as_ref().context("a part is missing")?;
        let place = aggregate::place(&ended.parts, index).context("a part has no place")?;
        ensure!(aggregate::verify_place(artifact, &place, &ended.root), "{index} is not in it");
        let mut other = artifact.clone();
        other.size_bytes += 1;
        ensure!(!aggregate::verify_place(&other, &place, &ended.root), "another one is in it");
    }
    let results = world.done.said(|said| match said {
        Message::SubmitResult(result) => result.content.as_ref().map(|content| (result, content)),
        _ => None,
    });
    for (_, (result, content)) in &results {
        let cid = aggregate::cid(content.as_bytes());
        ensure!(result.artifact.content_cid == cid, "the CID is that of another content");
    }
    Ok(format!("{} parts have their place under {}", ended.parts.len(), ended.root))
}

pub async fn wrong_work_is_done_again_and_then_by_another(_: &World) -> Result<String> {
    let mut room = Room::new(5);
    let botches = room.nodes.keys().copied().take(2).collect::<Vec<_>>();
    for agent in room.agents.values_mut() {
        agent.botches = botches.contains(&agent.me);
    }
    let (leader, order) = (room.leader()?, room.order(room.task("task")));
    room.give(&leader, order);
    let ended = room.finish(7_200)?;
    ensure!(ended.end == End::Succeeded, "it ended as {:?}", ended.end);
    let refused = room.said(|said| match said {
        Message::Verification(word) if !word.accepted => Some(word),
        _ => None,
    });
    ensure!(refused.iter().all(|(_, word)| word.reason.is_some()), "refused without a reason");
    let mut tries: BTreeMap<&str, usize> = BTreeMap::new();
    refused.iter().for_each(|(_, word)| *tries.entry(&word.task_id).or_default() += 1);
    let orders = room.said(|said| match said {
        Message::Assign(order) => Some(order),
        _ => None,
    });
    // Each attempt of an agent is refused once, and there are three more than the first.
    let given_up = |part: &str| tries.get(part) == Some(&4);
    let (_, last) = orders
        .iter()
        .find(|(_, order)| given_up(&order.task.task_id))
        .with_context(|| format!("nobody was refused four times: {tries:?}"))?;
    ensure!(tries.values().all(|tries| *tries <= 4), "somebody went on trying: {tries:?}");
    let another = orders.iter().any(|(_, order)| {
        (&order.parent_task_id, order.task.index) == (&last.parent_task_id, last.task.index)
            && order.assignee != last.assignee
    });
    ensure!(another, "nobody else got the part");
    let refusals = refused.len();
    Ok(format!("{refusals} refusals with reasons; after three reworks the part goes to another"))
}

pub async fn a_whole_task_is_decided_again_offline(world: &World) -> Result<String> {
    let report = world.done.audit()?;
    ensure!(report.differences.is_empty(), "{:?}", report.differences);
    let methods: BTreeSet<&str> =
        world.done.sent.iter().map(|sent| sent.message.method()).collect();
    let flow = [
        "task.inject",
        "consensus.proposal_commit",
        "consensus.proposal_reveal",
        "consensus.vote",
        "task.assign",
        "task.submit_result",
        "task.verification",
    ];
    for method in flow {
        ensure!(methods.contains(method), "nobody has sent {method}");
    }
    Ok(format!("{} signed messages, from the injection to the root", report.messages))
}

pub async fn a_third_of_liars_changes_nothing(_: &World) -> Result<String> {
    let setup = Setup { byzantine: 10, ..Setup::calm(1, 31, 1) };
    let report = skep_sim::run(&setup);
    ensure!(report.violations.is_empty(), "{:?}", report.violations);
    let known = report.outcomes.iter().filter(|outcome| outcome.known.is_some()).count();
    ensure!(known == 1, "the client has not heard the end");
    Ok(format!("10 of 31 lie, {} messages, no invariant broken", report.counts.messages))
}
