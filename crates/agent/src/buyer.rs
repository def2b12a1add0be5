//! A buyer: finds a seller, pays it, checks what it gave, and says so in public.
//!
//! [`Buyer::hire`] is a function call: parameters in, a checked result out. What is signed is
//! written to a journal before it is sent, so that a buyer that dies at any step knows afterwards
//! what it owes and what it was promised: [`Buyer::resume`] finishes that.
//!
//! Another seller is tried only while nothing has been signed for the one before, or when what was
//! signed was not taken and has expired (decision 15). Until then the same seller is asked again
//! with the same payment, which it can take once only.

mod answer;
mod book;
mod callback;
mod checker;
mod clarify;
mod demand;
mod desk;
mod drive;
mod entry;
mod error;
mod finish;
mod order;
mod purse;
mod rails;
mod search;
mod talk;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use skep_base::{AgentId, Amount, Clock, Hash32, Timestamp, wallet::WalletKey};
use skep_hire::capability;
use skep_probe::{Egress, EgressError, Policy};
use skep_sdk::Client;
use skep_wire::{
    hire::{
        BudgetToken, Found, HireRequest, JobCallback, MAX_LATENCY_MS_MAX, PROTOCOL,
        PROTOCOL_CLARIFY, SearchAnswer, SignedError, Usdc, WalletSigned,
    },
    x402::{Payable, Rail},
};
use tokio::sync::{Notify, mpsc};

use self::{
    book::Book,
    demand::Expected,
    desk::facilitator_request,
    drive::Driven,
    entry::{Authorized, Entry, Intent, Open},
    search::{Judged, Memory},
    talk::Said,
};
pub use self::{
    callback::CallbackError,
    checker::{Checker, Taxonomy},
    clarify::{Clarification, ClarifyOrder},
    desk::DeskError,
    drive::Resumed,
    error::{HireError, Refusal},
    order::{Attempt, Candidate, EscrowEnd, HireOrder, Hired, PaymentChoice, Plan},
};
use crate::journal::{Journal, JournalError};

/// A payment is good for so long beyond what the seller may take.
pub const GRACE: Duration = Duration::from_secs(60);
/// What a seller that works on its own time may take, unless the order says otherwise.
pub const ASYNC_PATIENCE_MS: u64 = 5 * 60 * 1000;
/// The longest that an order may wait.
pub const PATIENCE_MS_MAX: u64 = 50 * 60 * 1000;
/// The way to the seller and back.
const ROAD: Duration = Duration::from_secs(5);
/// What a buyer needs to check a result in escrow.
const WINDOW_MS_MIN: u64 = 5_000;
/// The first pause before a seller is asked again; it doubles.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A journal longer than this is made shorter when it is opened, in bytes.
pub const COMPACT_ABOVE: u64 = 16 * 1024 * 1024;

/// What a buyer is, and how far it goes.
#[derive(Clone, Debug)]
pub struct BuyerConfig {
    pub wallet: WalletKey,
    /// Pays in place of `wallet`, and signs for each hire that it does. All else is `wallet`'s.
    pub pay_with: Option<WalletKey>,
    /// The node that it searches, pays and counter-signs at.
    pub node: Client,
    pub clock: Arc<dyn Clock>,
    pub checker: Arc<dyn Checker>,
    /// Whether sellers on this machine are reached: with a node that was made with `--dev`.
    pub allow_loopback: bool,
    /// The most that one hire costs, whatever an order says.
    pub price_max: Amount,
    /// Spends somebody else's money, within what the token allows.
    pub budget: Option<BudgetToken>,
    /// Other nodes' addresses whose escrow is trusted: `custom_escrow:URL`.
    pub custom_escrows: Vec<String>,
    /// How long a payment is good beyond the seller's time.
    pub grace: Duration,
    /// Is told what happens, line by line, for people.
    pub progress: Option<mpsc::UnboundedSender<String>>,
}

