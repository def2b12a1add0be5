//! What each field of a publication is found out by, when its issuer changes it and signs again.

use std::collections::{BTreeMap, BTreeSet};

use skep_score::verify::{self, Source};

use crate::{
    publication::{changed, leaves},
    world::{Checks, World},
};

/// Fields that fail others than a check of their own name in L2, and which: numbers that others
/// follow from, and inputs of which only the evidence knows. `*` is any place of a list, and
/// `nothing` is the issuer's word.
const STANDARD: &str = "\
agent_passport_id: L3 agent_id
benchmark.continuous_since: L2 benchmark.times
benchmark.first_earned_at: L2 benchmark.first_earned_at benchmark.times
benchmark.last_evaluated_at: L2 benchmark.times
benchmark.status: L2 benchmark.tier benchmark.continuous_since
benchmark.tier: nothing
dimensions.commercial_reliability.ap2_sessions_90d: L2 dimensions.commercial_reliability
    evidence.log.first_n dimensions.commercial_reliability.ap2_rate_90d
    dimensions.commercial_reliability.ap2_volume_factor gates.meets_success_rate
    qualification_gaps score.tier signal L3 facts.ap2_sessions_90d
dimensions.commercial_reliability.ap2_sessions_lifetime: L2 evidence.log.last_n
dimensions.commercial_reliability.ap2_successful_90d: L2
    dimensions.commercial_reliability.ap2_rate_90d escrow.description escrow.effective_modifier
    escrow.modifier score.ap2_contribution score.value signal L3 facts.ap2_successful_90d
dimensions.commercial_reliability.escrow_released_90d_cents: L2
    dimensions.commercial_reliability L3 facts.escrow_released_90d_cents
dimensions.commercial_reliability.total_escrow_released_cents: nothing
dimensions.technical_execution.conduit_sessions_90d: L2 evidence.log.first_n
    dimensions.technical_execution.conduit_rate_90d
    dimensions.technical_execution.conduit_volume_factor gates.meets_success_rate
    qualification_gaps score.tier signal L3 facts.conduit_sessions_90d
dimensions.technical_execution.conduit_sessions_lifetime: L2 evidence.log.last_n
dimensions.technical_execution.conduit_successful_90d: L2
    dimensions.technical_execution.conduit_rate_90d escrow.effective_modifier escrow.modifier
    score.conduit_contribution score.value signal L3 facts.conduit_successful_90d
dimensions.technical_execution.verified_proof_count: L2 dimensions.technical_execution L3
    facts.verified_proof_count
diversity.counterparties: L3 facts.counterparties
diversity.domains_worked: nothing
diversity.flags: L3 facts.flags
diversity.task_types.*: nothing
evidence.log.chain_after: L2 evidence.log.chain evidence.proof_chain_root L3 facts.chain
evidence.log.chain_before: L2 evidence.log.chain L3 facts.chain_before
evidence.log.first_n: L2 evidence.log.first_n L3 facts.number
evidence.log.last_n: L2 evidence.log.last_n evidence.log.first_n L3 facts.number facts.order
evidence.proof_chain_root: L2 evidence.log.chain evidence.proof_chain_root
evidence.recent_proof_hashes.*: L2 evidence.recent_proof_hashes L3 facts.recent_proof_hashes
    sessions.missing
gates.atep_tier: L2 phase qualification_gaps score.tier signal
gates.disputed_sessions_active: L2 escrow.effective_modifier qualification_gaps score.tier
gates.has_cryptographic_identity: L2 qualification_gaps score.tier
gates.operator_under_review: L2 escrow.effective_modifier
issuer.computed_at: L1 computed_at L2 valid_until benchmark.streak_days
issuer.kid: L1 kid
issuer.platform: L1 platform_url issuer_host
issuer.platform_url: L1 platform_url
parameters.elite.ap2_sessions: L2 parameters
parameters.elite.conduit_sessions: L2 parameters
parameters.elite.score: L2 parameters
parameters.elite.success_rate: L2 parameters
parameters.standard.ap2_sessions: L2 parameters
parameters.standard.conduit_sessions: L2 parameters
parameters.standard.score: L2 parameters
parameters.standard.success_rate: L2 parameters
parameters.version: L2 parameters
";

/// The same of an agent with an import, where it is something else.
const TRAVELLED: &str = "\
benchmark.continuous_since: L1 format
benchmark.first_earned_at: L1 format
benchmark.status: L1 format
benchmark.tier: L1 format
dimensions.commercial_reliability.ap2_sessions_90d: L2 dimensions.commercial_reliability
    evidence.log.first_n dimensions.commercial_reliability.ap2_rate_90d
    dimensions.commercial_reliability.ap2_volume_factor qualification_gaps signal
    with_imports.ap2_sessions_90d L3 facts.ap2_sessions_90d
dimensions.commercial_reliability.ap2_sessions_lifetime: L2 evidence.log.last_n
    with_imports.probation.local_sessions
