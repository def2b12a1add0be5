//! The template: head, timeline, facts, and how to check it all without asking anybody.

use std::fmt::Display;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Deserialize;
use serde_json::Value;
use skep_base::Hash32;
use skep_wire::{conduit::CostCategory, settle::Action};

use super::{Attachments, cut};

/// The width of the timeline, in units of its own.
const BAR_WIDTH: i64 = 1000;
/// Even what took no time is seen.
const BAR_MIN: i64 = 6;

/// How it ended, for the eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Bad,
    Open,
}

/// All that a page says.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) kind: &'static str,
    pub(super) id: String,
    pub(super) tone: Tone,
    pub(super) outcome: String,
    pub(super) summary: String,
    pub(super) reason: Option<String>,
    /// What it is about; above the steps.
    pub(super) about: Vec<Section>,
    pub(super) steps: Vec<Step>,
    /// What came of it; below them.
    pub(super) sections: Vec<Section>,
    /// Commands.
    pub(super) checking: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Section {
    title: &'static str,
    facts: Vec<Fact>,
}

impl Section {
    pub(super) fn new(title: &'static str, facts: impl IntoIterator<Item = Fact>) -> Section {
        let facts = facts.into_iter().filter(|fact| !fact.value.is_empty()).collect();
        Section { title, facts }
    }
}

/// One line; without a value it is left out.
#[derive(Debug)]
pub(super) struct Fact {
    label: &'static str,
    value: String,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Text,
    /// To be compared or copied, whole.
    Mono,
    Block,
}

impl Fact {
    pub(super) fn text(label: &'static str, value: impl Display) -> Fact {
        Fact { label, value: value.to_string(), form: Form::Text }
    }

    pub(super) fn mono(label: &'static str, value: impl Display) -> Fact {
        Fact { label, value: value.to_string(), form: Form::Mono }
    }

    pub(super) fn some(label: &'static str, value: Option<impl Display>) -> Fact {
        let value = value.map(|value| value.to_string()).unwrap_or_default();
        Fact { label, value, form: Form::Text }
    }

    pub(super) fn some_mono(label: &'static str, value: Option<impl Display>) -> Fact {
        Fact { form: Form::Mono, ..Fact::some(label, value) }
    }

    pub(super) fn some_block(label: &'static str, value: Option<String>) -> Fact {
        Fact { form: Form::Block, ..Fact::some(label, value) }
    }

    fn render(&self) -> Markup {
        html! {
            dt { (self.label) }
            dd {
                @match self.form {
                    Form::Text => (self.value),
                    Form::Mono => code.whole { (self.value) },
                    Form::Block => pre { (self.value) },
                }
            }
        }
    }
}

/// One action of a log.
#[derive(Debug)]
pub(super) struct Step {
    action: Option<Action>,
    /// What could not be read as an action is shown as it is.
    raw: String,
    screenshot: Option<(Hash32, String)>,
}

impl Step {
    pub(super) fn of(value: &Value, attachments: &Attachments<'_>) -> Step {
        let action = Action::deserialize(value).ok();
        let raw = match action {
            Some(_) => String::new(),
            None => cut(&value.to_string()),
        };
        let hash = action.as_ref().and_then(|action| action.screenshot_sha256);
        let screenshot = hash.map(|hash| (hash, attachments(&hash)));
        Step { action, raw, screenshot }
    }

    /// From when to when, in milliseconds.
    fn span(&self) -> Option<(i64, i64)> {
        let action = self.action.as_ref()?;
        let took = i64::try_from(action.duration_ms.unwrap_or(0)).unwrap_or(i64::MAX);
        let from = action.timestamp.as_ms();
        Some((from, from.saturating_add(took)))
    }