impl BuyerConfig {
    pub fn new(
        wallet: WalletKey,
        node: Client,
        clock: Arc<dyn Clock>,
        checker: Arc<dyn Checker>,
    ) -> BuyerConfig {
        BuyerConfig {
            wallet,
            pay_with: None,
            node,
            clock,
            checker,
            allow_loopback: false,
            price_max: Amount::MAX,
            budget: None,
            custom_escrows: Vec::new(),
            grace: GRACE,
            progress: None,
        }
    }
}

/// Why a buyer cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error("the budget is not this agent's: {0}")]
    Budget(String),
}

/// Hires. Cheap to clone; clones share the journal, the budget and the limits.
#[derive(Clone, Debug)]
pub struct Buyer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: BuyerConfig,
    egress: Egress,
    journal: Journal,
    book: Mutex<Book>,
    /// The budget's name and its limit.
    budget: Option<(Hash32, Amount)>,
    rails: Mutex<BTreeMap<String, Rail>>,
    /// What searches have found, and when.
    found: Mutex<BTreeMap<String, (Timestamp, SearchAnswer)>>,
    /// Jobs whose end a seller has told by callback.
    callbacks: Mutex<BTreeMap<(AgentId, String), JobCallback>>,
    rung: Notify,
}

impl Buyer {
    /// Opens the journal and reads what was left open.
    pub fn open(config: BuyerConfig, journal: &Path) -> Result<Buyer, OpenError> {
        let bad = |error: SignedError| OpenError::Budget(error.to_string());
        let budget = match &config.budget {
            Some(token) if token.agent_id != config.wallet.address() => {
                return Err(OpenError::Budget(format!("it is {}'s", token.agent_id)));
            }
            Some(token) => Some((token.id().map_err(bad)?, token.limit())),
            None => None,
        };
        let (journal, book) = open_journal(journal)?;
        let egress = Egress::new(Policy {
            allow_loopback: config.allow_loopback,
            // Each call has a limit of its own below this one.
            timeout: Duration::from_millis(MAX_LATENCY_MS_MAX) + 2 * ROAD,
            ..Policy::default()
        })?;
        let inner = Inner {
            config,
            egress,
            journal,
            book: Mutex::new(book),
            budget,
            rails: Mutex::default(),
            found: Mutex::default(),
            callbacks: Mutex::default(),
            rung: Notify::new(),
        };
        Ok(Buyer { inner: Arc::new(inner) })
    }

    pub fn agent_id(&self) -> AgentId {
        self.inner.config.wallet.address()
    }

    /// What was paid since then, and what is signed and not over yet.
    pub fn spent_since(&self, since: Timestamp) -> (Amount, Amount) {
        self.book().spent_since(since)
    }

    /// What this buyer may still spend of its budget, by its own count.
    pub fn budget_left(&self) -> Option<Amount> {
        self.inner.budget.map(|(id, limit)| self.book().left(&id, limit))
    }

    /// Hires that are not over.
    pub fn open_hires(&self) -> usize {
        self.book().open_ids().len()
    }

    /// Whom an order would hire and what it would pay, without doing it.
    pub async fn plan(&self, order: &HireOrder) -> Result<Plan, HireError> {
        let (order, price) = self.readied(order)?;
        let mut plan = Plan { candidates: Vec::new(), refused: Vec::new() };
        for (found, judged) in self.candidates(&order, price, Memory::Leave).await?.0 {
            match judged {
                Ok(price) => {
                    let payment_mode = found.listing.mode();
                    plan.candidates.push(Candidate { found, price, payment_mode });
                }
                Err(refusal) => plan.refused.push(attempt(&found, &refusal, false)),
            }
        }
        plan.candidates.truncate(order.sellers_max.max(1));
        Ok(plan)
    }

    /// Finds a seller, pays it, checks what it gave and counter-signs its receipt.
    pub async fn hire(&self, order: HireOrder) -> Result<Hired, HireError> {
        let (order, price) = self.readied(&order)?;
        let (candidates, remembered) = self.candidates(&order, price, Memory::Ask).await?;
        let ended = self.hire_one_of(&order, candidates).await;
        if !ended.as_ref().is_ok_and(|hired| hired.verification.all_passed) {
            // Whoever was cheated, or left alone, does not go by what it knew.
            lock(&self.inner.found).clear();
        }
        match ended {
            // Nobody has a signed payment, and whoever is there now may be another.
            Err(HireError::AllRefused { tried })
                if remembered && tried.iter().all(|one| !one.authorized) =>
            {
                let (candidates, _) = self.candidates(&order, price, Memory::Leave).await?;
                self.hire_one_of(&order, candidates).await
            }
            ended => ended,
        }
    }

