//! 7.1: the publication of a track record. What follows from the inputs is derived here, for the
//! issuer and for whoever checks it alike.

use std::time::Duration;

use skep_base::{AgentId, Hash32};
pub use skep_wire::score::passport_id;
use skep_wire::{
    score::{
        BenchmarkState, BenchmarkStatus, BenchmarkTier, Commercial, Dimension, Dimensions,
        Diversity, Escrow, Evidence, FORMULA_VERSION, Fraction, GateResults, Issuer, LogSpan,
        NumberedFact, Parameters, Phase, Probation, Publication, RECENT_PROOFS_MAX,
        SWARMSCORE_VERSION, ScoreValue, Technical, WithImports,
    },
    settle::Tier,
};

use crate::{
    atep::Breadth,
    compute::{Input, Score, compute, gaps},
    flags::volume,
    import::{join, probation},
    money::{FULL_E4, modifier_e4},
    phase::{Signal, phase},
    track::{Around, Track},
};

/// Decision 38.
pub const VALID_FOR: Duration = Duration::from_secs(24 * 3600);
const DAY_S: u64 = 24 * 3600;

/// Who publishes.
#[derive(Clone, Copy, Debug)]
pub struct Platform<'a> {
    /// The host (and the port, if it is not the usual one) of `platform_url`.
    pub platform: &'a str,
    pub platform_url: &'a str,
    pub kid: &'a str,
}

/// What is published.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub agent: &'a AgentId,
    pub track: &'a Track,
    pub around: &'a Around<'a>,
    /// The chain's end after the last fact before the window.
    pub chain_before: Hash32,
    /// The newest of the window, oldest first.
    pub facts: &'a [NumberedFact],
    pub breadth: &'a Breadth,
    /// Exports leave out what was imported (decision 41a).
    pub with_imports: bool,
}

/// `sha256:` and the hash.
pub fn tagged(hash: Hash32) -> String {
    format!("sha256:{hash}")
}

/// Builds a publication; [`Publication::sign`] signs it.
pub fn publication(record: &Record<'_>, by: &Platform<'_>) -> Publication {
    let around = record.around;
    let stated = Publication {
        swarmscore_version: SWARMSCORE_VERSION.to_owned(),
        formula_version: FORMULA_VERSION.to_owned(),
        agent_passport_id: passport_id(record.agent),
        issuer: Issuer {
            platform: by.platform.to_owned(),
            platform_url: by.platform_url.to_owned(),
            computed_at: around.now,
            kid: by.kid.to_owned(),
            signature: None,
        },
        score: ScoreValue {
            value: 0,
            tier: BenchmarkTier::None,
            conduit_contribution: 0,
            ap2_contribution: 0,
        },
        dimensions: dimensions(record),
        gates: gates(record),
        parameters: *around.parameters,
        escrow: Escrow {
            modifier: Fraction::ONE,
            effective_modifier: Fraction::ONE,
            description: String::new(),
        },
        benchmark: benchmark(record.track),
        qualification_gaps: Vec::new(),
        score_gap: 0,
        phase: Phase::Unverified,
        signal: String::new(),
        diversity: diversity(record),
        evidence: evidence(record),
        with_imports: imports(record),
        valid_until: around.now.plus(VALID_FOR),
    };
    derive(&stated)
}

fn dimensions(record: &Record<'_>) -> Dimensions {
    let totals = &record.track.totals;
    let window = totals.since(record.around.base);
    Dimensions {
        technical_execution: Technical {
            conduit_sessions_90d: window.conduit,
            conduit_successful_90d: window.conduit_ok,
            conduit_rate_90d: 0.0,
            conduit_volume_factor: 0.0,
            conduit_sessions_lifetime: totals.conduit,
            verified_proof_count: window.proofs,
        },
        commercial_reliability: Commercial {
            ap2_sessions_90d: window.ap2,
            ap2_successful_90d: window.ap2_ok,
            ap2_rate_90d: 0.0,
            ap2_volume_factor: 0.0,
            ap2_sessions_lifetime: totals.ap2,
            total_escrow_released_cents: totals.released_cents,
            escrow_released_90d_cents: window.released_cents,
        },
    }
}

