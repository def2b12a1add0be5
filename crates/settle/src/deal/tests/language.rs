use std::{fmt, time::Duration};

use skep_base::{
    AgentId, Amount, Asset, Hash32, Money, Timestamp,
    ed25519::{SecretKey, Signature},
    id::DealId,
};
use skep_wire::settle::{
    DealOptions, DeliveryStatus, Hints, Outcome, Role, Standing, Tier, engine,
};

use crate::{
    criteria,
    deal::{
        BASELINE_WAIT, Deal, Effect, GRACE, Input, ProofRef, REQUESTER_CANCELS_WITHIN, Refusal,
        Verdict, step,
    },
    escrow,
    offer::Offer,
    review,
    terms::{Policy, Terms},
    verification,
};

pub const PRICE: i64 = 10_000;

/// Everything that can be done to a deal. Verdicts are on its last attempt unless they say.
pub const INPUTS: [&str; 38] = [
    "deliver",
    "deliver partial",
    "deliver alone",
    "deliver failed",
    "deliver word",
    "deliver word as verified",
    "ack",
    "ack v9",
    "ack #9",
    "pass",
    "pass blind",
    "pass part 4000",
    "pass part 10000",
    "pass part 10001",
    "pass part 0",
    "pass #1",
    "pass #9",
    "fail",
    "fail blind",
    "fail part 4000",
    "reject",
    "error",
    "error v2",
    "baseline v1",
    "baseline v9",
    "cancel requester",
    "cancel provider",
    "claim",
    "dispute requester",
    "dispute provider",
    "object",
    "object v1",
    "split requester 4000",
    "split provider 4000",
    "split provider 10000",
    "split requester 0",
    "split requester 10001",
    "tick",
];

/// A deal after its story.
pub struct Played {
    pub deal: Deal,
    pub policy: Policy,
    pub now: Timestamp,
    /// Refusals, then where money moved.
    log: (Vec<String>, Vec<String>),
}

/// So long after acceptance.
pub fn at(seconds: u64) -> Timestamp {
    Timestamp::from_ms(1_800_000_000_000).plus(Duration::from_secs(seconds))
}

pub fn seconds(time: Timestamp) -> String {
    let ms = time.as_ms() - at(0).as_ms();
    assert_eq!(ms % 1000, 0);
    format!("{}s", ms / 1000)
}

fn agent(name: &str) -> AgentId {
    let number = name.strip_prefix('v').and_then(|n| n.parse::<u8>().ok());
    AgentId([number.unwrap_or_else(|| panic!("{name} is no verifier")); 20])
}

pub fn name(agent: &AgentId) -> String {
    match agent.0[0] {
        0xaa => "requester".to_owned(),
        0xbb => "provider".to_owned(),
        number => format!("v{number}"),
    }
}

