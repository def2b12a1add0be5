//! `POST /hire`, up to the moment when something is done: what was asked, and whether it may be.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::{Value, json};
use skep_base::{AgentId, Amount, Hash32, Timestamp, hash::json_sha256, json};
use skep_hire::capability;
use skep_wire::hire::{
    BudgetToken, Clarifies, HIRE_FRESH_MS, HIRE_NONCE_LEN_MAX, HireEnvelope, HireRequest, PROTOCOL,
    WalletBinding, WalletSigned, check_protocol,
};

use super::{
    Checker,
    book::Book,
    checks,
    entry::Known,
    offer::{Offer, Shelf, Ware},
    refusal::Refusal,
};

/// The longest address that a job's end is posted to, in bytes.
const CALLBACK_LEN_MAX: usize = 2000;

/// A hire without its parameters, in bytes.
pub(crate) const WORDS_LEN_MAX: usize = 64 * 1024;

/// Whether parameters fit an offer, or what is wrong with them.
type Fits = Result<(), Vec<String>>;

/// What somebody wants, as far as it is known to be possible.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) request: HireRequest,
    /// The hire's digest and envelope; absent for plain x402 clients.
    pub(crate) signed: Option<(Hash32, HireEnvelope)>,
    /// What could be sold for it, at a price that the buyer takes.
    pub(crate) wares: Vec<Ware>,
    /// Instead of the listings' prices.
    pub(crate) quoted: Option<Amount>,
    /// Whether it is this buyer's free call.
    pub(crate) free: bool,
}

impl Asked {
    pub(crate) fn price(&self, ware: &Ware) -> Amount {
        self.quoted.unwrap_or(ware.price())
    }

    /// The wallet's word that it pays for the buyer, who has signed that too.
    pub(crate) fn binding(&self) -> Option<&WalletBinding> {
        self.request.payer.as_ref().filter(|_| self.signed.is_some())
    }
}

/// What a request comes to before payment is looked at.
pub(crate) enum Read {
    Asked(Box<Asked>),
    /// The very same signed hire was there before.
    Known(Box<Known>),
}

/// Who sells what, and what it remembers.
pub(crate) struct Reader<'a> {
    pub(crate) seller: AgentId,
    pub(crate) shelf: &'a Shelf,
    pub(crate) book: &'a Book,
    pub(crate) checker: &'a dyn Checker,
    pub(crate) now: Timestamp,
}

