//! `POST /clarify` (7.5): one question before a hire, one answer.

use std::time::Duration;

use serde_json::{Value, json};
use skep_base::{Timestamp, hash::json_sha256, json};
use skep_wire::hire::{
    BRIEF_LEN_MAX, CLARIFY_PER_DAY, CLARIFY_SELLER_MS, Clarified, Clarifies, ClarifyRequest,
    Counter, HIRE_NONCE_LEN_MAX, OPTIONS_MAX, Quote, WalletSigned, check_protocol,
};

use super::{
    Shop,
    entry::{Entry, Kept},
    hire::{Reader, check_depth},
    offer::Ware,
    refusal::Refusal,
    work::{Brief, Offered, Scoped},
};

/// What is left of the three seconds for everything but the scoping itself.
const OWN_MS: u64 = 300;
/// How long a quote stands if the seller does not say, and at most.
const QUOTE_S_DEFAULT: u64 = 600;
const QUOTE_S_MAX: u64 = 24 * 3600;
/// Questions of all that do not sign together that came to no hire, in a day.
const UNSIGNED_PER_DAY: usize = 1000;
/// The same of all that do sign.
const SIGNED_PER_DAY: usize = 5000;
/// Questions that are answered at the same time. They are free, so hires do not wait for them.
pub(crate) const SCOPED_AT_ONCE: usize = 4;
/// The longest note or reason of a seller, in bytes.
const NOTE_LEN_MAX: usize = 2000;

impl Shop {
    pub(crate) async fn clarify(&self, body: &[u8]) -> Result<Value, Refusal> {
        let value = json::parse(body)
            .map_err(|error| Refusal::new(400, "malformed_json", error.to_string()))?;
        check_depth(&value)?;
        let request: ClarifyRequest = serde_json::from_value(value)
            .map_err(|error| Refusal::new(400, "malformed_clarification", error.to_string()))?;
        check_protocol(&request.protocol, Clarifies::Yes)
            .map_err(|error| Refusal::new(400, "unknown_protocol", error.to_string()))?;
        let Some(ware) = self.shelf.get(&request.capability).and_then(|wares| wares.first()) else {
            return Err(Refusal::new(404, "capability_not_sold", "this seller does not sell it"));
        };
        if !ware.offer.clarification_supported {
            let detail = "this listing takes hires as they are";
            return Err(Refusal::new(422, "clarification_not_supported", detail));
        }
        self.check_clarification(&request)?;
        let asked = json_sha256(&request)
            .map_err(|error| Refusal::new(400, "bad_params", error.to_string()))?;
        match self.book.clarified(request.buyer_id, &request.nonce) {
            Some((before, answer)) if before == asked => return Ok(answer),
            Some(_) => {
                let detail = "this nonce was used for another question: take a new one";
                return Err(Refusal::new(409, "nonce_reused", detail));
            }
            None => {}
        }
        let (now, signed) = (self.now(), request.signature.is_some());
        let open = self.book.rounds_open(request.buyer_id, signed, now);
        if open >= CLARIFY_PER_DAY as usize {
            let detail = format!("{open} clarifications in a day came to no hire");
            return Err(Refusal::new(429, "too_many_clarifications", detail).later(3600));
        }
        let (most, detail) = match signed {
            true => (SIGNED_PER_DAY, "too many have asked today"),
            false => (UNSIGNED_PER_DAY, "too many have asked without signing: sign the question"),
        };
        if self.book.all_rounds_open(signed, now) >= most {
            return Err(Refusal::new(429, "too_many_clarifications", detail).later(3600));
        }
        self.book.check_room()?;
        let ware = ware.clone();
        let (answer, quotes) = self.scope(&request, &ware, now).await?;
        let entry = Entry::Clarified {
            at: now,
            buyer: request.buyer_id,
            signed,
            nonce: request.nonce,
            asked,
            answer: json!(answer),
            quotes,
        };
        self.book.record(entry).await.map_err(|error| Refusal::no_journal(&error))?;
        Ok(json!(answer))
    }

