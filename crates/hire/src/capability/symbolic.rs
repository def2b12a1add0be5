//! compute.math.symbolic: two formulas that agree wherever one looks are the same formula.

use std::collections::BTreeMap;

use super::{
    compute::{is_close, variables},
    expression::{self, Formula},
    findings::Job,
};

/// Points at which formulas are compared, and how many must have a value.
const POINTS: usize = 24;
const POINTS_MIN: usize = 3;
/// What doubles lose, and what differences of doubles lose.
const TOLERANCE: f64 = 1e-7;
const TOLERANCE_SLOPE: f64 = 1e-4;
const TOLERANCE_AREA: f64 = 1e-5;
/// Derivatives of a higher order are not computed: differences would say nothing.
const ORDER_MAX: usize = 2;
/// Panels of an area.
const PANELS: u32 = 128;
/// Parts of a formula whose area is computed: every panel of every point costs that much.
const PARTS_MAX: usize = 256;

type Values = BTreeMap<String, f64>;

/// What comes out of a comparison.
enum Compared {
    Same,
    Different(String),
    /// The question itself cannot be computed here.
    Open(String),
}

pub(super) fn solved(job: &mut Job<'_>) {
    let text = job.text("result");
    let Some(answer) = job.take("result_parses", expression::parse(text)) else { return };
    let given = variables(job.params);
    let question = expression::parse(job.param("expression"));
    let compared = match &question {
        Err(why) => Compared::Open(why.clone()),
        Ok(question) => compare(question, &answer, &given),
    };
    match compared {
        Compared::Same => {
            job.check("agrees_numerically", true, String::new);
        }
        Compared::Different(why) => {
            job.check("agrees_numerically", false, || why);
        }
        Compared::Open(why) => {
            let note = format!("the question cannot be computed here: {why}");
            job.pass_but("agrees_numerically", &note);
        }
    }
    if job.strict {
        let Ok(question) = question else { return };
        let known = question.names();
        // A constant of integration may come in.
        let strange = answer
            .names()
            .into_iter()
            .find(|name| !known.contains(name) && !matches!(name.as_str(), "C" | "c"));
        let why = || format!("{strange:?} is not in the question");
        job.check("no_new_variables", strange.is_none(), why);
        let named = matches!(&answer, Formula::Call(name, _) if is_task(name));
        job.check("task_was_done", !named, || "it repeats the task".to_owned());
    }
}

fn is_task(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    matches!(
        name.as_str(),
        "diff"
            | "derivative"
            | "differentiate"
            | "d"
            | "integrate"
            | "integral"
            | "solve"
            | "simplify"
            | "expand"
            | "factor"
    )
}

fn compare(question: &Formula, answer: &Formula, given: &Values) -> Compared {
    let answer = right_side(answer);
    let Formula::Call(name, arguments) = question else {
        if let Formula::Binary('=', left, right) = question {
            let zero = Formula::Binary('-', left.clone(), right.clone());
            return roots(&zero, None, answer, given);
        }
        return same(question, answer, given, TOLERANCE);
    };
    match (name.to_ascii_lowercase().as_str(), arguments.as_slice()) {
        ("diff" | "derivative" | "differentiate" | "d", [of, rest @ ..]) => {
            derivative(of, rest, answer, given)
        }
        ("integrate" | "integral", [of, Formula::Name(by)]) => {
            antiderivative(of, by, answer, given)
        }
        ("integrate" | "integral", [of, Formula::Name(by), from, to]) => {
            area(of, by, from, to, answer, given)
        }
        ("integrate" | "integral", [of, Formula::List(range)]) => match range.as_slice() {
            [Formula::Name(by), from, to] => area(of, by, from, to, answer, given),
            _ => Compared::Open("its range is not clear".to_owned()),
        },
        ("solve", [of, rest @ ..]) => {
            let by = match rest {
                [Formula::Name(by)] => Some(by.as_str()),
                _ => None,
            };
            let zero = match of {
                Formula::Binary('=', left, right) => {
                    Formula::Binary('-', left.clone(), right.clone())
                }
                other => other.clone(),
            };
            roots(&zero, by, answer, given)
        }
        ("simplify" | "expand" | "factor", [of]) => same(of, answer, given, TOLERANCE),
        _ => same(question, answer, given, TOLERANCE),
    }
}

