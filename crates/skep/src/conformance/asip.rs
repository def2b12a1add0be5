//! ASIP, message by message, with nodes of this program in one room.

mod consensus;
mod errors;
mod execution;
mod hierarchy;
mod messages;
mod room;

use anyhow::{Context, Result};
use skep_wire::swarm::AssignTier;

use self::room::Room;
use super::{Deviation, Report};

const MESSAGES: &str = "Messages";
const HIERARCHY: &str = "Hierarchy";
const CONSENSUS: &str = "Consensus";
const EXECUTION: &str = "Execution";

/// Enough for two tiers, a critic and a Senate.
const MEMBERS: u8 = 12;
/// An epoch, and until its election is over.
const EPOCH_S: u64 = 3_700;

/// What several checks look at.
struct World {
    /// A swarm that has done a task.
    done: Room,
    /// A swarm that has held an election.
    elected: Room,
}

impl World {
    fn new() -> Result<World> {
        let mut elected = Room::new(MEMBERS);
        elected.run(EPOCH_S);
        Ok(World { done: Room::with_a_task(MEMBERS)?, elected })
    }

    /// A swarm of another size that has done a task, to do more with.
    fn again(&self, members: u8) -> Result<Room> {
        Room::with_a_task(members)
    }

    /// Where somebody below Tier 1 belongs.
    fn place(&self) -> Result<AssignTier> {
        let epoch = self.done.epoch();
        let layout = epoch.layout();
        let mut places = epoch.members().iter().filter_map(|did| {
            Some(AssignTier {
                assigned_agent: *did,
                tier: layout.tier_of(did)?,
                parent_id: layout.parent_of(did)?,
                epoch: epoch.number(),
                branch_size: layout.branch_size(did),
            })
        });
        places.next().context("all are in Tier 1")
    }
}

pub async fn report() -> Result<Report> {
    let world = World::new()?;
    let mut lines = message_lines(&world).await;
    lines.extend(hierarchy_lines(&world).await);
    lines.extend(consensus_lines(&world).await);
    lines.extend(execution_lines(&world).await);
    let reached = |level| lines.iter().filter(|line| line.level == level).all(|line| line.passed);
    let levels =
        [MESSAGES, HIERARCHY, CONSENSUS, EXECUTION].map(|level| (level, reached(level))).to_vec();
    let (spec, name) = ("ASIP protocol messages, /openswarm/1.0.0", "ASIP");
    Ok(Report { spec, name, levels, lines, deviations: deviations() })
}

async fn message_lines(world: &World) -> Vec<super::Line> {
    vec![
        line!(world, MESSAGES "1–19" "all nineteen methods, in the shape of the specification"
            => messages::all_nineteen_are_read_and_passed_on_as_they_came),
        line!(world, MESSAGES "envelope" "Ed25519 over the canonical JSON of method and params"
            => messages::the_signature_covers_method_and_params),
        line!(world, MESSAGES "registry" "who sends what to whom"
            => messages::only_who_is_named_may_sign),
        line!(world, MESSAGES "registry" "1, 4, 5, 9 and 10 have a response, the others none"
            => messages::five_methods_are_answered),
        line!(world, MESSAGES "errors" "-32700, -32600, -32601, -32602"
            => errors::json_rpc_has_its_four),
        line!(world, MESSAGES "errors" "-32000, -32001, -32002, -32003"
            => errors::the_protocol_has_its_four),
        line!(world, MESSAGES "errors" "-31000, -31001, -31002, -31003"
            => errors::consensus_has_its_four),
        line!(world, MESSAGES "errors" "-30000, -30001, -30002"
            => errors::tasks_have_their_three),
    ]
}

async fn hierarchy_lines(world: &World) -> Vec<super::Line> {
    vec![
        line!(world, HIERARCHY "1" "signature, proof of work and version of a handshake"
            => hierarchy::a_handshake_shows_work_and_a_version),
        line!(world, HIERARCHY "2" "the composite score and its minima"
            => hierarchy::the_composite_score_is_the_formula),
        line!(world, HIERARCHY "3" "weighted Borda count"
            => hierarchy::leaders_are_elected_by_weighted_borda),
        line!(world, HIERARCHY "4" "tiers, and parents that assign them"
            => hierarchy::every_epoch_has_its_election_and_tiers),
        line!(world, HIERARCHY "12" "a keepalive every 10 seconds"
            => hierarchy::keepalives_come_every_ten_seconds),
        line!(world, HIERARCHY "13" "succession after three missed keepalives"
            => hierarchy::a_silent_leader_has_one_successor),
    ]
}

