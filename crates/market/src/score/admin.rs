//! What only the node's operator does about scores: fraud, reviews, minimums, whom to trust. Every
//! act is in the log, with its reason.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skep_base::{AgentId, Did, Timestamp};
use skep_score::{
    Track,
    benchmark::{self, COOLDOWN},
    import::check_issuer,
    parameters::{Level, NotTighter, Parameters, tighten},
};
use skep_store::{Load, Lock, RecordKey, RouteKey, Turn};
use skep_wire::{
    admin::{AdminAct, AdminAnswer, AdminRequest, REASON_LEN_MAX},
    score::{Evaluator, TrustRegistry, TrustedIssuer},
    settle::{Standing, Tier},
};

use super::{
    OperatorRevocation, OperatorScore, Scored, base_of,
    distrust::distrust,
    load_track, operator_score_key,
    rank::{Whose, rank_at, rank_now},
    report, tell_agent, tell_benchmark,
};
use crate::{
    AgentRecord, Failure, LeftOperator, Market, Refusal, answer::Stop, deal::standing_key,
    identity::agent_key,
};

/// Issuers that a node trusts, at most.
const ISSUERS_MAX: usize = 1000;

/// Why an operator's act is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum AdminRefusal {
    #[error("give a reason of 1 to {REASON_LEN_MAX} bytes: the log keeps it")]
    NoReason,
    #[error(transparent)]
    Benchmark { benchmark: benchmark::OutOfTurn },
    #[error("{operator} is in no cool-down")]
    NoCooldown { operator: Did },
    #[error("the agent got another operator at this very moment; nothing was done, say it again")]
    OperatorChanged,
    #[error("say when it happened (--at TIME), so that the right one answers: {}",
        terms_of_office(.left, .operator))]
    WhichOperator { left: Vec<LeftOperator>, operator: Did },
    #[error("the time must be from {from} on, when the agent was registered, and not after {now}")]
    NoSuchTime { from: Timestamp, now: Timestamp },
    #[error("a tier is only taken away by hand, and {tier:?} is not below the agent's")]
    NotLower { tier: Tier },
    #[error("minimums are only ever tightened: {minimums}")]
    NotTighter { minimums: NotTighter },
    #[error("the entry cannot be taken: {what}")]
    BadIssuer { what: String },
    #[error("{platform} is not trusted anyway")]
    UnknownIssuer { platform: String },
}

impl From<AdminRefusal> for Stop {
    fn from(reason: AdminRefusal) -> Stop {
        Stop::Refused(Refusal::Admin { reason })
    }
}

impl From<AdminRefusal> for Failure {
    fn from(reason: AdminRefusal) -> Failure {
        Failure::Refused(Refusal::Admin { reason })
    }
}

/// Who was the operator until when.
fn terms_of_office(left: &[LeftOperator], operator: &Did) -> String {
    let until = |left: &LeftOperator| format!("{} until {}, ", left.operator, left.left_at);
    left.iter().map(until).collect::<String>() + &format!("{operator} since")
}

/// The minimums that hold, and why.
pub(crate) fn parameters_key() -> RecordKey {
    RecordKey::own("score_parameters", "score_parameters")
}

/// Whose exports are taken.
pub(crate) fn trust_registry_key() -> RecordKey {
    RecordKey::own("trust_registry", "trust_registry")
}

/// The operator that an agent has.
fn own(known: &AgentRecord) -> Did {
    known.agent.operator
}

/// What an act on one agent sees.
struct On<'a> {
    market: &'a Market,
    agent: AgentId,
    known: &'a AgentRecord,
    /// The operator that answers for it here, now or once the agent's own.
    answers: &'a Did,
    reason: &'a str,
}