/// The engine, then `window S`, `review S`, `word` (the provider's is enough) or `free` (disputes
/// cost nothing).
pub fn begin(setup: &str) -> (Deal, Policy) {
    let mut words = setup.split_whitespace();
    let engine = words.next().unwrap();
    let text = |text: &str| Some(text.to_owned());
    let criteria = match engine {
        "http" => Hints {
            url: text("https://example.org/"),
            expected_content: text("done"),
            ..Hints::default()
        },
        "delta" => Hints {
            url: text("https://example.org/"),
            fingerprint_delta: Some(true),
            ..Hints::default()
        },
        engine::HUMAN | engine::REQUESTER => Hints { kind: text(engine), ..Hints::default() },
        other => panic!("{other} is no engine"),
    };
    let (mut options, mut policy) = (DealOptions::default(), Policy::default());
    while let Some(word) = words.next() {
        let mut number = || words.next().unwrap().parse().unwrap();
        match word {
            "window" => options.dispute_window_s = Some(number()),
            "review" => options.review_deadline_s = Some(number()),
            "word" => options.auto_approve = Some(true),
            "free" => policy.deposit_bps = 0,
            other => panic!("{other} is no term"),
        }
    }
    let amount = Amount::new(PRICE).unwrap();
    // Under the limit for the provider's word, which is in whole units.
    let price = Money::new(amount, Asset::USDC);
    let offer = Offer {
        price,
        service_type: "test".to_owned(),
        description: "work".to_owned(),
        deadline: None,
        criteria,
        options,
        requires_benchmark: false,
    };
    let terms = Terms::close(&offer, at(0), &policy, &Standing::default()).unwrap();
    let did = |seed| SecretKey::from_seed([seed; 32]).public().did();
    let deal = Deal {
        id: DealId::new(at(0), &[b"deal"]),
        requester: AgentId([0xaa; 20]),
        provider: AgentId([0xbb; 20]),
        requester_operator: did(1),
        provider_operator: did(2),
        terms,
        terms_hash: Hash32([7; 32]),
        accepted_at: at(0),
        agreement: crate::agreement::State::Active,
        escrow: escrow::State::Held,
        delivered: None,
        attempts: Vec::new(),
        review: None,
        window_until: None,
        contest: None,
        verdict_reason: None,
        statements: Vec::new(),
        split_offer: None,
        cancel_asked: false,
        baseline_by: (engine == "delta").then(|| agent("v1")),
        baseline: None,
        verifier_due: None,
        closed: None,
    };
    (deal, policy)
}

fn role(word: &str) -> Role {
    match word {
        "requester" => Role::Requester,
        "provider" => Role::Provider,
        other => panic!("{other} is no side"),
    }
}

fn amount(word: &str) -> Amount {
    word.parse().unwrap()
}

/// An input from its words.
pub fn read(deal: &Deal, words: &str) -> Input {
    let words: Vec<_> = words.split_whitespace().collect();
    let (verb, rest) = words.split_first().unwrap();
    let has = |word: &str| rest.contains(&word);
    let verifier = rest.iter().find(|word| word.starts_with('v') && word.len() == 2);
    let verifier = verifier.map(|word| agent(word));
    let number = rest.iter().find_map(|word| word.strip_prefix('#')).map(|n| n.parse().unwrap());
    let attempt = number.unwrap_or_else(|| deal.last_attempt().map_or(1, |a| a.number));
    let part = rest.iter().position(|word| *word == "part").map(|at| amount(rest[at + 1]));
    let decide = |outcome| Input::Decide {
        attempt,
        verdict: Verdict {
            outcome,
            proof: ProofRef {
                hash: Hash32([8; 32]),
                signature: Signature::from_bytes([9; 64]),
                by: AgentId([7; 20]),
                kid: "k".to_owned(),
                bundle: !has("blind"),
            },
            failure_reason: None,
            released: part,
        },
        substitute: verifier,
    };
    match *verb {
        "deliver" => Input::Deliver {
            hash: Hash32([6; 32]),
            status: match () {
                () if has("partial") => DeliveryStatus::Partial,
                () if has("failed") => DeliveryStatus::Failed,
                () => DeliveryStatus::Success,
            },
            spec: criteria::spec(&deal.terms.criteria, None, deal.terms.timeout_s).unwrap(),
            auto_approve: has("word"),
            tier: if has("verified") { Tier::Verified } else { Tier::Trusted },
            verifier: (!has("alone")).then(|| agent("v1")),
        },
        "ack" => {
            let asked = deal.attempt(attempt).and_then(|a| a.verifier);
            Input::Acknowledge { attempt, by: verifier.or(asked).unwrap_or(agent("v1")) }
        }
        "pass" => decide(Outcome::Verified),
        "fail" => decide(Outcome::Failed),
        "reject" => decide(Outcome::Rejected),
        "error" => decide(Outcome::Error),
        // A reviewer's words.
        "decide" if has("release") || part.is_some() => decide(Outcome::Verified),
        "decide" if has("refund") => decide(Outcome::Rejected),
        "decide" if has("error") => decide(Outcome::Error),
        "baseline" => Input::Baseline { by: verifier.unwrap(), fingerprint: Hash32([5; 32]) },
        "cancel" => Input::Cancel { by: role(rest[0]) },
        "claim" => Input::ClaimRefund,
        "dispute" => Input::Dispute { by: role(rest[0]), reason: "no".to_owned() },
        "object" => Input::Object { reason: "no".to_owned(), verifier },
        "split" => Input::Split { by: role(rest[0]), released: amount(rest[1]) },
        "tick" => Input::Tick,
        other => panic!("{other} is no input"),
    }
}

