//! A score as a page for people.

use std::io::Write;

use anyhow::Result;
use skep_wire::score::{
    BenchmarkEvent, BenchmarkStatus, Fraction, InformalTier, Publication, ScoreView, TrustTier,
    WithImports,
};

use super::event_words;
use crate::deal::words::{plain, word};

/// The most points of each dimension.
const CONDUIT_POINTS: u16 = 400;
const AP2_POINTS: u16 = 600;
/// How wide a full bar is.
const BAR: usize = 24;
/// Lines of the benchmark's history that are shown.
const HISTORY: usize = 5;

pub fn page(view: &ScoreView, out: &mut dyn Write) -> Result<()> {
    let said = &view.publication;
    let issuer = &said.issuer;
    writeln!(out, "{}  passport {}", view.agent_id, plain(&said.agent_passport_id))?;
    writeln!(out, "{}", plain(&said.signal))?;
    if !view.published {
        writeln!(out, "only you see this: a score is published after ten sessions")?;
    }
    if let Some(review) = &view.operator_review {
        writeln!(out, "{} until {}", plain(&review.label), review.until)?;
    }
    writeln!(out)?;
    let (value, tier) = (said.score.value, said.score.tier.as_str());
    writeln!(out, "score      {value} of 1000, {tier}")?;
    dimensions(said, out)?;
    writeln!(out, "held       {}", held(said))?;
    writeln!(out, "tier       {}", tier_words(&view.trust_tier))?;
    writeln!(out, "benchmark  {}", benchmark(said))?;
    list("missing", &missing(said), out)?;
    let diversity = &said.diversity;
    writeln!(
        out,
        "work       {} hosts, {} kinds of actions, {} counterparties",
        diversity.domains_worked,
        diversity.task_types.len(),
        diversity.counterparties
    )?;
    list("flags", &diversity.flags.iter().map(word).collect::<Vec<_>>(), out)?;
    if let Some(with) = &said.with_imports {
        imports(with, out)?;
    }
    list("elsewhere", &view.unverified_imports.iter().map(elsewhere).collect::<Vec<_>>(), out)?;
    list("badges", &view.badges.iter().map(|badge| plain(&badge.label)).collect::<Vec<_>>(), out)?;
    let history = view.benchmark_history.iter().take(HISTORY).map(line).collect::<Vec<_>>();
    list("history", &history, out)?;
    if view.benchmark_events > history.len() as u64 {
        writeln!(out, "           {} events in all", view.benchmark_events)?;
    }
    writeln!(out)?;
    let (by, kid) = (plain(&issuer.platform), plain(&issuer.kid));
    writeln!(
        out,
        "signed by {by} ({kid}) at {}, valid until {}",
        issuer.computed_at, said.valid_until
    )?;
    Ok(())
}

fn dimensions(said: &Publication, out: &mut dyn Write) -> Result<()> {
    let technical = &said.dimensions.technical_execution;
    let commercial = &said.dimensions.commercial_reliability;
    let rows = [
        (
            "sessions",
            (said.score.conduit_contribution, CONDUIT_POINTS),
            (technical.conduit_successful_90d, technical.conduit_sessions_90d),
            technical.conduit_rate_90d,
        ),
        (
            "escrows",
            (said.score.ap2_contribution, AP2_POINTS),
            (commercial.ap2_successful_90d, commercial.ap2_sessions_90d),
            commercial.ap2_rate_90d,
        ),
    ];
    for (name, (points, most), (ok, all), rate) in rows {
        let bar = bar(points, most);
        let percent = rate * 100.0;
        writeln!(
            out,
            "           {name:<8} {bar} {points:>3} of {most}: {ok} of {all} in 90 days, \
             {percent:.1} %"
        )?;
    }
    Ok(())
}

fn bar(points: u16, most: u16) -> String {
    let full = usize::from(points.min(most)) * BAR / usize::from(most);
    format!("{}{}", "█".repeat(full), "░".repeat(BAR - full))
}

fn percent(part: Fraction) -> String {
    format!("{:.2} %", f64::from(part.e4()) / 100.0)
}

fn held(said: &Publication) -> String {
    let (raw, effective) = (said.escrow.modifier, said.escrow.effective_modifier);
    match raw == effective {
        true => format!("{} of a price", percent(effective)),
        false => format!("{} of a price ({} by the score alone)", percent(effective), percent(raw)),
    }
}

fn tier_words(tier: &TrustTier) -> String {
    let mut words = word(&tier.public.current);
    if let Some(since) = tier.public.promoted_at {
        words.push_str(&format!(" since {since}"));
    }
    if let (Some(next), Some(missing)) = (&tier.next_tier, tier.sessions_until_next) {
        words.push_str(&format!("; {missing} more sessions to {}", word(next)));
    }
    if let Some(blocked) = &tier.promotion_blocked_reason {
        words.push_str(&format!(" ({})", word(blocked)));
    }
    words
}

fn benchmark(said: &Publication) -> String {
    let held = &said.benchmark;
    let status = word(&held.status);
    match (held.status, held.continuous_since) {
        (BenchmarkStatus::Active, Some(since)) => {
            let (tier, days) = (held.tier.as_str(), held.streak_days);
            format!("{status} {tier} since {since}, {days} days in a row")
        }
        _ => status,
    }
}

fn missing(said: &Publication) -> Vec<String> {
    let mut missing: Vec<String> = said.qualification_gaps.iter().map(|gap| plain(gap)).collect();
    if said.score_gap > 0 {
        missing.push(format!("{} points to the benchmark", said.score_gap));
    }
    missing
}

fn imports(with: &WithImports, out: &mut dyn Write) -> Result<()> {
    let (platform, score) = (plain(&with.platform), with.score);
    let (tier, ends) = (with.tier.as_str(), with.ends_at);
    writeln!(out, "imported   from {platform}: {score} of 1000, {tier}, until {ends}")?;
    let (done, needed) = (with.probation.local_sessions, with.probation.sessions_needed);
    let word = if with.probation.over { "over" } else { "under way" };
    writeln!(out, "           probation {word}: {done} of {needed} sessions here")?;
    Ok(())
}

fn elsewhere(informal: &InformalTier) -> String {
    let (platform, tier) = (plain(&informal.platform), word(&informal.tier));
    let at = informal.computed_at;
    format!("{tier} at {platform} on {at}: unverified, it counts for nothing here")
}

/// One event of a benchmark's history.
pub fn line(event: &BenchmarkEvent) -> String {
    let [at, kind, what] = event_words(event);
    let by = word(&event.evaluator);
    match &event.reason {
        None => format!("{at}  {kind:<9} {what}, by {by}"),
        Some(reason) => format!("{at}  {kind:<9} {what}, by {by}: {}", plain(reason)),
    }
}

fn list(name: &str, lines: &[String], out: &mut dyn Write) -> Result<()> {
    for (nth, line) in lines.iter().enumerate() {
        let name = if nth == 0 { name } else { "" };
        writeln!(out, "{name:<10} {line}")?;
    }
    Ok(())
}