impl On<'_> {
    fn who(&self) -> Scored<'_> {
        Scored { agent: self.agent, operator: &self.known.agent.operator }
    }

    fn value(&self, turn: &Turn, track: &Track) -> Result<u16, Stop> {
        let (base, parameters) = (base_of(turn, &self.agent)?, self.market.parameters());
        let around = self.who().around(self.market, turn, &base, &parameters)?;
        Ok(track.score(&around).1.value())
    }

    fn step(
        &self,
        turn: &mut Turn,
        track: &mut Track,
        input: benchmark::Input<'_>,
    ) -> Result<(), Stop> {
        let score = self.value(turn, track)?;
        let (after, event) = benchmark::step(&track.benchmark, turn.now(), score, input)
            .map_err(|benchmark| AdminRefusal::Benchmark { benchmark })?;
        track.benchmark = after;
        if let Some(event) = event {
            tell_benchmark(turn, &self.agent, track, &event)?;
        }
        Ok(())
    }

    fn tell(&self, turn: &mut Turn, kind: &'static str, track: &Track) -> Result<(), Stop> {
        let told = json!({ "agent_id": self.agent, "tier": track.tier, "reason": self.reason });
        tell_agent(turn, &self.agent, kind, &told)
    }

    /// Whether it is clear who answers: nobody sheds that by leaving.
    fn check_time(&self, now: Timestamp, at: Option<Timestamp>) -> Result<(), AdminRefusal> {
        let (agent, left) = (&self.known.agent, self.known.left_lately(now));
        let from = agent.registered_at;
        match at {
            Some(at) if at < from || now < at => Err(AdminRefusal::NoSuchTime { from, now }),
            None if !left.is_empty() => {
                Err(AdminRefusal::WhichOperator { left, operator: agent.operator })
            }
            _ => Ok(()),
        }
    }

    /// Notes in the agent's record which operator answers for its revocation.
    fn note(&self, turn: &mut Turn, revoked_under: Option<Did>) -> Result<(), Stop> {
        let noted = AgentRecord { revoked_under, ..self.known.clone() };
        Ok(turn.put(&agent_key(&self.agent), &noted)?)
    }

    /// 9.7, whole: the benchmark goes, and the operator gets its cool-down.
    fn revoke(
        &self,
        turn: &mut Turn,
        track: &mut Track,
        happened_at: Option<Timestamp>,
    ) -> Result<Value, Stop> {
        self.check_time(turn.now(), happened_at)?;
        self.step(turn, track, benchmark::Input::Revoke { reason: self.reason })?;
        // Badges go with it, and search hears of it.
        self.market.evaluate(turn, self.who(), track, Evaluator::Admin)?;
        report::enlist(turn, &self.agent, track);
        let key = operator_score_key(self.answers);
        let mut score: OperatorScore = turn.record(&key)?.unwrap_or_default();
        let until = turn.now().plus(COOLDOWN);
        score.cooldown_until = Some(until);
        score.revocations.push(OperatorRevocation {
            agent_id: self.agent,
            at: turn.now(),
            reason: self.reason.to_owned(),
            happened_at,
            reversed: None,
        });
        turn.put(&key, &score)?;
        self.note(turn, Some(*self.answers))?;
        let told = json!({
            "operator": self.answers, "agent_id": self.agent, "until": until,
            "reason": self.reason, "happened_at": happened_at,
        });
        turn.event(&key.route, "operator.cooldown_began", &told, &[self.agent])?;
        rank_now(turn, &Whose::Agent(self.agent))?;
        rank_now(turn, &Whose::Operator(*self.answers, None))?;
        rank_at(turn, until, &Whose::Operator(*self.answers, None))?;
        Ok(json!({ "benchmark": track.benchmark, "operator": score }))
    }

    fn clear(&self, turn: &mut Turn, track: &mut Track) -> Result<Value, Stop> {
        self.step(turn, track, benchmark::Input::Clear { reason: self.reason })?;
        let key = operator_score_key(self.answers);
        let mut score: OperatorScore = turn.record(&key)?.unwrap_or_default();
        self.note(turn, None)?;
        if score.reverse(&self.agent, self.reason) {
            turn.put(&key, &score)?;
            let told = json!({
                "operator": self.answers, "agent_id": self.agent, "reason": self.reason,
            });
            turn.event(&key.route, "operator.revocation_reversed", &told, &[self.agent])?;
        }
        rank_now(turn, &Whose::Agent(self.agent))?;
        Ok(json!({ "benchmark": track.benchmark, "operator": score }))
    }

    fn review(&self, turn: &mut Turn, track: &mut Track) -> Result<Value, Stop> {
        track.review(turn.now());
        self.tell(turn, "agent.reviewed", track)?;
        self.market.evaluate(turn, self.who(), track, Evaluator::Admin)?;
        Ok(json!({ "tier": track.tier, "reviewed_at": track.reviewed_at }))
    }

    fn demote(&self, turn: &mut Turn, track: &mut Track, tier: Tier) -> Result<Value, Stop> {
        if !track.demote(tier, turn.now()) {
            return Err(AdminRefusal::NotLower { tier }.into());
        }
        self.tell(turn, "tier.demoted", track)?;
        report::enlist(turn, &self.agent, track);
        self.market.evaluate(turn, self.who(), track, Evaluator::Admin)?;
        Ok(json!({ "tier": track.tier }))
    }
}