pub fn play(story: &str) -> Played {
    let (setup, story) = story.split_once(':').unwrap_or((story, ""));
    let (mut deal, policy) = begin(setup);
    let (mut now, mut refused, mut moved) = (at(0), Vec::new(), Vec::new());
    for line in story.split(';').map(str::trim).filter(|line| !line.is_empty()) {
        let (time, words) = line.split_once(' ').unwrap();
        now = at(time.parse().unwrap());
        match step(&deal, now, &policy, read(&deal, words)) {
            Ok((next, effects)) => {
                deal = next;
                let money = effects.iter().filter_map(show_money);
                moved.extend(money.map(|money| format!("{time}: {money}")));
            }
            Err(refusal) => refused.push(format!("{line}: {}", show_refusal(&refusal))),
        }
    }
    Played { deal, policy, now, log: (refused, moved) }
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.log.0.iter().chain(&self.log.1) {
            writeln!(f, "{line}")?;
        }
        f.write_str(&show_states(&self.deal))?;
        match self.deal.closed {
            None => Ok(()),
            Some(closed) => {
                let of = closed.attempt.map_or(String::new(), |number| format!(" of #{number}"));
                let (released, method) = (closed.released, closed.method);
                write!(f, ", {released} by {method:?}{of} at {}", seconds(closed.at))
            }
        }
    }
}

/// What lies ahead, whether it matters or not.
pub fn limits(deal: &Deal) -> Vec<(&'static str, Timestamp)> {
    let deadline = deal.terms.deadline;
    let mut limits = vec![
        ("baseline", deal.accepted_at.plus(BASELINE_WAIT)),
        ("think", deal.accepted_at.plus(REQUESTER_CANCELS_WITHIN)),
        ("deadline", deadline),
        ("grace", deadline.plus(GRACE)),
    ];
    limits.extend(deal.window_until.map(|time| ("window", time)));
    let review = deal.review.as_ref().and_then(|review| review.deadline);
    let attempt = deal.last_attempt().and_then(|attempt| attempt.deadline);
    limits.extend(attempt.filter(|_| review != attempt).map(|time| ("timeout", time)));
    limits.extend(review.map(|time| ("review", time)));
    limits
}

