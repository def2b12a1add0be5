//! How a plan is found: boards, commits, reveals, critiques, ballots.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use skep_base::Did;
use skep_swarm::{
    draw, judge,
    kept::Kept,
    tally::{self, Ballot},
};
use skep_wire::swarm::{CriticScore, End, Message, Share, plain_id};

use super::{
    World,
    room::{Room, secret},
};

pub async fn a_board_forms_with_a_drawn_critic(world: &World) -> Result<String> {
    let room = &world.done;
    let ready = room.said(|said| match said {
        Message::Ready(ready) if plain_id(&ready.task_id) == "task" => Some(ready),
        _ => None,
    });
    let (chair, ready) = ready.first().context("no board was announced")?;
    let accepted = room.said(|said| matches!(said, Message::Accept(_)).then_some(()));
    let accepted: BTreeSet<Did> = accepted.iter().map(|said| said.0).collect();
    let mut members = ready.members.iter().filter(|did| *did != chair);
    ensure!(members.clone().count() >= judge::CRITIC_FROM, "only {} members", ready.members.len());
    ensure!(members.all(|did| accepted.contains(did)), "some did not accept");
    let drawn = judge::critic_of(&room.epoch(), &room.task("task"), chair, &ready.members);
    ensure!(ready.adversarial_critic == drawn && drawn.is_some(), "another critic than drawn");
    ensure!(room.genesis.timing.board_ms == 5_000, "{} ms", room.genesis.timing.board_ms);
    let dissolved = room.said(|said| matches!(said, Message::Dissolve(_)).then_some(()));
    ensure!(dissolved.iter().any(|(did, ())| did == chair), "it was not dissolved by its chair");
    let members = ready.members.len();
    Ok(format!("{members} members with their chair, a critic by lot, dissolved at the end"))
}

pub async fn plans_are_what_was_committed_to(world: &World) -> Result<String> {
    let room = &world.done;
    let commits: BTreeMap<Did, _> = room
        .said(|said| match said {
            Message::Commit(commit) if plain_id(&commit.task_id) == "task" => {
                Some(commit.plan_hash)
            }
            _ => None,
        })
        .into_iter()
        .collect();
    let (mut reveals, mut last_commit, mut first_reveal) = (0, 0, usize::MAX);
    for (number, sent) in room.sent.iter().enumerate() {
        match &sent.message {
            Message::Commit(commit) if plain_id(&commit.task_id) == "task" => last_commit = number,
            Message::Reveal(reveal) if plain_id(&reveal.task_id) == "task" => {
                let hash = judge::plan_hash(&Kept(sent.clone()));
                let committed = commits.get(&sent.meta.signer).copied();
                ensure!(hash.is_some() && hash == committed, "a plan that nobody committed to");
                first_reveal = first_reveal.min(number);
                reveals += 1;
            }
            _ => {}
        }
    }
    ensure!(reveals >= 3 && reveals == commits.len(), "{reveals} of {}", commits.len());
    ensure!(last_commit < first_reveal, "a plan was shown before all had committed");
    Ok(format!("{reveals} plans, each the SHA-256 of its canonical JSON, after the last commit"))
}

pub async fn each_phase_ends_without_the_silent(_: &World) -> Result<String> {
    let mut room = Room::new(5);
    let (leader, order) = (room.leader()?, room.order(room.task("task")));
    room.line.push_back((leader, order.into()));
    let is_ready = |room: &Room| {
        let ready = room.said(|said| match said {
            Message::Ready(ready) => Some(ready.members.clone()),
            _ => None,
        });
        ready.into_iter().next()
    };
    while is_ready(&room).is_none() && room.advance() {}
    let (_, members) = is_ready(&room).context("no board was announced")?;
    let silent = *members.iter().find(|did| **did != leader).context("a board of one")?;
    room.nodes.remove(&silent);
    let before = room.now;
    let ended = room.finish(3_600)?;
    ensure!(ended.end == End::Succeeded, "it ended as {:?}", ended.end);
    let took_s = room.now.since(before).as_secs();
    ensure!(took_s >= 60, "the commits were waited for {took_s} s only");
    let timing = &room.genesis.timing;
    ensure!(timing.commit_ms == 60_000, "{} ms for commits", timing.commit_ms);
    Ok(format!("a member that went silent delays a task by {took_s} s and stops nothing"))
}

