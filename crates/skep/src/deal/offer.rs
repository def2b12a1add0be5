//! 3.1 and 3.2: an offer, and what the other side says to it.

use std::{io::Write, path::PathBuf};

use anyhow::{Context, Result};
use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use serde_json::{Map, Value};
use skep_base::{AgentId, Asset, Did, Money, id::DealId};
use skep_sdk::Client;
use skep_wire::settle::{
    CounterTerms, DealOptions, Hints, Metadata, NegotiationAnswer, NegotiationRequest,
    NegotiationResponse, Party, RemainderPolicy, ResponseStatus, Role, VCAP_VERSION, WorkRequest,
};

use super::{
    span::{Span, When},
    status::report,
    words::{Told, by_node_clock, in_asset, json_object, message},
};
use crate::{client::SignerArgs, settings::Settings};

/// Ask an agent for work, at a price and with criteria that are checked before it is paid
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep deal request 0x… --price '12.50 USDC' --service text.write \\
      --description 'Write hello' --check-type artifact --expect hello --deadline 3d
  skep deal request 0x… --price '5 USD' --service web.edit --description 'Fix the title' \\
      --url https://example.org --selector title --expect 'Fixed' --dispute-window 24h
  skep deal request --file request.json

Without anything that a machine can check, you judge the work yourself (skep deal approve).")]
pub struct Request {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// Who is asked: an address (0x…) or a DID
    #[arg(required_unless_present = "file", value_parser = party)]
    provider: Option<String>,
    /// What is paid, such as '12.50 USDC'
    #[arg(long, value_name = "MONEY", required_unless_present = "file")]
    price: Option<Money>,
    /// What kind of work it is, such as text.write
    #[arg(long, value_name = "TYPE", required_unless_present = "file")]
    service: Option<String>,
    /// The work in words
    #[arg(long, value_name = "TEXT", required_unless_present = "file")]
    description: Option<String>,
    #[command(flatten)]
    terms: TermsArgs,
    /// Free data for the other side, a JSON object
    #[arg(long, value_name = "JSON", value_parser = metadata)]
    metadata: Option<Value>,
    /// Only if the provider holds a benchmark now, and still when it accepts
    #[arg(long)]
    requires_benchmark: bool,
    /// Send this negotiation_request instead, as it is; - reads stdin
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["provider", "price", "service", "description", "metadata",
            "requires_benchmark", "TermsArgs", "ChecksArgs"]
    )]
    file: Option<PathBuf>,
}

/// What both sides agree on besides the price.
#[derive(Debug, Args)]
pub struct TermsArgs {
    /// Until when the work is due: a time, or a span such as 3d [default: 7d from acceptance]
    #[arg(long, value_name = "WHEN")]
    deadline: Option<When>,
    #[command(flatten)]
    checks: ChecksArgs,
    /// The page must have changed since the deal was closed; wants --url
    #[arg(long)]
    changed: bool,
    /// More for the engine, a JSON object such as '{"status": 200}'
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    custom: Option<Value>,
    /// How long a failed verdict can be disputed before the refund [default: 0s]
    #[arg(long, value_name = "SPAN")]
    dispute_window: Option<Span>,
    /// How long a verdict may take [default: 30m, 1d for a person]
    #[arg(long, value_name = "SPAN")]
    timeout: Option<Span>,
    /// Refund what a reviewer has not decided after so long [default: a reviewer must decide]
    #[arg(long, value_name = "SPAN")]
    review_deadline: Option<Span>,
    /// Who carries what a hold below the whole price leaves open [default: on_release]
    #[arg(long, value_name = "POLICY", value_parser = remainder())]
    remainder: Option<RemainderPolicy>,
    /// The verifier that both agree on [default: the marketplace picks one]
    #[arg(long, value_name = "ADDRESS")]
    verifier: Option<AgentId>,
    /// What the verifier gets, in the currency of the price
    #[arg(long, value_name = "MONEY")]
    verifier_price: Option<Money>,
    /// The provider's word is enough, unless you object within a day
    #[arg(long)]
    auto_approve: bool,
    /// How long this offer stands [default: 24h]
    #[arg(long, value_name = "WHEN")]
    expires: Option<When>,
}

/// What an engine looks at and for; a delivery may fill what the terms leave open.
#[derive(Debug, Args)]
pub struct ChecksArgs {
    /// Who judges: http, api, artifact, browser, llm, composite, human, requester, or an engine of
    /// a verifier's own
    #[arg(long, value_name = "TYPE")]
    check_type: Option<String>,
    /// The address to look at
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The part that counts: JSONPath if it begins with $, else CSS
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Text that must be there, whatever its case and white space
    #[arg(long, value_name = "TEXT")]
    expect: Option<String>,
}

impl ChecksArgs {
    pub fn hints(self) -> Hints {
        let ChecksArgs { check_type, url, selector, expect } = self;
        Hints { kind: check_type, url, selector, expected_content: expect, ..Hints::default() }
    }
}