fn gates(record: &Record<'_>) -> GateResults {
    GateResults {
        atep_tier: record.track.tier,
        has_cryptographic_identity: record.around.has_key,
        disputed_sessions_active: record.track.disputes,
        meets_conduit_minimum: false,
        meets_ap2_minimum: false,
        meets_success_rate: false,
        operator_under_review: record.around.cooldown,
    }
}

fn benchmark(track: &Track) -> BenchmarkState {
    BenchmarkState {
        status: track.benchmark.status,
        tier: track.held(),
        first_earned_at: track.benchmark.first_earned_at,
        last_evaluated_at: track.benchmark.last_evaluated_at,
        continuous_since: track.benchmark.continuous_since,
        streak_days: 0,
    }
}

fn diversity(record: &Record<'_>) -> Diversity {
    let volume = volume(record.facts);
    Diversity {
        domains_worked: record.breadth.domains_seen,
        task_types: record.breadth.task_types.iter().cloned().collect(),
        counterparties: volume.counterparties,
        flags: volume.flags,
    }
}

fn evidence(record: &Record<'_>) -> Evidence {
    let before = record.around.base.sessions();
    Evidence {
        recent_proof_hashes: recent_proofs(record.facts),
        proof_chain_root: tagged(record.track.chain),
        log: LogSpan {
            first_n: before + 1,
            last_n: record.track.facts,
            chain_before: tagged(record.chain_before),
            chain_after: tagged(record.track.chain),
        },
    }
}

/// Of the newest sessions, newest first.
pub(crate) fn recent_proofs(facts: &[NumberedFact]) -> Vec<String> {
    let sessions = facts.iter().rev().filter(|fact| fact.fact.dimension == Dimension::Conduit);
    sessions.filter_map(|fact| fact.fact.proof).take(RECENT_PROOFS_MAX).map(tagged).collect()
}

fn imports(record: &Record<'_>) -> Option<WithImports> {
    let imported = record.track.live_import(record.around.now).filter(|_| record.with_imports)?;
    Some(WithImports {
        score: 0,
        tier: BenchmarkTier::None,
        atep_tier: record.track.tier_of(imported),
        platform: imported.platform.clone(),
        imported: imported.counts,
        import_haircut: imported.haircut,
        conduit_sessions_90d: 0.0,
        conduit_successful_90d: 0.0,
        ap2_sessions_90d: 0.0,
        ap2_successful_90d: 0.0,
        probation: Probation {
            local_sessions: 0,
            sessions_needed: u64::from(imported.probation_sessions),
            over: false,
        },
        ends_at: imported.ends_at(),
    })
}

/// The inputs of the score that a publication states (8.3).
pub fn stated_input(publication: &Publication) -> Input {
    let technical = &publication.dimensions.technical_execution;
    let commercial = &publication.dimensions.commercial_reliability;
    let gates = &publication.gates;
    Input {
        conduit_sessions: technical.conduit_sessions_90d as f64,
        conduit_successful: technical.conduit_successful_90d as f64,
        ap2_sessions: commercial.ap2_sessions_90d as f64,
        ap2_successful: commercial.ap2_successful_90d as f64,
        conduit_sessions_lifetime: technical.conduit_sessions_lifetime as f64,
        ap2_sessions_lifetime: commercial.ap2_sessions_lifetime as f64,
        trust_tier: gates.atep_tier,
        has_cryptographic_identity: gates.has_cryptographic_identity,
        disputed_sessions_active: f64::from(gates.disputed_sessions_active),
    }
}