fn show_states(deal: &Deal) -> String {
    use crate::agreement::State::*;
    let agreement = match deal.agreement {
        Disputed { open: true } => "Disputed(open)".to_owned(),
        Disputed { open: false } => "Disputed(closed)".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{agreement} {:?}", deal.escrow)
}

/// The states, and what is not as it was. Limits are as long as they are from now.
pub fn show_change(old: &Deal, new: &Deal, now: Timestamp, effects: &[Effect]) -> String {
    let known = old.review.as_ref().and_then(|review| review.deadline);
    let ahead = |time: Option<Timestamp>| match time {
        None => "no end".to_owned(),
        Some(_) if time == known => "what is left".to_owned(),
        Some(time) => format!("{}s", (time.as_ms() - now.as_ms()) / 1000),
    };
    let mut parts = vec![show_states(new)];
    for (index, attempt) in new.attempts.iter().enumerate() {
        let mut part = format!("#{} {} {:?}", attempt.number, attempt.spec.kind, attempt.status);
        let known = old.attempts.get(index);
        if known.is_none() {
            let who = attempt.verifier.as_ref().map_or("a reviewer".to_owned(), name);
            part += &format!(" by {who} in {}", ahead(attempt.deadline));
            let before = attempt.supersedes.map(|id| id.attempt());
            part += &before.map_or(String::new(), |number| format!(" over #{number}"));
        }
        if known.is_some_and(|known| known.proof != attempt.proof) {
            part += " proved";
        }
        parts.push(part);
    }
    let mut changed = |is: bool, part: String| parts.extend(is.then_some(part));
    changed(old.delivered != new.delivered, "delivered".to_owned());
    changed(
        old.window_until != new.window_until,
        match new.window_until {
            None => "window gone".to_owned(),
            until => format!("window {}", ahead(until)),
        },
    );
    if let Some(review) = new.review.as_ref().filter(|_| old.review != new.review) {
        let end = match review.status {
            skep_wire::settle::ReviewStatus::Pending => ahead(review.deadline),
            _ => format!("{:?}", review.status),
        };
        changed(true, format!("review of #{} for {:?} {end}", review.attempt, review.cause));
    }
    changed(old.contest != new.contest, "contested".to_owned());
    changed(old.verdict_reason != new.verdict_reason, format!("{:?}", new.verdict_reason));
    changed(old.statements != new.statements, "statement".to_owned());
    if let Some(offer) = new.split_offer.filter(|_| old.split_offer != new.split_offer) {
        changed(true, format!("{:?} offers {}", offer.by, offer.released_minor));
    }
    changed(old.cancel_asked != new.cancel_asked, "cancel asked".to_owned());
    changed(old.baseline != new.baseline, "baseline".to_owned());
    if let Some(verifier) = new.verifier_due.filter(|_| old.verifier_due != new.verifier_due) {
        changed(true, format!("{} is due", name(&verifier)));
    }
    if let Some(closed) = new.closed.filter(|_| old.closed != new.closed) {
        assert_eq!(closed.at, now);
        let of = closed.attempt.map_or(String::new(), |number| format!(" of #{number}"));
        changed(true, format!("{} by {:?}{of}", closed.released, closed.method));
    }
    let effects: Vec<_> = effects.iter().map(show_effect).collect();
    format!("{} [{}]", parts.join(", "), effects.join(", "))
}

fn show_money(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Settle { released, deposit: None } => Some(format!("settle {released}")),
        Effect::Settle { released, deposit: Some((contest, end)) } => {
            Some(format!("settle {released}, deposit of {:?} {end:?}", contest.by))
        }
        Effect::TakeDeposit(contest) => {
            Some(format!("take {} from {:?}", contest.deposit, contest.by))
        }
        Effect::Ask { .. } | Effect::OpenReview | Effect::CloseReview | Effect::Tell(_) => None,
    }
}

fn show_effect(effect: &Effect) -> String {
    match effect {
        Effect::Ask { attempt } => format!("ask #{attempt}"),
        Effect::OpenReview => "open review".to_owned(),
        Effect::CloseReview => "close review".to_owned(),
        Effect::Tell(kind) => (*kind).to_owned(),
        Effect::Settle { .. } | Effect::TakeDeposit(_) => show_money(effect).unwrap(),
    }
}

pub fn show_refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Delivered { at } => format!("Delivered({})", seconds(*at)),
        Refusal::DeadlinePassed { deadline } => format!("DeadlinePassed({})", seconds(*deadline)),
        Refusal::DeadlineNotPassed { from } => format!("DeadlineNotPassed({})", seconds(*from)),
        Refusal::AutoApproveNotAgreed { why } => format!("AutoApproveNotAgreed({why})"),
        Refusal::Verification { reason: verification::Refusal::Over { status } } => {
            format!("Over({status:?})")
        }
        Refusal::Verification { reason: verification::Refusal::TooLate { deadline } } => {
            format!("TooLate({})", seconds(*deadline))
        }
        Refusal::Review { reason: review::Refusal::TooLate { deadline } } => {
            format!("Review TooLate({})", seconds(*deadline))
        }
        refusal => format!("{refusal:?}"),
    }
}