pub async fn critiques_come_from_every_member(world: &World) -> Result<String> {
    let said = world.done.said(|said| match said {
        Message::Critique(critique) if plain_id(&critique.task_id) == "task" => Some(critique),
        _ => None,
    });
    let plans = world.done.said(|said| matches!(said, Message::Reveal(_)).then_some(())).len();
    let who: BTreeSet<Did> = said.iter().map(|(did, _)| *did).collect();
    ensure!(who.len() >= 4, "{} critiques", who.len());
    let scored = said.iter().all(|(_, critique)| critique.plan_scores.len() <= plans);
    ensure!(scored && said.iter().all(|(_, c)| !c.content.is_empty()), "an empty critique");
    Ok(format!("{} members, with scores for each plan", who.len()))
}

fn score(feasibility: u32, parallelism: u32, completeness: u32, risk: u32) -> CriticScore {
    CriticScore {
        feasibility: Share::percent(feasibility),
        parallelism: Share::percent(parallelism),
        completeness: Share::percent(completeness),
        risk: Share::percent(risk),
    }
}

pub async fn ranked_choices_decide(_: &World) -> Result<String> {
    let ballot = |n: u8, rankings: &[&str], scores: &[(&str, CriticScore)]| Ballot {
        voter: secret(n).public().did(),
        rankings: rankings.iter().map(|plan| (*plan).to_owned()).collect(),
        critic_scores: scores.iter().map(|(plan, score)| ((*plan).to_owned(), *score)).collect(),
    };
    // 0.30 * 0.9 + 0.25 * 0.8 + 0.30 * 0.85 + 0.15 * (1 - 0.2)
    let example = [ballot(0, &["a"], &[("a", score(90, 80, 85, 20))])];
    let mean_e6 = tally::critic_mean_e6("a", &example);
    ensure!(mean_e6 == 845_000, "the specification's example is {mean_e6} millionths");
    let plans = ["a", "b", "c"].map(str::to_owned);
    let ballots = [
        ballot(0, &["a", "b"], &[]),
        ballot(1, &["a", "b"], &[]),
        ballot(2, &["b", "c"], &[]),
        ballot(3, &["b", "c"], &[]),
        ballot(4, &["c", "b"], &[]),
    ];
    let runoff = tally::instant_runoff(&plans, &ballots).context("nobody won")?;
    ensure!(runoff.winner == "b" && runoff.rounds.len() == 2, "{runoff:?}");
    ensure!(runoff.rounds[0].eliminated.as_deref() == Some("c"), "{runoff:?}");
    let tied = [ballot(0, &["a"], &[("a", score(10, 10, 10, 90))]), ballot(1, &["b"], &[])];
    let tied = tally::instant_runoff(&plans[..2], &tied).context("nobody won")?;
    ensure!(tied.winner == "a", "a tie fell to the plan with the worse critics");
    Ok("the last goes out, its ballots go on; ties fall to the better critics".to_owned())
}

pub async fn board_and_senate_vote(world: &World) -> Result<String> {
    let voters: BTreeSet<Did> = world
        .done
        .said(|said| match said {
            Message::PlanVote(vote) if plain_id(&vote.task_id) == "task" => Some(()),
            _ => None,
        })
        .into_iter()
        .map(|(did, ())| did)
        .collect();
    let report = world.done.audit()?;
    let task = report
        .tasks
        .iter()
        .find(|task| plain_id(&task.task_id) == "task")
        .context("no such task")?;
    for did in task.board.iter().chain(&task.senate) {
        ensure!(voters.contains(did), "{did} did not vote");
    }
    ensure!(task.ballots == task.board.len() + task.senate.len(), "{} ballots", task.ballots);
    let tier2: Vec<Did> = (0..40).map(|n| secret(n).public().did()).collect();
    let beacon = skep_base::hash::sha256(b"beacon");
    for (among, k, seats) in [(40, 10, 10), (7, 10, 3), (1, 10, 0)] {
        let senate = draw::senate(&beacon, "task", &tier2[..among], k);
        ensure!(senate.len() == seats, "{} of {among} for k = {k}", senate.len());
    }
    let (board, senate) = (task.board.len(), task.senate.len());
    Ok(format!("{board} of the board, {senate} of the Senate: min(k, tier2 / 2) seats"))
}

pub async fn an_outcome_is_final_by_two_thirds(world: &World) -> Result<String> {
    let report = world.done.audit()?;
    ensure!(report.differences.is_empty(), "{:?}", report.differences);
    let task = report.tasks.first().context("no task was planned")?;
    let needed = draw::quorum(task.witnesses);
    ensure!(task.signatures >= needed, "{} of {needed} signatures", task.signatures);
    let (signed, all) = (task.signatures, task.witnesses);
    Ok(format!("{signed} of {all} witnesses have signed, {needed} are needed"))
}