/// The same publication with every field that follows from others computed from them.
pub fn derive(stated: &Publication) -> Publication {
    let input = stated_input(stated);
    let score = compute(&input, &stated.parameters);
    let mut derived = stated.clone();
    derived.score = ScoreValue {
        value: score.value(),
        tier: score.tier,
        // Out of range only where the inputs are, and that is checked apart.
        conduit_contribution: score.conduit_contribution as u16,
        ap2_contribution: score.ap2_contribution as u16,
    };
    let technical = &mut derived.dimensions.technical_execution;
    technical.conduit_rate_90d = score.conduit_rate;
    technical.conduit_volume_factor = score.conduit_volume;
    let commercial = &mut derived.dimensions.commercial_reliability;
    commercial.ap2_rate_90d = score.ap2_rate;
    commercial.ap2_volume_factor = score.ap2_volume;
    let least = &stated.parameters.standard;
    let gates = &mut derived.gates;
    gates.meets_conduit_minimum = input.conduit_sessions >= f64::from(least.conduit_sessions);
    gates.meets_ap2_minimum = input.ap2_sessions >= f64::from(least.ap2_sessions);
    gates.meets_success_rate = score.combined_rate >= least.success_rate;
    derived.qualification_gaps = gaps(&input, &score, &stated.parameters);
    derived.score_gap = least.score.saturating_sub(score.value());
    let since = stated.benchmark.continuous_since;
    let streak = since.map(|since| stated.issuer.computed_at.since(since));
    derived.benchmark.streak_days = streak.map_or(0, |streak| streak.as_secs() / DAY_S);
    let lifetime = lifetime(stated);
    let imports = stated.with_imports.as_ref();
    derived.with_imports = imports.map(|with| {
        let combined = join(&input, &with.imported, with.import_haircut, with.atep_tier);
        let probation = probation(needed(with), lifetime, score.tier);
        derive_imports(with, &combined, probation, &stated.parameters)
    });
    derive_escrow(&mut derived, &score);
    derive_signal(&mut derived, &score, lifetime);
    derived
}

fn lifetime(stated: &Publication) -> u64 {
    let technical = &stated.dimensions.technical_execution;
    let commercial = &stated.dimensions.commercial_reliability;
    technical.conduit_sessions_lifetime.saturating_add(commercial.ap2_sessions_lifetime)
}

/// The agreement's number of sessions; where the longer one is stated, it gives the same again.
fn needed(with: &WithImports) -> u32 {
    u32::try_from(with.probation.sessions_needed).unwrap_or(u32::MAX)
}

fn derive_imports(
    stated: &WithImports,
    input: &Input,
    probation: Probation,
    parameters: &Parameters,
) -> WithImports {
    let combined = compute(input, parameters);
    WithImports {
        score: combined.value(),
        tier: combined.tier,
        conduit_sessions_90d: input.conduit_sessions,
        conduit_successful_90d: input.conduit_successful,
        ap2_sessions_90d: input.ap2_sessions,
        ap2_successful_90d: input.ap2_successful,
        probation,
        ..stated.clone()
    }
}

fn derive_escrow(derived: &mut Publication, score: &Score) {
    let gates = &derived.gates;
    let full = gates.operator_under_review
        || gates.atep_tier == Tier::Unverified
        || gates.disputed_sessions_active > 0
        || derived.benchmark.status == BenchmarkStatus::Revoked;
    let counted = derived.with_imports.as_ref().filter(|with| with.probation.over);
    let best = counted.map_or(score.value(), |with| with.score.max(score.value()));
    let modifier_e4 = modifier_e4(score.value());
    let effective_e4 = if full { FULL_E4 } else { self::modifier_e4(best) };
    derived.escrow = Escrow {
        modifier: Fraction::from_e4(modifier_e4),
        effective_modifier: Fraction::from_e4(effective_e4),
        description: format!(
            "{}% escrow hold (vs 100% baseline)",
            // The specification's own example rounds.
            (u32::from(modifier_e4) + 50) / 100
        ),
    };
}

fn derive_signal(derived: &mut Publication, score: &Score, lifetime: u64) {
    let local = derived.gates.atep_tier;
    let dimensions = &derived.dimensions;
    let sessions_90d = dimensions
        .technical_execution
        .conduit_sessions_90d
        .saturating_add(dimensions.commercial_reliability.ap2_sessions_90d);
    let mut signal = Signal {
        phase: phase(local),
        sessions_lifetime: lifetime,
        sessions_90d,
        success_rate: score.combined_rate,
        with_imports: false,
    };
    // 11.3: a phase that was brought along is told of with the numbers that came with it.
    if let Some(with) = derived.with_imports.as_ref().filter(|with| with.atep_tier > local) {
        let sessions = with.conduit_sessions_90d + with.ap2_sessions_90d;
        let successful = with.conduit_successful_90d + with.ap2_successful_90d;
        let brought = (sessions as u64).saturating_sub(sessions_90d);
        signal = Signal {
            phase: phase(with.atep_tier),
            sessions_lifetime: lifetime.saturating_add(brought),
            sessions_90d: sessions as u64,
            success_rate: if sessions > 0.0 { successful / sessions } else { 0.0 },
            with_imports: true,
        };
    }
    derived.phase = signal.phase;
    derived.signal = signal.text();
}
