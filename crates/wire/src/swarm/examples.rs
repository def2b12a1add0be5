//! One message of each method in the shape of the specification, for whoever checks a reader.

use serde_json::{Value, json};
use skep_base::{Did, Hash32, ed25519::PublicKey, hash::sha256};

use super::{PROTOCOL_VERSION, key_text};

/// When they were sent.
pub const NOW: &str = "2026-02-07T12:00:00Z";

/// Params that `me` has to sign; the others are those whom they are about.
pub fn params(method: &str, me: &PublicKey, others: [Did; 2]) -> Option<Value> {
    peers(method, me, others)
        .or_else(|| planning(method, &me.did(), others))
        .or_else(|| working(method, &me.did(), others))
}

/// Who takes part and who leads.
fn peers(method: &str, me: &PublicKey, [other, third]: [Did; 2]) -> Option<Value> {
    let (key, me) = (key_text::write(me), me.did());
    let place = json!({"x": 0.45, "y": 0.12, "z": 0.99});
    Some(match method {
        "swarm.handshake" => json!({
            "agent_id": me, "pub_key": key,
            "capabilities": ["python"], "location_vector": place,
            "resources": {"cpu_cores": 8, "ram_gb": 32, "gpu_vram_gb": null, "disk_gb": 100},
            "proof_of_work": {"nonce": 283_741, "hash": Hash32::ZERO, "difficulty": 16},
            "protocol_version": PROTOCOL_VERSION,
        }),
        "election.candidacy" => json!({
            "agent_id": me, "epoch": 106, "location_vector": place,
            "score": {
                "agent_id": me, "proof_of_compute": 0.85, "reputation": 0.92, "uptime": 0.99,
                "stake": 0.5,
            },
        }),
        "election.vote" => {
            json!({"voter": me, "epoch": 106, "candidate_rankings": [other, third]})
        }
        "hierarchy.assign_tier" => json!({
            "assigned_agent": other, "tier": {"TierN": 2}, "parent_id": me, "epoch": 106,
            "branch_size": 85,
        }),
        "swarm.keepalive" => json!({
            "agent_id": me, "epoch": 105, "timestamp": NOW, "location_vector": place,
            "location_error": 0.25, "computed": {"epoch": 105, "nonce": 283_741},
            "echoes": [{"agent_id": other, "timestamp": NOW, "held_ms": 1_700}],
        }),
        "hierarchy.succession" => json!({
            "failed_leader": other, "new_leader": me, "epoch": 106, "branch_agents": [third],
        }),
        _ => return None,
    })
}

fn scores() -> Value {
    json!({"plan-1": {
        "feasibility": 0.9, "parallelism": 0.8, "completeness": 0.85, "risk": 0.2,
    }})
}

/// How a plan is found.
fn planning(method: &str, me: &Did, [other, third]: [Did; 2]) -> Option<Value> {
    Some(match method {
        "board.invite" => json!({
            "task_id": "task-1", "task_digest": "Compare", "complexity_estimate": 0.85,
            "depth": 0, "required_capabilities": ["web"], "capacity": 5, "chair": me,
        }),
        "board.accept" => json!({
            "task_id": "task-1", "agent_id": me, "active_tasks": 2, "capabilities": ["web"],
            "affinity_scores": {"web": 0.9},
        }),
        "board.decline" => json!({"task_id": "task-1", "agent_id": me}),
        "board.ready" => json!({
            "task_id": "task-1", "chair_id": me, "members": [other, third],
            "adversarial_critic": other,
        }),
        "board.dissolve" => json!({"task_id": "task-1"}),
        "discussion.critique" => json!({
            "task_id": "task-1", "voter_id": me, "round": 2, "plan_scores": scores(),
            "content": "The second part is too thin.",
        }),
        "consensus.proposal_commit" => {
            json!({"task_id": "task-1", "proposer": me, "epoch": 106, "plan_hash": sha256(b"")})
        }
        "consensus.proposal_reveal" => json!({"task_id": "task-1", "plan": {
            "plan_id": "plan-1", "task_id": "task-1", "proposer": me, "epoch": 106,
            "subtasks": [{
                "index": 0, "description": "Gather numbers",
                "required_capabilities": ["web"], "estimated_complexity": 0.7,
            }],
            "rationale": "Each market alone", "estimated_parallelism": 0.85, "created_at": NOW,
        }}),
        "consensus.vote" => json!({
            "task_id": "task-1", "epoch": 106, "voter": me, "rankings": ["plan-1", "plan-2"],
            "critic_scores": scores(),
        }),
        "consensus.certificate" => json!({
            "subject": {"about": "plan", "task_id": "task-1"}, "view": 0, "word": "sign",
            "step": "prepare", "hash": sha256(b"value"),
        }),
        _ => return None,
    })
}

/// What is to be done, and what was done.
fn working(method: &str, me: &Did, [other, _]: [Did; 2]) -> Option<Value> {
    let task = json!({
        "task_id": "task-1", "parent_task_id": null, "epoch": 106, "status": "Pending",
        "description": "Compare three markets", "assigned_to": null, "tier_level": 1,
        "subtasks": [], "created_at": NOW, "deadline": "2026-02-08T12:00:00Z",
    });
    Some(match method {
        "task.inject" => json!({"task": task, "originator": me}),
        "task.assign" => json!({
            "task": task, "assignee": other, "parent_task_id": "task-0",
            "winning_plan_id": "plan-1",
        }),
        "task.submit_result" => json!({
            "task_id": "task-1", "agent_id": me, "merkle_proof": [sha256(b"1"), sha256(b"2")],
            "artifact": {
                "artifact_id": "art-1", "task_id": "task-1", "producer": me,
                "content_cid": "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku",
                "merkle_hash": sha256(b""), "content_type": "application/json",
                "size_bytes": 4096, "created_at": NOW,
            },
        }),
        "task.verification" => {
            json!({"task_id": "task-1", "agent_id": other, "accepted": true, "reason": null})
        }
        _ => return None,
    })
}