    fn render(&self, whole: (i64, i64)) -> Markup {
        let Some(action) = &self.action else { return html! { li.step { pre { (self.raw) } } } };
        let tone = if action.success { "good" } else { "bad" };
        let took = action.duration_ms.map(|ms| format!("{ms} ms"));
        let input = action.input.as_ref().and_then(|i| serde_json::to_string_pretty(i).ok());
        html! {
            li.step {
                div.head {
                    span class=(format!("dot {tone}")) { }
                    b { (cut(&action.action)) }
                    @if !action.success { span.bad { "did not succeed" } }
                    @for text in [took, cost(action)].iter().flatten() { span.soft { (text) } }
                    span.soft { (action.timestamp) }
                }
                @if let Some(span) = self.span() { (bar(span, whole, tone)) }
                @if let Some(url) = &action.url { p.target { (cut(url)) } }
                @if let Some(selector) = &action.selector { p.target { code { (cut(selector)) } } }
                @if let Some(snippet) = &action.data_snippet { pre { (cut(snippet)) } }
                @if let Some(input) = &input {
                    details { summary { "Input" } pre { (cut(input)) } }
                }
                @if let Some((hash, url)) = &self.screenshot {
                    a.shot href=(url) {
                        img src=(url) alt="What the browser showed" loading="lazy";
                    }
                    p.soft { "Picture " code.whole { (hash) } }
                }
                @if let Some(hash) = action.data_sha256 {
                    p.soft { "All of it " code.whole { (hash) } }
                }
                @if let Some(hash) = action.fingerprint {
                    p.soft { "Page " code.whole { (hash) } }
                }
            }
        }
    }
}

fn cost(action: &Action) -> Option<String> {
    match (action.cost_category, action.cost_cents) {
        (Some(CostCategory::Free), _) => Some("free".to_owned()),
        (None, 0) => None,
        (_, 1) => Some("1 cent".to_owned()),
        (_, cents) => Some(format!("{cents} cents")),
    }
}

/// Side by side where there is room; the last one of an odd number has a line of its own.
fn columns(sections: &[Section]) -> Markup {
    html! {
        div.columns {
            @for section in sections.iter().filter(|section| !section.facts.is_empty()) {
                section.card {
                    h2 { (section.title) }
                    dl { @for fact in &section.facts { (fact.render()) } }
                }
            }
        }
    }
}

/// When this step was, within the whole. Attributes, because the page's policy allows no styles.
fn bar(span: (i64, i64), whole: (i64, i64), tone: &str) -> Markup {
    let total = whole.1.saturating_sub(whole.0).max(1);
    let place = |ms: i64| {
        let part = ms.saturating_sub(whole.0).clamp(0, total);
        (i128::from(part) * i128::from(BAR_WIDTH) / i128::from(total)) as i64
    };
    let x = place(span.0).min(BAR_WIDTH - BAR_MIN);
    let width = (place(span.1) - x).max(BAR_MIN);
    let view = format!("0 0 {BAR_WIDTH} 6");
    html! {
        svg.bar viewBox=(view) preserveAspectRatio="none" aria-hidden="true" {
            rect.track width=(BAR_WIDTH) height="6" rx="3" { }
            rect class=(tone) x=(x) width=(width) height="6" rx="3" { }
        }
    }
}

impl Sheet {
    pub(super) fn render(&self, style: &str) -> String {
        let title = format!("{} · {} {}", self.outcome, self.kind, self.id);
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="robots" content="noindex";
                    title { (title) }
                    // The style is our own and has no mark-up in it.
                    style { (PreEscaped(style)) }
                }
                body.sheet { main { (self.body()) } }
            }
        };
        page.into_string()
    }

    fn body(&self) -> Markup {
        let tone = match self.tone {
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Open => "open",
        };
        html! {
            header.verdict {
                p.kind { (self.kind) " " code.whole { (self.id) } }
                h1 class=(tone) { (self.outcome) }
                p.lead { (self.summary) }
                @if let Some(reason) = &self.reason { p.reason { (reason) } }
            }
            (columns(&self.about))
            (self.timeline())
            (columns(&self.sections))
            section.card {
                h2 { "Check it yourself" }
                p {
                    "This page shows what was recorded; it proves nothing by itself. The file "
                    "does: it holds every hash, signature and key, and is checked without asking "
                    "this marketplace."
                }
                pre { @for line in &self.checking { "$ " (line) "\n" } }
            }
        }
    }

    fn timeline(&self) -> Markup {
        let spans: Vec<(i64, i64)> = self.steps.iter().filter_map(Step::span).collect();
        let from = spans.iter().map(|span| span.0).min().unwrap_or_default();
        let to = spans.iter().map(|span| span.1).max().unwrap_or_default();
        html! {
            section.card {
                h2 { "Step by step" }
                @if self.steps.is_empty() {
                    p.soft { "No steps were recorded." }
                } @else {
                    ol.steps { @for step in &self.steps { (step.render((from, to))) } }
                }
            }
        }
    }
}