/// Of `x = 2` the 2.
fn right_side(answer: &Formula) -> &Formula {
    match answer {
        Formula::Binary('=', left, right) if matches!(**left, Formula::Name(_)) => right,
        other => other,
    }
}

/// The same points for everybody: spread over numbers that few formulas dislike.
fn points(names: &[String], given: &Values) -> impl Iterator<Item = Values> {
    // Where nothing varies, one look is enough.
    let points = if names.is_empty() { 1 } else { POINTS };
    (0..points).map(move |point| {
        let mut values = given.clone();
        for (at, name) in names.iter().enumerate() {
            // Multiples of an irrational number never fall on the same place.
            let turn = 0.618_033_988_75 * (point + 1) as f64 + 0.414_213_562_37 * at as f64;
            let spread = turn.fract();
            // Every third point is negative.
            let value = if point % 3 == 2 { -2.2 * spread - 0.1 } else { 2.9 * spread + 0.15 };
            values.entry(name.clone()).or_insert(value);
        }
        values
    })
}

/// Compares at every point where the question has a value.
fn at_points(
    names: &[String],
    given: &Values,
    tolerance: f64,
    wanted: impl Fn(&Values) -> Result<f64, String>,
    got: impl Fn(&Values) -> Result<f64, String>,
) -> Compared {
    let mut seen = 0;
    for values in points(names, given) {
        let wanted = match wanted(&values) {
            Ok(wanted) if wanted.is_finite() => wanted,
            Ok(_) => continue,
            Err(why) => return Compared::Open(why),
        };
        let got = match got(&values) {
            Ok(got) => got,
            Err(why) => return Compared::Different(why),
        };
        seen += 1;
        if !got.is_finite() || !is_close(got, wanted, tolerance) {
            return Compared::Different(format!("{got} instead of {wanted} at {values:?}"));
        }
    }
    match seen >= POINTS_MIN || seen == 1 && names.is_empty() {
        true => Compared::Same,
        false => Compared::Open("it has a value almost nowhere".to_owned()),
    }
}