    async fn hire_one_of(
        &self,
        order: &HireOrder,
        candidates: Vec<Judged>,
    ) -> Result<Hired, HireError> {
        let mut tried = Vec::new();
        let mut asked = 0;
        for (found, judged) in candidates {
            let price = match judged {
                Ok(price) => price,
                Err(refusal) => {
                    tried.push(attempt(&found, &refusal, false));
                    continue;
                }
            };
            if asked >= order.sellers_max.max(1) {
                break;
            }
            asked += 1;
            let seller = found.agent_id;
            self.tell(|| format!("asking {seller} for {} at {price}", order.capability));
            match self.try_one(order, &found, price).await? {
                Driven::Hired(hired) => return Ok(Hired { tried, ..*hired }),
                Driven::Unpaid { refusal, authorized } => {
                    self.tell(|| format!("{seller}: {refusal}"));
                    tried.push(attempt(&found, &refusal, authorized));
                }
            }
        }
        Err(HireError::AllRefused { tried })
    }

    /// The order with its quote looked up, and the quoted price.
    fn readied(&self, order: &HireOrder) -> Result<(HireOrder, Option<Amount>), HireError> {
        let mut order = order.clone();
        order.max_price = order.max_price.min(self.inner.config.price_max);
        if order.max_latency_ms.is_some_and(|ms| ms == 0 || ms > PATIENCE_MS_MAX) {
            let most = format!("it waits 1 to {PATIENCE_MS_MAX} ms");
            return Err(HireError::BadOrder(most));
        }
        let mut price = None;
        if let Some(token) = &order.quote_token {
            let book = self.book();
            let quoted = book.quote(token).ok_or(HireError::BadQuote("nobody here got it"))?;
            let now = self.now().as_ms() / 1000;
            if quoted.quote.expires_at.is_some_and(|end| end <= now) {
                return Err(HireError::BadQuote("it has expired"));
            }
            if quoted.capability != order.capability {
                return Err(HireError::BadQuote("it is for another capability"));
            }
            // The seller is bound by exactly these.
            order.params = quoted.quote.params.clone();
            order.listing = Some(quoted.listing_id);
            price = Some(quoted.quote.price_usdc.amount());
        }
        let checked = match capability::is_shallow(&order.params) {
            true => self.inner.config.checker.check_params(&order.capability, None, &order.params),
            false => Err(vec!["they are nested too deep".to_owned()]),
        };
        let capability = order.capability.clone();
        checked.map_err(|problems| HireError::BadParams { capability, problems })?;
        Ok((order, price))
    }

    /// One seller, from the signed hire to the end.
    async fn try_one(
        &self,
        order: &HireOrder,
        found: &Found,
        price: Amount,
    ) -> Result<Driven, HireError> {
        let intent = self.intent(order, found, price)?;
        let id = intent.id;
        let (endpoint, patience) = (intent.listing.endpoint.clone(), intent.patience_ms);
        let hire = intent.hire.clone();
        let _in_hand = self.in_hand(id);
        self.record(Entry::Intent(Box::new(intent))).await?;
        let wait = self.wait_for(patience);
        let mut said = talk::hire(&self.inner.egress, &endpoint, &hire, (None, None), wait).await;
        if matches!(&said, Said::NotNow(Refusal::Unreached { .. } | Refusal::Declined { .. })) {
            // Nothing is signed yet: one more try costs nothing.
            tokio::time::sleep(PAUSE).await;
            said = talk::hire(&self.inner.egress, &endpoint, &hire, (None, None), wait).await;
        }
        let refusal = match said {
            Said::Pay(_) if order.max_price == Amount::ZERO => Refusal::NotFree,
            Said::Pay(demand) => match self.authorize(id, &demand).await? {
                Ok(payable) => {
                    let said = self.pay(&self.look(id)?, payable).await;
                    return self.drive(id, Some(said)).await;
                }
                Err(refusal) => refusal,
            },
            said @ (Said::Done(_) | Said::Working(_)) => return self.drive(id, Some(said)).await,
            Said::NotNow(refusal) | Said::Never(refusal) => refusal,
        };
        self.abandon(id, refusal.code()).await?;
        Ok(Driven::Unpaid { refusal, authorized: false })
    }

