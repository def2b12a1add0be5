//! Publications with the specification's own fields and nothing else (7.1). No public key signs
//! them, so that L1 never holds; 8.3 asks for nothing but the function, so that L2 can.

use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use skep_wire::score::{Diversity, FORMULA_VERSION, Fraction, Parameters, Phase, Publication};

/// A publication, and which of its fields nobody has stated.
pub(super) struct Reading {
    pub(super) publication: Publication,
    pub(super) is_plain: bool,
    /// Paths that are not compared.
    pub(super) unstated: Vec<String>,
}

/// Derived fields of which the specification gives an example, and no rule.
const WITHOUT_A_RULE: [&str; 2] = ["benchmark.streak_days", "escrow.description"];

pub(super) fn read(said: &Value) -> Result<Reading, serde_json::Error> {
    // Whoever names its formula or its key has the additions too, all of them.
    let is_plain = said.get("formula_version").is_none() && said["issuer"].get("kid").is_none();
    if !is_plain {
        let publication = Publication::deserialize(said)?;
        return Ok(Reading { publication, is_plain, unstated: Vec::new() });
    }
    let mut filled = said.clone();
    let mut unstated = WITHOUT_A_RULE.map(str::to_owned).to_vec();
    if let (Value::Object(stated), Value::Object(additions)) = (&mut filled, additions()) {
        // An HMAC is no signature that others can check.
        if let Some(issuer) = stated.get_mut("issuer").and_then(Value::as_object_mut) {
            issuer.remove("signature");
        }
        fill(stated, additions, "", &mut unstated);
    }
    Ok(Reading { publication: Publication::deserialize(filled)?, is_plain, unstated })
}

/// What the specification's format does not have, or does not ask for.
fn additions() -> Value {
    json!({
        "formula_version": FORMULA_VERSION,
        "issuer": { "kid": "" },
        "dimensions": { "commercial_reliability": { "escrow_released_90d_cents": 0 } },
        "gates": { "operator_under_review": false },
        "parameters": Parameters::SPEC,
        "escrow": { "effective_modifier": Fraction::ONE, "description": "" },
        "benchmark": { "tier": "NONE", "streak_days": 0 },
        "score_gap": 0,
        "phase": Phase::default(),
        "signal": "",
        "diversity": Diversity::default(),
        "evidence": {
            "recent_proof_hashes": [],
            "proof_chain_root": "",
            "log": { "first_n": 0, "last_n": 0, "chain_before": "", "chain_after": "" },
        },
    })
}

fn fill(
    stated: &mut Map<String, Value>,
    additions: Map<String, Value>,
    path: &str,
    unstated: &mut Vec<String>,
) {
    for (name, addition) in additions {
        let path = super::path_to(path, &name);
        match (stated.get_mut(&name), addition) {
            (Some(Value::Object(stated)), Value::Object(additions)) => {
                fill(stated, additions, &path, unstated);
            }
            (Some(_), _) => {}
            (None, addition) => {
                stated.insert(name, addition);
                unstated.push(path);
            }
        }
    }
}