fn names_of(formulas: &[&Formula]) -> Vec<String> {
    let mut names: Vec<String> = formulas.iter().flat_map(|formula| formula.names()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn same(question: &Formula, answer: &Formula, given: &Values, tolerance: f64) -> Compared {
    let names = names_of(&[question]);
    let value = |values: &Values| question.value(values);
    at_points(&names, given, tolerance, value, |values| answer.value(values))
}

/// The slope of a formula, by differences.
fn slope(of: &Formula, by: &str, values: &Values) -> Result<f64, String> {
    let at = values.get(by).copied().ok_or_else(|| format!("{by} has no value"))?;
    let step = 1e-4 * at.abs().max(1.0);
    let value = |offset: f64| {
        let mut values = values.clone();
        values.insert(by.to_owned(), at + offset * step);
        of.value(&values)
    };
    // Five points: the error is of the fourth power of the step.
    Ok((value(-2.0)? - 8.0 * value(-1.0)? + 8.0 * value(1.0)? - value(2.0)?) / (12.0 * step))
}

fn bend(of: &Formula, by: &str, values: &Values) -> Result<f64, String> {
    let at = values.get(by).copied().ok_or_else(|| format!("{by} has no value"))?;
    let step = 1e-3 * at.abs().max(1.0);
    let value = |offset: f64| {
        let mut values = values.clone();
        values.insert(by.to_owned(), at + offset * step);
        of.value(&values)
    };
    let outer = value(-2.0)? + value(2.0)?;
    let inner = value(-1.0)? + value(1.0)?;
    Ok((16.0 * inner - outer - 30.0 * value(0.0)?) / (12.0 * step * step))
}

fn derivative(of: &Formula, rest: &[Formula], answer: &Formula, given: &Values) -> Compared {
    let names = names_of(&[of]);
    let (by, order) = match rest {
        [] if names.len() == 1 => (names[0].as_str(), 1),
        [Formula::Name(by)] => (by.as_str(), 1),
        [Formula::Name(by), Formula::Number(order)] => (by.as_str(), *order as usize),
        [Formula::Name(by), Formula::Name(again)] if by == again => (by.as_str(), 2),
        _ => return Compared::Open("by which variable is not clear".to_owned()),
    };
    if !(1..=ORDER_MAX).contains(&order) {
        return Compared::Open(format!("the order {order} is not computed"));
    }
    let given = without(given, by);
    let names = names_of(&[of, &Formula::Name(by.to_owned())]);
    let wanted = |values: &Values| match order {
        1 => slope(of, by, values),
        _ => bend(of, by, values),
    };
    at_points(&names, &given, TOLERANCE_SLOPE, wanted, |values| answer.value(values))
}

/// The variable that something is done by varies, whatever value was given for it.
fn without(given: &Values, by: &str) -> Values {
    given.iter().filter(|(name, _)| *name != by).map(|(name, v)| (name.clone(), *v)).collect()
}

fn antiderivative(of: &Formula, by: &str, answer: &Formula, given: &Values) -> Compared {
    let mut names = names_of(&[of, answer]);
    names.push(by.to_owned());
    let given = without(given, by);
    let wanted = |values: &Values| of.value(values);
    at_points(&names, &given, TOLERANCE_SLOPE, wanted, |values| slope(answer, by, values))
}

fn area(
    of: &Formula,
    by: &str,
    from: &Formula,
    to: &Formula,
    answer: &Formula,
    given: &Values,
) -> Compared {
    if of.parts() > PARTS_MAX {
        return Compared::Open("it is too long for an area".to_owned());
    }
    let simpson = |values: &Values| {
        let (from, to) = (from.value(values)?, to.value(values)?);
        let width = (to - from) / f64::from(PANELS);
        let mut sum = 0.0;
        let mut values = values.clone();
        for panel in 0..=PANELS {
            values.insert(by.to_owned(), from + f64::from(panel) * width);
            let weight = match panel {
                0 | PANELS => 1.0,
                _ if panel % 2 == 1 => 4.0,
                _ => 2.0,
            };
            sum += weight * of.value(&values)?;
        }
        Ok(sum * width / 3.0)
    };
    let mut names = names_of(&[of, from, to]);
    names.retain(|name| name != by);
    at_points(&names, given, TOLERANCE_AREA, simpson, |values| answer.value(values))
}

/// Every answer must make the formula zero, at every point for the other variables.
fn roots(zero: &Formula, by: Option<&str>, answer: &Formula, given: &Values) -> Compared {
    let names = names_of(&[zero]);
    let open: Vec<&String> = names.iter().filter(|name| !given.contains_key(*name)).collect();
    let by = match (by, open.as_slice()) {
        (Some(by), _) => by.to_owned(),
        (None, [only]) => (*only).clone(),
        _ => return Compared::Open("for which variable is not clear".to_owned()),
    };
    let answers: Vec<&Formula> = match answer {
        Formula::List(answers) => answers.iter().map(right_side).collect(),
        single => vec![single],
    };
    if answers.is_empty() {
        return Compared::Open("no solution is claimed".to_owned());
    }
    for answer in answers {
        let mut seen = false;
        let others: Vec<String> = names.iter().filter(|name| **name != by).cloned().collect();
        for values in points(&others, given) {
            let root = match answer.value(&values) {
                Ok(root) if root.is_finite() => root,
                Ok(_) => continue,
                Err(why) => return Compared::Different(why),
            };
            let mut values = values;
            values.insert(by.clone(), root);
            match zero.value(&values) {
                Err(why) => return Compared::Open(why),
                Ok(rest) if rest.abs() > 1e-6 * root.abs().max(1.0) => {
                    return Compared::Different(format!("{by} = {root} leaves {rest}"));
                }
                Ok(_) => seen = true,
            }
        }
        if !seen {
            return Compared::Different("an answer has a value nowhere".to_owned());
        }
    }
    Compared::Same
}