    /// Signs the hire for this seller.
    fn intent(&self, order: &HireOrder, found: &Found, price: Amount) -> Result<Intent, HireError> {
        let config = &self.inner.config;
        let now = self.now();
        let listing = found.listing.clone();
        let default = match order.callback_url {
            Some(_) => ASYNC_PATIENCE_MS,
            None => listing.max_latency_ms,
        };
        // A seller that settles after its work needs a payment that lasts as long as that.
        let patience_ms = order.max_latency_ms.unwrap_or(default).max(listing.max_latency_ms);
        let protocol = match order.quote_token {
            Some(_) => PROTOCOL_CLARIFY,
            None => PROTOCOL,
        };
        let mut hire = HireRequest {
            protocol: protocol.to_owned(),
            buyer_id: self.agent_id(),
            capability: order.capability.clone(),
            params: order.params.clone(),
            max_price_usdc: Some(Usdc::from(order.max_price)),
            max_latency_ms: order.max_latency_ms,
            preferred_payment_mode: Some(listing.mode()),
            budget_token: config.budget.clone(),
            payer: self.binding(now, patience_ms)?,
            callback_url: order.callback_url.clone(),
            quote_token: order.quote_token.clone(),
            seller_id: Some(listing.agent_id),
            nonce: Some(nonce()?),
            issued_at: Some(now),
            signature: None,
            extra: BTreeMap::new(),
        };
        let id = hire.digest().map_err(|error| HireError::Sign(error.to_string()))?;
        hire.sign(&config.wallet).map_err(|error| HireError::Sign(error.to_string()))?;
        let accept_unverifiable = order.accept_unverifiable;
        Ok(Intent { id, at: now, hire, listing, price, patience_ms, accept_unverifiable })
    }

