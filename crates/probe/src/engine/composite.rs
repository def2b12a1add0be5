//! The engine `composite`: several engines, one after another, and how their words count.

use std::pin::Pin;

use skep_wire::settle::{
    Artifact, ErrorReport, Outcome, VerificationSpec,
    criteria::{Composite, Mode, Part},
};

use super::{
    Bench,
    criteria::bad_custom,
    record::{Record, Stop},
};

/// Boxed, since a part may be a composite.
pub(super) fn examine<'a>(
    bench: &'a Bench,
    record: &'a mut Record<'_>,
    spec: &'a VerificationSpec,
    artifacts: &'a [Artifact],
) -> Pin<Box<dyn Future<Output = Result<(), Stop>> + Send + 'a>> {
    Box::pin(async move {
        let composite = Composite::read(spec.custom.as_ref()).map_err(bad_custom)?;
        let mut stops = Vec::<Option<Stop>>::new();
        loop {
            let so_far: Vec<Outcome> = stops.iter().map(outcome).collect();
            if let Some(verdict) = verdict(&composite, &so_far) {
                return told(verdict, &composite, &stops);
            }
            let at = stops.len();
            let Some(part) = composite.of.get(at) else {
                return Err(Stop::error("engine_failed", "no part decides"));
            };
            let above = record.enter(at);
            let looked = bench.look(record, &spec_of(part, spec), artifacts).await;
            record.leave(above);
            stops.push(looked.err());
        }
    })
}

/// What one part is asked: what it says itself, about the deal's page if it names none.
fn spec_of(part: &Part, whole: &VerificationSpec) -> VerificationSpec {
    VerificationSpec {
        kind: part.engine().to_owned(),
        url: part.url.clone().or_else(|| whole.url.clone()),
        selector: part.selector.clone(),
        expected_content: part.expected_content.clone(),
        fingerprint_delta: false,
        timeout_seconds: whole.timeout_seconds,
        baseline_fingerprint: None,
        custom: part.custom.clone(),
    }
}

fn outcome(stop: &Option<Stop>) -> Outcome {
    match stop {
        None => Outcome::Verified,
        Some(Stop::Failed(_)) => Outcome::Failed,
        Some(Stop::Error(_)) => Outcome::Error,
    }
}

/// The verdict, as soon as what is still open cannot change it.
fn verdict(composite: &Composite, so_far: &[Outcome]) -> Option<Outcome> {
    let (total, needed) = (composite.of.len(), composite.needed());
    let count = |wanted: Outcome| so_far.iter().filter(|outcome| **outcome == wanted).count();
    let (verified, failed) = (count(Outcome::Verified), count(Outcome::Failed));
    if composite.mode == Mode::InOrder {
        let first = so_far.iter().find(|outcome| **outcome != Outcome::Verified);
        return first.copied().or((verified == total).then_some(Outcome::Verified));
    }
    let open = total - so_far.len();
    // An error might have been either, so it counts for neither side.
    if verified >= needed {
        Some(Outcome::Verified)
    } else if failed > total - needed {
        Some(Outcome::Failed)
    } else if verified + open < needed && failed + open <= total - needed {
        Some(Outcome::Error)
    } else {
        None
    }
}

/// The verdict with the reasons of the parts that led to it.
fn told(verdict: Outcome, composite: &Composite, stops: &[Option<Stop>]) -> Result<(), Stop> {
    let reasons = stops.iter().enumerate().filter(|(_, stop)| outcome(stop) == verdict);
    let reasons = reasons.filter_map(|(at, stop)| {
        let kind = composite.of.get(at)?.engine();
        Some(format!("part {at} ({kind}): {}", stop.as_ref()?.reason()))
    });
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    let code = stops.iter().flatten().find_map(|stop| match stop {
        Stop::Error(ErrorReport { code, .. }) => Some(code.as_str()),
        Stop::Failed(_) => None,
    });
    match verdict {
        Outcome::Verified => Ok(()),
        Outcome::Failed | Outcome::Rejected => Err(Stop::failed(reasons)),
        Outcome::Error => Err(Stop::error(code.unwrap_or("engine_failed"), reasons)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OUTCOMES: [Outcome; 3] = [Outcome::Verified, Outcome::Failed, Outcome::Error];

    fn composite(mode: &str, n: Option<usize>, parts: usize) -> Composite {
        let part = json!({"type": "artifact", "expected_content": "x"});
        let mut custom = json!({"mode": mode, "of": vec![part; parts]});
        if let Some(n) = n {
            custom["n"] = json!(n);
        }
        Composite::read(Some(&custom)).unwrap()
    }

    /// Every list of outcomes of this length.
    fn lists(length: usize) -> Vec<Vec<Outcome>> {
        (0..length).fold(vec![vec![]], |lists, _| {
            let longer = |list: &Vec<Outcome>| OUTCOMES.map(|one| [&list[..], &[one]].concat());
            lists.iter().flat_map(longer).collect()
        })
    }

    /// The words of the modes, with every part looked at.
    fn meaning(mode: &str, n: usize, outcomes: &[Outcome]) -> Outcome {
        let has = |wanted: Outcome| outcomes.contains(&wanted);
        let count = |wanted: Outcome| outcomes.iter().filter(|one| **one == wanted).count();
        match mode {
            "all" if has(Outcome::Failed) => Outcome::Failed,
            "all" if has(Outcome::Error) => Outcome::Error,
            "all" => Outcome::Verified,
            "any" if has(Outcome::Verified) => Outcome::Verified,
            "any" if has(Outcome::Error) => Outcome::Error,
            "any" => Outcome::Failed,
            "in_order" => {
                let first = outcomes.iter().find(|one| **one != Outcome::Verified);
                first.copied().unwrap_or(Outcome::Verified)
            }
            _ if count(Outcome::Verified) >= n => Outcome::Verified,
            _ if count(Outcome::Verified) + count(Outcome::Error) >= n => Outcome::Error,
            _ => Outcome::Failed,
        }
    }

    #[test]
    fn every_mode_decides_every_combination_as_soon_as_it_is_certain() {
        for parts in 1..=4 {
            let counted = (1..=parts).map(|n| ("at_least", Some(n)));
            let modes = [("all", None), ("any", None), ("in_order", None)];
            for (mode, n) in modes.into_iter().chain(counted) {
                let composite = composite(mode, n, parts);
                for outcomes in lists(parts) {
                    let meant = meaning(mode, n.unwrap_or(0), &outcomes);
                    let told: Vec<_> =
                        (0..=parts).map(|at| verdict(&composite, &outcomes[..at])).collect();
                    let first = told.iter().position(Option::is_some).unwrap();
                    assert_eq!(told[first], Some(meant), "{mode} {n:?} {outcomes:?}");
                    // Certain: whatever could have followed, it would have been the same; and not
                    // certain before.
                    let sure = |at: usize| {
                        let ends = lists(parts - at);
                        let whole = ends.iter().map(|end| [&outcomes[..at], end].concat());
                        whole.into_iter().all(|all| meaning(mode, n.unwrap_or(0), &all) == meant)
                    };
                    let certain = (0..=parts).find(|at| sure(*at)).unwrap();
                    assert_eq!(first, certain, "{mode} {n:?} {outcomes:?}");
                }
            }
        }
    }
}