    fn check_clarification(&self, request: &ClarifyRequest) -> Result<(), Refusal> {
        if request.brief.len() > BRIEF_LEN_MAX {
            let detail = format!("a brief has at most {BRIEF_LEN_MAX} bytes");
            return Err(Refusal::new(400, "brief_too_long", detail));
        }
        if request.nonce.is_empty() || request.nonce.len() > HIRE_NONCE_LEN_MAX {
            let detail = format!("a nonce has 1 to {HIRE_NONCE_LEN_MAX} bytes");
            return Err(Refusal::new(400, "bad_nonce", detail));
        }
        if request.signature.is_none() {
            return match self.clarify_signed_only {
                false => Ok(()),
                true => {
                    let detail = "this seller gives quotes to those who sign their question";
                    Err(Refusal::new(401, "signature_needed", detail))
                }
            };
        }
        request
            .check_signature()
            .map_err(|error| Refusal::new(401, "bad_signature", error.to_string()))?;
        if request.seller_id.is_some_and(|seller| seller != self.seller) {
            let detail = "the question is signed for another seller";
            return Err(Refusal::new(403, "not_this_seller", detail));
        }
        let reader = Reader {
            seller: self.seller,
            shelf: &self.shelf,
            book: &self.book,
            checker: self.checker.as_ref(),
            now: self.now(),
        };
        reader.check_fresh(request.issued_at)
    }

    async fn scope(
        &self,
        request: &ClarifyRequest,
        ware: &Ware,
        now: Timestamp,
    ) -> Result<(Clarified, Vec<Kept>), Refusal> {
        let busy = || Refusal::new(503, "busy", "everybody who could answer is at work").later(1);
        let seat = self.scoping.try_acquire().map_err(|_| busy())?;
        let brief = Brief {
            capability: request.capability.clone(),
            buyer_id: request.buyer_id,
            brief: request.brief.clone(),
            params: request.params.clone(),
            max_price_usdc: request.max_price_usdc.clone(),
            max_latency_ms: request.max_latency_ms,
        };
        let limit = Duration::from_millis(CLARIFY_SELLER_MS - OWN_MS);
        let scoped = ware.offer.work.scope(brief, limit).await;
        drop(seat);
        let protocol = request.protocol.clone();
        let scoped = scoped.unwrap_or_else(|error| {
            tracing::info!(%error, "a brief got no quote");
            Scoped::Decline { reason: "there is no quote for this now".to_owned() }
        });
        let mut kept = Vec::new();
        let mut quote = |offered: Offered| self.quote(request, ware, offered, now, &mut kept);
        let answer = match scoped {
            Scoped::Quote(offered) => Clarified::Quote { protocol, quote: quote(offered)? },
            Scoped::Counter { reason, options } => {
                let options = options.into_iter().take(OPTIONS_MAX).map(&mut quote);
                let options: Vec<Quote> = options.collect::<Result<_, _>>()?;
                let counter = Counter { reason: short(reason), options };
                Clarified::Counter { protocol, counter }
            }
            Scoped::Decline { reason } => Clarified::Decline { protocol, reason: short(reason) },
        };
        Ok((answer, kept))
    }

    /// Makes a quote, and remembers what it promises.
    fn quote(
        &self,
        request: &ClarifyRequest,
        ware: &Ware,
        offered: Offered,
        now: Timestamp,
        kept: &mut Vec<Kept>,
    ) -> Result<Quote, Refusal> {
        let broken = || Refusal::new(502, "bad_quote", "the seller's quote is of no use");
        if offered.price_usdc.amount().is_zero() {
            return Err(broken());
        }
        let params_hash = json_sha256(&offered.params).map_err(|_| broken())?;
        let seconds = offered.valid_for_s.unwrap_or(QUOTE_S_DEFAULT).min(QUOTE_S_MAX);
        let expires_at = now.plus(Duration::from_secs(seconds));
        let token = self.word("qt")?;
        kept.push(Kept {
            token: token.clone(),
            buyer: request.buyer_id,
            capability: request.capability.clone(),
            price: offered.price_usdc.clone(),
            params_hash,
            expires_at,
        });
        Ok(Quote {
            quote_token: token,
            price_usdc: offered.price_usdc,
            estimated_latency_ms: offered.estimated_latency_ms.unwrap_or(ware.offer.max_latency_ms),
            expires_at: Some(expires_at.as_ms() / 1000),
            params: offered.params,
            notes: offered.notes.map(short),
        })
    }
}

fn short(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(NOTE_LEN_MAX));
    text
}