impl Reader<'_> {
    pub(crate) fn read(&self, body: &[u8]) -> Result<Read, Refusal> {
        let value = json::parse(body)
            .map_err(|error| Refusal::new(400, "malformed_json", error.to_string()))?;
        check_depth(&value)?;
        let request = self.request(value)?;
        self.check_length(&request, body.len())?;
        let signed = match request.signature {
            Some(_) => Some(self.check_signed(&request)?),
            None => None,
        };
        if let (Some((hash, _)), Some(nonce)) = (&signed, &request.nonce)
            && let Some(known) = self.book.by_nonce(request.buyer_id, nonce)
        {
            return match known.hire.body_hash == *hash {
                true => Ok(Read::Known(Box::new(known))),
                false => {
                    let detail = "this nonce was used for another hire: take a new one";
                    Err(Refusal::new(409, "nonce_reused", detail))
                }
            };
        }
        if signed.is_some() {
            self.check_fresh(request.issued_at)?;
        }
        self.check_budget(&request, signed.is_some())?;
        check_callback(request.callback_url.as_deref())?;
        self.choose(request, signed).map(|asked| Read::Asked(Box::new(asked)))
    }

    /// The message, with what a plain x402 client leaves out.
    fn request(&self, mut value: Value) -> Result<HireRequest, Refusal> {
        let bad = |detail: String| Refusal::new(400, "malformed_hire", detail);
        let object = value.as_object_mut().ok_or_else(|| bad("a hire is an object".to_owned()))?;
        let is_plain = !object.contains_key("signature");
        if is_plain {
            object.entry("protocol").or_insert_with(|| json!(PROTOCOL));
            let nobody = json!(AgentId([0; 20]));
            object.entry("buyer_id").or_insert(nobody);
            if let (1, Some(only)) = (self.shelf.len(), self.shelf.keys().next()) {
                object.entry("capability").or_insert_with(|| json!(only));
            }
        }
        let has_quote = object.get("quote_token").is_some_and(|token| !token.is_null());
        let clarifies = if has_quote { Clarifies::Yes } else { Clarifies::No };
        let protocol = object.get("protocol").and_then(Value::as_str).unwrap_or_default();
        check_protocol(protocol, clarifies)
            .map_err(|error| Refusal::new(400, "unknown_protocol", error.to_string()))?;
        let capability = object.get("capability").and_then(Value::as_str).unwrap_or_default();
        if !self.shelf.contains_key(capability) {
            let sold: Vec<&str> = self.shelf.keys().map(String::as_str).collect();
            let detail = format!("this seller sells {}", sold.join(", "));
            return Err(Refusal::new(404, "capability_not_sold", detail));
        }
        serde_json::from_value(value).map_err(|error| bad(error.to_string()))
    }

    /// Parameters are kept until the hire is over, so there is an end to them.
    fn check_length(&self, request: &HireRequest, body_len: usize) -> Result<(), Refusal> {
        // What is short stays short, however its numbers are written.
        if body_len <= WORDS_LEN_MAX {
            return Ok(());
        }
        let wares = self.shelf.get(&request.capability).map(Vec::as_slice).unwrap_or_default();
        let longest = wares.iter().map(|ware| ware.offer.params_len_max).max().unwrap_or(0);
        let len = serde_json::to_vec(request).map_or(usize::MAX, |bytes| bytes.len());
        match len <= longest + WORDS_LEN_MAX {
            true => Ok(()),
            false => {
                let detail = format!("this capability takes parameters of {longest} bytes here");
                Err(Refusal::new(413, "params_too_large", detail))
            }
        }
    }

    fn check_signed(&self, request: &HireRequest) -> Result<(Hash32, HireEnvelope), Refusal> {
        let hash = request
            .check_signature()
            .map_err(|error| Refusal::new(401, "bad_hire_signature", error.to_string()))?;
        if request.seller_id != Some(self.seller) {
            let detail = "the hire is signed for another seller";
            return Err(Refusal::new(403, "not_this_seller", detail));
        }
        let nonce = request.nonce.as_deref().unwrap_or_default();
        if nonce.is_empty() || nonce.len() > HIRE_NONCE_LEN_MAX {
            let detail = format!("a signed hire has a nonce of 1 to {HIRE_NONCE_LEN_MAX} bytes");
            return Err(Refusal::new(400, "bad_nonce", detail));
        }
        if request.buyer_id == self.seller {
            return Err(Refusal::new(403, "self_hire", "nobody hires itself"));
        }
        let envelope = request
            .envelope()
            .map_err(|error| Refusal::new(400, "malformed_hire", error.to_string()))?;
        Ok((hash, envelope))
    }

    pub(crate) fn check_fresh(&self, issued_at: Option<Timestamp>) -> Result<(), Refusal> {
        let fresh =
            issued_at.is_some_and(|at| at.as_ms().abs_diff(self.now.as_ms()) <= HIRE_FRESH_MS);
        match fresh {
            true => Ok(()),
            false => {
                let detail = format!("issued_at must be within {HIRE_FRESH_MS} ms of {}", self.now);
                Err(Refusal::new(401, "stale_request", detail))
            }
        }
    }

    /// The node counts; here only what it would refuse in any case.
    fn check_budget(&self, request: &HireRequest, signed: bool) -> Result<(), Refusal> {
        let Some(token) = &request.budget_token else { return Ok(()) };
        let bad = |detail: &str| Err(Refusal::new(422, "invalid_budget", detail));
        let BudgetToken { agent_id, issuer, .. } = token;
        if !signed {
            return bad("a budget needs a signed hire");
        }
        if *agent_id != request.buyer_id {
            return bad("the budget is another agent's");
        }
        if self.now < token.starts_at() || self.now >= token.expires_at() {
            return bad("the budget is not valid now");
        }
        if matches!(issuer, skep_wire::hire::BudgetIssuer::Agent(_))
            && let Err(error) = token.check(None)
        {
            return bad(&error.to_string());
        }
        Ok(())
    }

    /// What can be sold for it.
    fn choose(
        &self,
        request: HireRequest,
        signed: Option<(Hash32, HireEnvelope)>,
    ) -> Result<Asked, Refusal> {
        let mut wares = self.shelf.get(&request.capability).cloned().unwrap_or_default();
        self.retain_fitting(&mut wares, &request.params)?;
        let quoted = self.quoted(&request)?;
        if signed.is_none() {
            wares.retain(|ware| !ware.mode.is_escrow());
            if wares.is_empty() {
                let detail = "this is sold in escrow only, and that takes a signed hire";
                return Err(Refusal::new(422, "signed_hire_needed", detail));
            }
        }
        let longest = request.max_latency_ms.unwrap_or(u64::MAX);
        wares.retain(|ware| ware.offer.max_latency_ms <= longest);
        if wares.is_empty() {
            let detail = format!("it may take longer than {longest} ms");
            return Err(Refusal::new(422, "latency_above_max", detail));
        }
        let free = signed.is_some()
            && quoted.is_none()
            && wares.iter().any(|ware| {
                let (per_day, name) = (ware.offer.free_per_day, &request.capability);
                ware.offer.first_call_free
                    && self.book.free_left(request.buyer_id, name, per_day, self.now)
            });
        let asked = Asked { request, signed, wares, quoted, free };
        let most = asked.request.max_price_usdc.as_ref().map(|price| price.amount());
        let mut within = asked.clone();
        if let Some(most) = most {
            within.wares.retain(|ware| asked.price(ware) <= most);
        }
        match within.wares.is_empty() {
            // Whoever pays nothing is not asked for what it would pay.
            true if free => Ok(asked),
            true => {
                let prices = asked.wares.iter().map(|ware| asked.price(ware));
                let price = prices.min().unwrap_or_default();
                let detail = format!("it costs {price} minor units, more than max_price_usdc");
                Err(Refusal::new(422, "price_above_max", detail))
            }
            false => Ok(within),
        }
    }

    /// Leaves what takes these parameters. Offers of one capability may have different schemas.
    fn retain_fitting(&self, wares: &mut Vec<Ware>, params: &Value) -> Result<(), Refusal> {
        let mut first = None;
        let mut last: Option<(Arc<Offer>, Fits)> = None;
        wares.retain(|ware| {
            // The modes of one offer are beside one another, and parameters may be long.
            let known = last.take().filter(|(offer, _)| Arc::ptr_eq(offer, &ware.offer));
            let (_, fits) = last.insert(known.unwrap_or_else(|| {
                (ware.offer.clone(), checks::check_params(self.checker, ware, params))
            }));
            if let Err(problems) = fits {
                first.get_or_insert_with(|| problems.clone());
            }
            fits.is_ok()
        });
        match first.filter(|_| wares.is_empty()) {
            None => Ok(()),
            Some(problems) => {
                let detail = "the parameters are not what this capability takes";
                Err(Refusal::new(400, "bad_params", detail).with_errors(problems))
            }
        }
    }

    /// 7.5.2: a quote is for these parameters, this buyer and this time.
    fn quoted(&self, request: &HireRequest) -> Result<Option<Amount>, Refusal> {
        let Some(token) = &request.quote_token else { return Ok(None) };
        let refused = |code, detail: &str| Err(Refusal::new(409, code, detail));
        let Some(quote) = self.book.quote(token) else {
            return refused("quote_unknown", "this seller gave no such quote");
        };
        if quote.capability != request.capability || quote.buyer != request.buyer_id {
            return refused("quote_of_another", "the quote was given for another hire");
        }
        if self.now >= quote.expires_at {
            return refused("quote_expired", "the quote's time is over: ask again");
        }
        let same = json_sha256(&request.params).is_ok_and(|hash| hash == quote.params_hash);
        match same {
            true => Ok(Some(quote.price.amount())),
            false => refused("quote_params_changed", "the quote is for other parameters"),
        }
    }
}

/// What is nested deep costs stack wherever it is read, so it is not let in.
pub(crate) fn check_depth(value: &Value) -> Result<(), Refusal> {
    let is_shallow = match value {
        Value::Object(fields) => fields.values().all(capability::is_shallow),
        other => capability::is_shallow(other),
    };
    match is_shallow {
        true => Ok(()),
        false => Err(Refusal::new(400, "nested_too_deep", "the request is nested too deep")),
    }
}

fn check_callback(url: Option<&str>) -> Result<(), Refusal> {
    let Some(url) = url else { return Ok(()) };
    let is_good = url.len() <= CALLBACK_LEN_MAX
        && url::Url::parse(url)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some());
    match is_good {
        true => Ok(()),
        false => {
            let detail = "callback_url is no http or https address";
            Err(Refusal::new(400, "bad_callback_url", detail))
        }
    }
}

/// Whether a request carries JSON.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    match kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        true => Ok(()),
        false => Err(Refusal::new(415, "not_json", "send application/json")),
    }
}