async fn consensus_lines(world: &World) -> Vec<super::Line> {
    vec![
        line!(world, CONSENSUS "14–18" "boards: invited, accepted, ready, dissolved"
            => consensus::a_board_forms_with_a_drawn_critic),
        line!(world, CONSENSUS "6, 7" "commit, then reveal: the hash is that of the plan"
            => consensus::plans_are_what_was_committed_to),
        line!(world, CONSENSUS "6" "60 seconds for commits, and no phase waits for ever"
            => consensus::each_phase_ends_without_the_silent),
        line!(world, CONSENSUS "19" "critiques with scores"
            => consensus::critiques_come_from_every_member),
        line!(world, CONSENSUS "8" "ranked choice voting and the critics' formula"
            => consensus::ranked_choices_decide),
        line!(world, CONSENSUS "8" "the Senate votes with the board"
            => consensus::board_and_senate_vote),
        line!(world, CONSENSUS "8" "one plan is final"
            => consensus::an_outcome_is_final_by_two_thirds),
    ]
}

async fn execution_lines(world: &World) -> Vec<super::Line> {
    vec![
        line!(world, EXECUTION "5" "tasks enter through any Tier-1 agent"
            => execution::tasks_enter_through_tier_1),
        line!(world, EXECUTION "9" "parts of the winning plan are assigned"
            => execution::parts_are_ordered_by_the_coordinator),
        line!(world, EXECUTION "10" "artifacts with Merkle proofs"
            => execution::results_are_proven_up_to_the_root),
        line!(world, EXECUTION "11" "a refused result is reworked three times, then reassigned"
            => execution::wrong_work_is_done_again_and_then_by_another),
        line!(world, EXECUTION "flow" "from the injection to the final result"
            => execution::a_whole_task_is_decided_again_offline),
        line!(world, EXECUTION "flow" "the same with a third of liars"
            => execution::a_third_of_liars_changes_nothing),
    ]
}

fn deviations() -> Vec<Deviation> {
    let deviation = |clause, deviation| Deviation { clause, deviation };
    vec![
        deviation(
            "envelope",
            "params carry _meta (signer, swarm, epoch, time): without it a signed message could be \
            replayed elsewhere, or be taken for another's",
        ),
        deviation(
            "envelope",
            "responses are not signed, as the specification has it: nothing is decided by them",
        ),
        deviation(
            "1",
            "the proof of work is over the agent's id and the nonce; the specification says only \
            how many zero bits it has",
        ),
        deviation(
            "1",
            "key_chain and evidence may come along: a DID stays when its key changes, and a score \
            counts as far as it is shown",
        ),
        deviation(
            "2, 3",
            "an election is a certificate over its signed record; uptime and compute are what \
            others have observed, and a claim beyond its evidence is refused (-32003)",
        ),
        deviation(
            "6, 8",
            "where all Tier-1 agents are to plan and vote, the board does, with the Senate",
        ),
        deviation(
            "6–8",
            "two different commits or ballots of one agent void both, and all ties end in a total \
            order",
        ),
        deviation(
            "8",
            "an outcome is final by consensus.certificate, a method of our own, signed by two \
            thirds of the witnesses and one more",
        ),
        deviation("13", "a successor is confirmed by a certificate, for one branch and epoch"),
        deviation(
            "17",
            "the critic and the Senate are drawn by a hash of the task's name and of a beacon that \
            was fixed before it; whoever names a task can try several names",
        ),
        deviation("18", "the originator's dissolve takes the task back"),
        deviation("11", "the originator's verification says whether it approves of the plan"),
        deviation(
            "topics",
            "not there yet: GossipSub, and whatever else a network needs; messages are carried by \
            whoever runs a node",
        ),
    ]
}