    /// Checks what is asked for, speaks for the money, signs, and asks the own node whether it
    /// would take it. Nobody but the node has seen the payment then. Gives the node's word.
    async fn authorize(
        &self,
        id: Hash32,
        demand: &demand::Demand,
    ) -> Result<Result<Option<Payable>, Refusal>, HireError> {
        let open = self.look(id)?;
        let config = &self.inner.config;
        let (intent, now) = (&open.intent, self.now());
        let desk = self.desk(&intent.listing.mode());
        let rail = self.rail(&intent.listing.mode()).await?;
        let expected = Expected {
            rail: &rail,
            listing: &intent.listing,
            amount: intent.price,
            hire: id,
            buyer: self.agent_id(),
            window_ms_min: WINDOW_MS_MIN,
        };
        let chosen = match demand::choose(demand, &expected) {
            Ok(chosen) => chosen,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let direct = intent.hire.payment_nonce();
        let direct = direct.map_err(|error| HireError::Sign(error.to_string()))?;
        let wanted = intent.price;
        if let Err(error) = self.speak_for(id, wanted) {
            self.abandon(id, error.code()).await?;
            return Err(error);
        }
        let wanted_time = Duration::from_millis(intent.patience_ms) + config.grace;
        let valid_s = purse::valid_s(intent, wanted_time, now);
        let signed = demand::sign(self.purse(), &rail, &chosen, &direct, now, valid_s);
        let signed = match signed {
            Ok(signed) => signed,
            Err(reason) => {
                self.abandon(id, "not_signable").await?;
                return Err(HireError::Sign(reason));
            }
        };
        let authorized = Authorized {
            id,
            at: now,
            amount: wanted,
            valid_before: signed.valid_before,
            version: signed.version,
            payment: signed.payment,
            requirements: signed.requirements,
            rail,
            escrow: chosen.escrow,
            budget: self.inner.budget.map(|(budget, _)| budget),
        };
        // Written down before anybody sees it, the node included.
        self.record(Entry::Authorized(Box::new(authorized))).await?;
        let asked = match facilitator_request(&self.look(id)?) {
            Some(request) => desk.verify(&request).await,
            None => return Err(HireError::Sign("the hire has no envelope".to_owned())),
        };
        let refused = match asked {
            Ok(verified) if verified.is_valid => return Ok(Ok(verified.payable)),
            Ok(verified) => HireError::NotPayable {
                reason: verified.invalid_reason.unwrap_or_default(),
                detail: verified.invalid_message.unwrap_or_default(),
            },
            Err(error) => HireError::Node(error),
        };
        self.abandon(id, refused.code()).await?;
        Err(refused)
    }

    /// Speaks for money, before it is signed for.
    fn speak_for(&self, id: Hash32, wanted: Amount) -> Result<(), HireError> {
        let (now, token) = (self.now(), self.inner.config.budget.as_ref());
        if token.is_some_and(|token| token.expires_at() <= now) {
            return Err(HireError::BadOrder("the budget has expired".to_owned()));
        }
        let reserved = self.book().reserve(id, wanted, now, self.inner.budget);
        reserved.map_err(|left| HireError::OverBudget { wanted, left })
    }

    /// Nothing was paid, and nothing that was signed can be taken.
    async fn abandon(&self, id: Hash32, code: &str) -> Result<(), HireError> {
        self.book().unreserve(&id);
        self.record(Entry::Abandoned { id, code: code.to_owned() }).await
    }

    /// Writes a line to the disk, then acts on it.
    async fn record(&self, entry: Entry) -> Result<(), HireError> {
        self.inner.journal.append(&entry).await?;
        self.book().apply(entry);
        Ok(())
    }

    fn look(&self, id: Hash32) -> Result<Open, HireError> {
        let open = self.book().get(&id).cloned();
        open.ok_or_else(|| HireError::BadOrder("this hire is over".to_owned()))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.inner.book)
    }

    fn now(&self) -> Timestamp {
        self.inner.config.clock.now()
    }

    /// How long one call to a seller may take.
    fn wait_for(&self, patience_ms: u64) -> Duration {
        Duration::from_millis(patience_ms.min(MAX_LATENCY_MS_MAX)) + ROAD
    }

    fn tell(&self, line: impl FnOnce() -> String) {
        if let Some(progress) = &self.inner.config.progress {
            // Nobody listens any more: the hire goes on.
            let _ = progress.send(line());
        }
    }

    /// Keeps others of this process from a hire until it is dropped.
    fn in_hand(&self, id: Hash32) -> InHand {
        let taken = self.book().take_in_hand(id);
        InHand { buyer: self.clone(), id, taken }
    }
}

struct InHand {
    buyer: Buyer,
    id: Hash32,
    /// Whether it was free.
    taken: bool,
}

impl Drop for InHand {
    fn drop(&mut self) {
        if self.taken {
            self.buyer.book().put_down(&self.id);
        }
    }
}

/// Opens the journal, and leaves out what is over if it has grown too long.
fn open_journal(path: &Path) -> Result<(Journal, Book), JournalError> {
    let (journal, entries) = Journal::open::<Entry>(path)?;
    let book = Book::of(entries);
    if journal.len().is_ok_and(|length| length <= COMPACT_ABOVE) {
        return Ok((journal, book));
    }
    Journal::rewrite(path, &book.entries())?;
    drop(journal);
    let (journal, entries) = Journal::open::<Entry>(path)?;
    Ok((journal, Book::of(entries)))
}

fn attempt(found: &Found, refusal: &Refusal, authorized: bool) -> Attempt {
    Attempt {
        seller: found.agent_id,
        listing_id: found.listing_id,
        code: refusal.code().to_owned(),
        detail: refusal.to_string(),
        authorized,
    }
}

/// 32 hex digits that nobody has used.
fn nonce() -> Result<String, HireError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| HireError::Sign(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