/// Terms from the command line, with times by the node's clock.
struct Worded {
    deadline: Option<skep_base::Timestamp>,
    hints: Option<Hints>,
    options: Option<DealOptions>,
}

impl TermsArgs {
    async fn read(
        self,
        client: &Client,
        asset: impl AsyncFnOnce() -> Result<Asset>,
    ) -> Result<Worded> {
        let deadline = by_node_clock(client, self.deadline).await?;
        let verifier_price_minor = match self.verifier_price {
            None => None,
            Some(money) => Some(in_asset(money, asset().await?, "--verifier-price")?),
        };
        let hints = Hints {
            fingerprint_delta: self.changed.then_some(true),
            custom: self.custom,
            ..self.checks.hints()
        };
        let options = DealOptions {
            remainder_policy: self.remainder,
            dispute_window_s: self.dispute_window.map(Span::seconds),
            timeout_s: self.timeout.map(Span::seconds),
            review_deadline_s: self.review_deadline.map(Span::seconds),
            verifier: self.verifier,
            verifier_price_minor,
            auto_approve: self.auto_approve.then_some(true),
            offer_expires_at: by_node_clock(client, self.expires).await?,
        };
        Ok(Worded {
            deadline,
            hints: Some(hints).filter(|hints| *hints != Hints::default()),
            options: Some(options).filter(|options| *options != DealOptions::default()),
        })
    }
}

fn party(text: &str) -> Result<String, String> {
    match text.parse::<AgentId>().is_ok() || text.parse::<Did>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err("an agent is an address (0x and 40 hex digits) or a DID".to_owned()),
    }
}

fn metadata(text: &str) -> Result<Value, String> {
    let value = json_object(text)?;
    match value.get("skep") {
        None => Ok(value),
        Some(_) => Err("what is in metadata.skep has flags of its own".to_owned()),
    }
}

fn remainder() -> impl TypedValueParser<Value = RemainderPolicy> {
    PossibleValuesParser::new(["on_release", "reserve", "advance"])
        .try_map(|word| serde_json::from_value::<RemainderPolicy>(Value::String(word)))
}

fn metadata_of(options: Option<DealOptions>, free: Option<Value>) -> Option<Metadata> {
    let more = match free {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let metadata = Metadata { skep: options, more };
    Some(metadata).filter(|metadata| *metadata != Metadata::default())
}

impl Request {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, keyring) = self.signer.client(settings)?;
        let answer = match &self.file {
            Some(path) => client.open_negotiation(&message(path)?).await.told()?,
            None => {
                let request = self.message(&client, keyring.agent_id()).await?;
                client.open_negotiation(&request).await.told()?
            }
        };
        let NegotiationAnswer { negotiation_id: id, price, .. } = &answer.value;
        let headline = format!("offered {price} in deal {id}");
        report(&client, *id, &answer.value, &headline, json, out).await
    }

    async fn message(self, client: &Client, me: AgentId) -> Result<NegotiationRequest> {
        const MISSING: &str = "PROVIDER, --price, --service and --description are wanted";
        let price = self.price.context(MISSING)?;
        let terms = self.terms.read(client, async || Ok(price.asset)).await?;
        let named = |agent_id: String| Party { agent_id, platform: Some("skep".to_owned()) };
        Ok(NegotiationRequest {
            vcap_version: VCAP_VERSION.to_owned(),
            message_type: "negotiation_request".to_owned(),
            negotiation_id: None,
            requester: named(me.to_string()),
            provider: named(self.provider.context(MISSING)?),
            request: WorkRequest {
                service_type: self.service.context(MISSING)?,
                description: self.description.context(MISSING)?,
                budget_amount: price.into(),
                budget_currency: price.asset,
                budget_amount_minor: Some(price.amount),
                requirements: None,
                deadline_utc: terms.deadline,
                requires_benchmark: None,
            },
            verification_hints: terms.hints,
            metadata: metadata_of(terms.options, self.metadata),
            requires_benchmark: self.requires_benchmark.then_some(true),
        })
    }
}

/// Answer an offer: accept, reject or counter it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep deal respond ID accept
  skep deal respond ID reject --reason 'no time this week'
  skep deal respond ID counter --price '15.00 USDC' --deadline 5d")]
pub struct Respond {
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
    #[command(subcommand)]
    answer: Answer,
}

#[derive(Debug, Subcommand)]
enum Answer {
    /// Take the offer as it stands: the requester's money is held from then on
    #[command(after_help = "Example: skep deal respond ID accept")]
    Accept(AcceptArgs),
    /// Say no, or withdraw an offer of your own that nobody has accepted
    #[command(after_help = "Example: skep deal respond ID reject --reason 'no time this week'")]
    Reject(RejectArgs),
    /// Offer other terms; what is not said stays as it was
    #[command(after_help = "Example: skep deal respond ID counter --price '15.00 USDC'")]
    Counter(Box<CounterArgs>),
}

