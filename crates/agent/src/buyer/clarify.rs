//! 7.5: one question before a hire, one answer.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use skep_base::{AgentId, Amount, id::ListingId};
use skep_hire::capability;
use skep_wire::hire::{
    BRIEF_LEN_MAX, CLARIFY_BUYER_MS, COUNTER_PAUSE_MS, Clarified, Clarifies, ClarifyRequest, Found,
    OPTIONS_MAX, PROTOCOL_CLARIFY, Quote, Usdc, WalletSigned, check_protocol,
};

use super::{
    Attempt, Buyer, HireError, HireOrder, Refusal, attempt,
    entry::{Entry, Quoted},
    nonce,
    search::Memory,
    talk::{at, json_post, short},
};

/// What is asked, and of whom.
#[derive(Clone, Debug, PartialEq)]
pub struct ClarifyOrder {
    pub capability: String,
    pub brief: String,
    /// What is known already.
    pub params: Value,
    pub max_price: Option<Amount>,
    pub max_latency_ms: Option<u64>,
    pub agent: Option<AgentId>,
    pub listing: Option<ListingId>,
}

/// What a seller said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clarification {
    pub seller: AgentId,
    pub listing_id: ListingId,
    #[serde(flatten)]
    pub clarified: Clarified,
    /// Those before it that did not answer.
    pub tried: Vec<Attempt>,
}

impl Buyer {
    /// Asks the best seller that can be asked. What it offers is kept: an order takes it up by its
    /// `quote_token`.
    pub async fn clarify(&self, order: ClarifyOrder) -> Result<Clarification, HireError> {
        if order.brief.len() > BRIEF_LEN_MAX {
            let most = format!("a brief has at most {BRIEF_LEN_MAX} bytes");
            return Err(HireError::BadOrder(most));
        }
        let max_price = order.max_price.unwrap_or(Amount::MAX).min(self.inner.config.price_max);
        let wanted = HireOrder {
            max_latency_ms: order.max_latency_ms,
            agent: order.agent,
            listing: order.listing,
            // Nothing is paid for a question.
            accept_unverifiable: true,
            ..HireOrder::new(order.capability.clone(), order.params.clone(), max_price)
        };
        let mut tried = Vec::new();
        let mut too_soon = None;
        // A quote may cost more or less than the listing says.
        let listed = Some(Amount::ZERO);
        for (found, judged) in self.candidates(&wanted, listed, Memory::Leave).await?.0 {
            if let Err(refusal) = judged {
                tried.push(attempt(&found, &refusal, false));
                continue;
            }
            if found.listing.clarification_supported != Some(true) {
                let refusal = Refusal::WrongListing("it cannot be asked");
                tried.push(attempt(&found, &refusal, false));
                continue;
            }
            let countered = self.book().countered_at(&found.listing_id);
            let until = countered.map(|at| at.plus(Duration::from_millis(COUNTER_PAUSE_MS)));
            if let Some(until) = until.filter(|until| self.now() < *until) {
                too_soon = Some(HireError::AskedTooSoon { until });
                continue;
            }
            match self.ask_one(&order, &found, max_price).await? {
                Ok(clarified) => {
                    self.keep(&found, &clarified).await?;
                    let (seller, listing_id) = (found.agent_id, found.listing_id);
                    return Ok(Clarification { seller, listing_id, clarified, tried });
                }
                Err(refusal) => tried.push(attempt(&found, &refusal, false)),
            }
        }
        Err(too_soon.unwrap_or(HireError::AllRefused { tried }))
    }

    async fn ask_one(
        &self,
        order: &ClarifyOrder,
        found: &Found,
        max_price: Amount,
    ) -> Result<Result<Clarified, Refusal>, HireError> {
        let mut request = ClarifyRequest {
            protocol: PROTOCOL_CLARIFY.to_owned(),
            buyer_id: self.agent_id(),
            capability: order.capability.clone(),
            brief: order.brief.clone(),
            params: order.params.clone(),
            max_price_usdc: order.max_price.map(|_| Usdc::from(max_price)),
            max_latency_ms: order.max_latency_ms,
            nonce: nonce()?,
            seller_id: Some(found.agent_id),
            issued_at: Some(self.now()),
            signature: None,
        };
        let signed = request.sign(&self.inner.config.wallet);
        signed.map_err(|error| HireError::Sign(error.to_string()))?;
        let body = serde_json::to_vec(&request).unwrap_or_default();
        let sent = self.inner.egress.send(json_post(at(&found.listing.endpoint, "/clarify"), body));
        let limit = Duration::from_millis(CLARIFY_BUYER_MS);
        let answer = match tokio::time::timeout(limit, sent).await {
            Err(_) => return Ok(Err(Refusal::NoAnswer)),
            Ok(Err(error)) => {
                let (code, detail) = (error.code(), error.to_string());
                return Ok(Err(Refusal::Unreached { code, detail }));
            }
            Ok(Ok(answer)) => answer,
        };
        if answer.status != 200 {
            let code = format!("status_{}", answer.status);
            let (status, detail) = (answer.status, String::new());
            return Ok(Err(Refusal::Declined { status, code, detail }));
        }
        Ok(match skep_base::json::from_slice::<Clarified>(&answer.body) {
            Ok(clarified) => judge(clarified, max_price),
            Err(error) => Err(Refusal::Garbage(short(&error.to_string()))),
        })
    }

    /// Remembers what was offered, and that a seller with a counter-offer is to be left alone.
    async fn keep(&self, found: &Found, clarified: &Clarified) -> Result<(), HireError> {
        let quotes: &[Quote] = match clarified {
            Clarified::Quote { quote, .. } => std::slice::from_ref(quote),
            Clarified::Counter { counter, .. } => {
                let (listing_id, at) = (found.listing_id, self.now());
                self.record(Entry::Countered { listing_id, at }).await?;
                &counter.options
            }
            Clarified::Decline { .. } => &[],
        };
        for quote in quotes {
            let quoted = Quoted {
                listing_id: found.listing_id,
                seller: found.agent_id,
                capability: found.listing.capability.clone(),
                quote: quote.clone(),
            };
            self.record(Entry::Quoted(Box::new(quoted))).await?;
        }
        Ok(())
    }
}

/// 7.5.3: more than three alternatives are a chat, and that is refused.
fn judge(clarified: Clarified, max_price: Amount) -> Result<Clarified, Refusal> {
    let (Clarified::Quote { protocol, .. }
    | Clarified::Counter { protocol, .. }
    | Clarified::Decline { protocol, .. }) = &clarified;
    if let Err(error) = check_protocol(protocol, Clarifies::Yes) {
        return Err(Refusal::Garbage(error.to_string()));
    }
    let quotes = match &clarified {
        Clarified::Quote { quote, .. } => std::slice::from_ref(quote),
        Clarified::Counter { counter, .. } => counter.options.as_slice(),
        Clarified::Decline { .. } => &[],
    };
    if !quotes.iter().all(|quote| capability::is_shallow(&quote.params)) {
        return Err(Refusal::Garbage("it is nested too deep".to_owned()));
    }
    match &clarified {
        Clarified::Quote { quote, .. } if quote.price_usdc.amount() > max_price => {
            let price = quote.price_usdc.amount();
            Err(Refusal::OverPrice { price, max: max_price })
        }
        Clarified::Counter { counter, .. } if counter.options.len() > OPTIONS_MAX => {
            Err(Refusal::Garbage(format!("more than {OPTIONS_MAX} alternatives")))
        }
        _ => Ok(clarified),
    }
}