dimensions.commercial_reliability.ap2_successful_90d: L2 dimensions.commercial_reliability
    dimensions.commercial_reliability.ap2_rate_90d escrow.description escrow.effective_modifier
    escrow.modifier score.ap2_contribution score.value score_gap signal
    with_imports.ap2_successful_90d with_imports.score L3 facts.ap2_successful_90d
dimensions.technical_execution.conduit_sessions_90d: L2 dimensions.technical_execution
    evidence.log.first_n dimensions.technical_execution.conduit_rate_90d
    dimensions.technical_execution.conduit_volume_factor qualification_gaps signal
    with_imports.conduit_sessions_90d L3 facts.conduit_sessions_90d
dimensions.technical_execution.conduit_sessions_lifetime: L2 evidence.log.last_n
    with_imports.probation.local_sessions
dimensions.technical_execution.conduit_successful_90d: L2 dimensions.technical_execution
    dimensions.technical_execution.conduit_rate_90d escrow.effective_modifier escrow.modifier
    score.conduit_contribution score.value score_gap signal with_imports.conduit_successful_90d
    with_imports.score L3 facts.conduit_successful_90d
gates.atep_tier: L1 format
gates.disputed_sessions_active: L2 escrow.effective_modifier qualification_gaps
gates.has_cryptographic_identity: L2 qualification_gaps
issuer.computed_at: L1 computed_at L2 valid_until
issuer.platform_url: nothing
parameters.standard.ap2_sessions: L2 parameters qualification_gaps
parameters.standard.conduit_sessions: L2 parameters qualification_gaps
parameters.standard.score: L2 parameters score_gap
score.tier: L1 format
with_imports.atep_tier: L2 phase signal
with_imports.ends_at: L3 imports.ends_at
with_imports.import_haircut: L2 escrow.effective_modifier signal with_imports.ap2_sessions_90d
    with_imports.ap2_successful_90d with_imports.conduit_sessions_90d
    with_imports.conduit_successful_90d with_imports.score with_imports.tier
with_imports.imported.ap2_sessions: L2 signal with_imports.ap2_sessions_90d L3 imports.counts
with_imports.imported.ap2_successful: L2 escrow.effective_modifier signal
    with_imports.ap2_successful_90d with_imports.score L3 imports.counts
with_imports.imported.conduit_sessions: L2 signal with_imports.conduit_sessions_90d L3
    imports.counts
with_imports.imported.conduit_successful: L2 escrow.effective_modifier signal
    with_imports.conduit_successful_90d with_imports.score L3 imports.counts
with_imports.platform: L3 imports.publication imports.platform
with_imports.probation.sessions_needed: nothing
with_imports.tier: L1 format
";

/// The words of each row, by its field. A row goes on where the next line is indented.
fn table(text: &'static str) -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut rows = BTreeMap::new();
    let mut field = "";
    for line in text.lines() {
        let rest = match line.split_once(": ") {
            Some((name, rest)) => {
                field = name;
                rest
            }
            None => line,
        };
        rows.entry(field).or_insert_with(Vec::new).extend(rest.split_whitespace());
    }
    rows
}

/// `L2 score.value L3 …` of a publication in which one field was changed and signed again.
fn failed(world: &World, pointer: &str) -> String {
    let mut certificate = world.certificate();
    let leaf = certificate.publication.pointer_mut(pointer).unwrap();
    *leaf = changed(leaf);
    world.resign(&mut certificate.publication);
    let keys = world.house.keys();
    let source = Source { keys: &keys, host: Some(world.house.platform) };
    let answer = verify::certificate(&certificate, Some(&source), None, &Checks, world.now);
    let mut words: Vec<String> = Vec::new();
    let mut level = None;
    for failed in answer.failed_checks {
        if level.replace(failed.level) != Some(failed.level) {
            words.push(format!("{:?}", failed.level));
        }
        if words.last() != Some(&failed.check) {
            words.push(failed.check);
        }
    }
    if words.is_empty() { "nothing".to_owned() } else { words.join(" ") }
}

#[test]
fn every_field_that_was_signed_again_fails_by_the_names_of_its_checks() {
    let mut unused: BTreeSet<&str> = table(STANDARD).into_keys().collect();
    unused.extend(table(TRAVELLED).keys());
    let travelled = table(STANDARD).into_iter().chain(table(TRAVELLED)).collect();
    for (world, table) in [(World::standard(1), table(STANDARD)), (World::travelled(), travelled)] {
        let mut fields = Vec::new();
        leaves(&world.value(), String::new(), &mut fields);
        for pointer in fields.iter().filter(|field| *field != "/issuer/signature") {
            let path = pointer[1..].replace('/', ".");
            let (path, row) = match path.rsplit_once('.') {
                Some((list, index)) if index.parse::<u8>().is_ok() => {
                    (list.to_owned(), format!("{list}.*"))
                }
                _ => (path.clone(), path),
            };
            let own = || format!("L2 {path}");
            let expected = table.get(&*row).map_or_else(own, |words| words.join(" "));
            assert_eq!(failed(&world, pointer), expected, "{pointer}");
            unused.remove(&*row);
        }
    }
    assert!(unused.is_empty(), "no such fields: {unused:?}");
}