#[derive(Debug, Args)]
struct AcceptArgs {
    #[command(flatten)]
    signer: SignerArgs,
    /// Accept at this price only
    #[arg(long, value_name = "MONEY")]
    price: Option<Money>,
}

#[derive(Debug, Args)]
struct RejectArgs {
    #[command(flatten)]
    signer: SignerArgs,
    /// Why, in words for the other side
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
struct CounterArgs {
    #[command(flatten)]
    signer: SignerArgs,
    /// Another price, in the same currency
    #[arg(long, value_name = "MONEY")]
    price: Option<Money>,
    /// Another description of the work
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    #[command(flatten)]
    terms: TermsArgs,
}

/// Accept an offer as it stands: short for respond ID accept
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep deal accept ID
  skep deal accept ID --price '12.50 USDC'")]
pub struct Accept {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
    /// Accept at this price only
    #[arg(long, value_name = "MONEY")]
    price: Option<Money>,
}

impl Accept {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let Accept { signer, id, price } = self;
        let answer = Answer::Accept(AcceptArgs { signer, price });
        Respond { id, answer }.run(settings, json, out).await
    }
}

impl Respond {
    pub fn signer(&self) -> &SignerArgs {
        match &self.answer {
            Answer::Accept(args) => &args.signer,
            Answer::Reject(args) => &args.signer,
            Answer::Counter(args) => &args.signer,
        }
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, keyring) = self.signer().client(settings)?;
        let id = self.id;
        let (response, done) = match self.answer {
            Answer::Accept(AcceptArgs { price, .. }) => {
                let terms = price.map(|price| CounterTerms {
                    amount: Some(price.into()),
                    amount_minor: Some(price.amount),
                    currency: Some(price.asset),
                    ..CounterTerms::default()
                });
                let blank = blank(id, ResponseStatus::Accepted);
                (NegotiationResponse { counter_terms: terms, ..blank }, "accepted")
            }
            Answer::Reject(RejectArgs { reason, .. }) => (rejection(id, reason), "rejected"),
            Answer::Counter(args) => {
                (args.message(&client, id, keyring.agent_id()).await?, "countered")
            }
        };
        let answer = client.respond(&response).await.told()?.value;
        let headline = format!("{done} deal {id} at {}", answer.price);
        report(&client, id, &answer, &headline, json, out).await
    }
}

/// A no to an offer.
pub fn rejection(id: DealId, reason: Option<String>) -> NegotiationResponse {
    let terms = CounterTerms { rejection_reason: reason, ..CounterTerms::default() };
    let counter_terms = terms.rejection_reason.is_some().then_some(terms);
    NegotiationResponse { counter_terms, ..blank(id, ResponseStatus::Rejected) }
}

fn blank(id: DealId, response_status: ResponseStatus) -> NegotiationResponse {
    NegotiationResponse {
        vcap_version: VCAP_VERSION.to_owned(),
        message_type: "negotiation_response".to_owned(),
        negotiation_id: id,
        response_status,
        counter_terms: None,
        provider_verification_hints: None,
        verification_hints: None,
        metadata: None,
    }
}

impl CounterArgs {
    async fn message(
        self,
        client: &Client,
        id: DealId,
        me: AgentId,
    ) -> Result<NegotiationResponse> {
        let table = client.negotiation(id).await.told()?;
        let terms = self.terms.read(client, async || Ok(table.price.asset)).await?;
        let counter = CounterTerms {
            amount: self.price.map(Into::into),
            amount_minor: self.price.map(|price| price.amount),
            currency: self.price.map(|price| price.asset),
            description: self.description,
            deadline_utc: terms.deadline,
            rejection_reason: None,
        };
        let by = if me == table.requester { Role::Requester } else { Role::Provider };
        // Only the requester says what is checked, and its words replace all that it said before;
        // a provider may fill what was left open.
        let (requesters, providers) = match by {
            Role::Requester => (terms.hints.map(|hints| over(hints, &table.criteria)), None),
            Role::Provider => (None, terms.hints),
        };
        Ok(NegotiationResponse {
            counter_terms: Some(counter).filter(|terms| *terms != CounterTerms::default()),
            verification_hints: requesters,
            provider_verification_hints: providers,
            metadata: metadata_of(terms.options, None),
            ..blank(id, ResponseStatus::Countered)
        })
    }
}

/// Hints with what was on the table in the places that they do not name.
fn over(new: Hints, old: &Hints) -> Hints {
    Hints {
        kind: new.kind.or_else(|| old.kind.clone()),
        url: new.url.or_else(|| old.url.clone()),
        selector: new.selector.or_else(|| old.selector.clone()),
        expected_content: new.expected_content.or_else(|| old.expected_content.clone()),
        fingerprint_delta: new.fingerprint_delta.or(old.fingerprint_delta),
        auto_approve: new.auto_approve.or(old.auto_approve),
        custom: new.custom.or_else(|| old.custom.clone()),
    }
}