impl Market {
    /// Does what the node's operator says.
    pub async fn admin(&self, request: AdminRequest) -> Result<AdminAnswer, Failure> {
        let AdminRequest { act, reason } = request;
        if !(1..=REASON_LEN_MAX).contains(&reason.trim().len()) {
            return Err(AdminRefusal::NoReason.into());
        }
        match act {
            AdminAct::RevokeBenchmark { agent_id, at } => {
                let now = self.store.now().await?;
                let then = move |known: &AgentRecord| {
                    at.map_or(known.agent.operator, |at| known.operator_at(at, now))
                };
                let revoke = move |on: &On<'_>, turn: &mut Turn, track: &mut Track| {
                    on.revoke(turn, track, at)
                };
                self.on_agent(agent_id, reason, then, revoke).await
            }
            AdminAct::ClearRevocation { agent_id } => {
                let answers =
                    |known: &AgentRecord| known.revoked_under.unwrap_or(known.agent.operator);
                self.on_agent(agent_id, reason, answers, |on, turn, track| on.clear(turn, track))
                    .await
            }
            AdminAct::ReviewAgent { agent_id } => {
                self.on_agent(agent_id, reason, own, |on, turn, track| on.review(turn, track)).await
            }
            AdminAct::Demote { agent_id, tier } => {
                let demote = move |on: &On<'_>, turn: &mut Turn, track: &mut Track| {
                    on.demote(turn, track, tier)
                };
                self.on_agent(agent_id, reason, own, demote).await
            }
            AdminAct::EndCooldown { operator } => self.end_cooldown(operator, reason).await,
            AdminAct::SetSubscription { agent_id, subscription } => {
                self.subscribe(agent_id, subscription, reason).await
            }
            AdminAct::FundSubsidies { id, money } => self.fund_subsidies(id, money, reason).await,
            AdminAct::SetParameters { standard, elite } => {
                self.set_parameters(standard, elite, reason).await
            }
            AdminAct::TrustIssuer { issuer } => self.trust(issuer, reason).await,
            AdminAct::DropIssuer { platform } => self.distrust(platform, reason).await,
        }
    }

    async fn on_agent(
        &self,
        agent: AgentId,
        reason: String,
        who_answers: impl Fn(&AgentRecord) -> Did + Send + 'static,
        act: impl Fn(&On<'_>, &mut Turn, &mut Track) -> Result<Value, Stop> + Send + 'static,
    ) -> Result<AdminAnswer, Failure> {
        let known = self.agent_record(&agent).await?;
        let (operator, answers) = (known.agent.operator, who_answers(&known));
        // Nobody gets another operator meanwhile: those who were loaded are the right ones.
        let owner = agent_key(&agent);
        let mut load = Load { records: vec![(owner.clone(), Lock::Exclusive)], ..Load::default() };
        load_track(&mut load, &agent, &operator, Lock::Exclusive);
        // The cool-down is written by these acts alone.
        let cooldown = operator_score_key(&answers);
        load.records.retain(|(key, _)| *key != cooldown);
        load.records.push((cooldown, Lock::Exclusive));
        let market = self.clone();
        let done = self.run(load, vec![], move |turn| {
            let known: Option<AgentRecord> = turn.record(&owner)?;
            let same = |known: &AgentRecord| {
                (known.agent.operator, who_answers(known)) == (operator, answers)
            };
            let known = known.filter(same).ok_or(AdminRefusal::OperatorChanged)?;
            let mut track = market.track_of(turn, &agent)?;
            let on =
                On { market: &market, agent, known: &known, answers: &answers, reason: &reason };
            let now = act(&on, turn, &mut track)?;
            market.put_track(turn, &agent, &track)?;
            Ok(AdminAnswer { at: turn.now(), now })
        });
        Ok(done.await?.value)
    }

    async fn end_cooldown(&self, operator: Did, reason: String) -> Result<AdminAnswer, Failure> {
        let key = operator_score_key(&operator);
        let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        let ended = self.run(load, vec![], move |turn| {
            let mut score: OperatorScore = turn.record(&key)?.unwrap_or_default();
            if !score.in_cooldown(turn.now()) {
                return Err(AdminRefusal::NoCooldown { operator }.into());
            }
            score.cooldown_until = None;
            turn.put(&key, &score)?;
            let told = json!({ "operator": operator, "reason": reason });
            turn.event(&key.route, "operator.cooldown_ended", &told, &[])?;
            rank_now(turn, &Whose::Operator(operator, None))?;
            Ok(AdminAnswer { at: turn.now(), now: json!({ "operator": score }) })
        });
        Ok(ended.await?.value)
    }

    async fn subscribe(
        &self,
        agent: AgentId,
        subscription: Option<String>,
        reason: String,
    ) -> Result<AdminAnswer, Failure> {
        let (key, owner) = (standing_key(&agent), agent_key(&agent));
        let records = vec![(key.clone(), Lock::Exclusive), (owner.clone(), Lock::None)];
        let set = self.run(Load { records, ..Load::default() }, vec![], move |turn| {
            if turn.record::<AgentRecord>(&owner)?.is_none() {
                return Err(Refusal::UnknownAgent { agent: agent.to_string() }.into());
            }
            let mut standing: Standing = turn.record(&key)?.unwrap_or_default();
            standing.subscription = subscription.clone();
            turn.put(&key, &standing)?;
            let told = json!({
                "agent_id": agent, "subscription": subscription, "reason": reason,
            });
            turn.event(&RouteKey::of(agent), "agent.subscribed", &told, &[agent])?;
            Ok(AdminAnswer { at: turn.now(), now: json!({ "subscription": subscription }) })
        });
        Ok(set.await?.value)
    }

    /// 9.4: the next version of the minimums.
    async fn set_parameters(
        &self,
        standard: Level,
        elite: Level,
        reason: String,
    ) -> Result<AdminAnswer, Failure> {
        let key = parameters_key();
        let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        let set = self.run(load, vec![], move |turn| {
            let before: Parameters = turn.record(&key)?.unwrap_or_default();
            let after = tighten(&before, standard, elite)
                .map_err(|minimums| AdminRefusal::NotTighter { minimums })?;
            turn.put(&key, &after)?;
            let told = json!({ "parameters": after, "reason": reason });
            turn.event(&key.route, "score.parameters_set", &told, &[])?;
            Ok(AdminAnswer { at: turn.now(), now: json!({ "parameters": after }) })
        });
        let answer = set.await?.value;
        self.refresh_parameters().await?;
        Ok(answer)
    }

    async fn trust(&self, entry: TrustedIssuer, reason: String) -> Result<AdminAnswer, Failure> {
        check_issuer(&entry, self.dev)
            .map_err(|what| AdminRefusal::BadIssuer { what: what.to_owned() })?;
        self.change_registry(reason, "issuer.trusted", move |_, registry| {
            registry.trusted_issuers.retain(|known| known.platform != entry.platform);
            if registry.trusted_issuers.len() >= ISSUERS_MAX {
                let what = format!("at most {ISSUERS_MAX} issuers are trusted");
                return Err(AdminRefusal::BadIssuer { what }.into());
            }
            registry.trusted_issuers.push(entry.clone());
            Ok(json!({ "issuer": entry }))
        })
        .await
    }

    /// Nothing is taken from there any more, and what was taken ends.
    async fn distrust(&self, platform: String, reason: String) -> Result<AdminAnswer, Failure> {
        self.change_registry(reason, "issuer.dropped", move |turn, registry| {
            let before = registry.trusted_issuers.len();
            registry.trusted_issuers.retain(|known| known.platform != platform);
            if registry.trusted_issuers.len() == before {
                return Err(AdminRefusal::UnknownIssuer { platform: platform.clone() }.into());
            }
            distrust(turn, &platform)?;
            Ok(json!({ "dropped": platform, "imports": "ending" }))
        })
        .await
    }

    async fn change_registry(
        &self,
        reason: String,
        kind: &'static str,
        change: impl Fn(&mut Turn, &mut TrustRegistry) -> Result<Value, Stop> + Send + 'static,
    ) -> Result<AdminAnswer, Failure> {
        let key = trust_registry_key();
        let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        let changed = self.run(load, vec![], move |turn| {
            let mut registry: TrustRegistry = turn.record(&key)?.unwrap_or_default();
            let now = change(turn, &mut registry)?;
            turn.put(&key, &registry)?;
            let mut told = now.clone();
            told["reason"] = reason.clone().into();
            turn.event(&key.route, kind, &told, &[])?;
            Ok(AdminAnswer { at: turn.now(), now })
        });
        Ok(changed.await?.value)
    }

    /// Reads the minimums that hold now.
    pub(crate) async fn refresh_parameters(&self) -> Result<(), Failure> {
        let stored: Option<Parameters> = self.read(parameters_key()).await?;
        self.set_current(stored.unwrap_or_default());
        Ok(())
    }
}

/// `2026-Q4`
pub(super) fn quarter(now: Timestamp) -> String {
    let text = now.to_string();
    let month: u32 = text.get(5..7).and_then(|month| month.parse().ok()).unwrap_or(1);
    format!("{}-Q{}", text.get(..4).unwrap_or_default(), (month - 1) / 3 + 1)
}
