//! Decision 20: when a buyer takes its money back after a delivery, or says nothing, the platform
//! looks at the result itself. The refund stands; whether it counts is another matter.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, id::DealId};
use skep_store::{Bug, Job, JobDraft, JobEnd, Load, Lock, RouteKey, Turn};
use skep_wire::hire::Verification;

use super::{escrow::HireEscrowRecord, sides::Sides};
use crate::{
    AgentRecord, Failure, Market,
    answer::Stop,
    hire::{judged, load_judged},
    identity::agent_key,
    score::{ScoreLine, judged_fact},
};

/// Jobs that look at a result for which the money went back.
pub(crate) const JUDGE_JOB: &str = "hire.judge";
/// How long a look may take: a lease must not run out meanwhile.
const LOOK_TIME_MAX: Duration = Duration::from_secs(40);
/// A payload follows its receipt; so often, and so long apart, is it looked for.
const LOOKS_MAX: i64 = 5;
const LOOK_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug, Serialize, Deserialize)]
struct JudgeJob {
    escrow: DealId,
}

/// What the log says of a look.
#[derive(Debug, Serialize)]
struct Judged<'a> {
    escrow_id: DealId,
    receipt_id: &'a str,
    buyer: AgentId,
    seller: AgentId,
    all_passed: bool,
    verifiable: bool,
    #[serde(flatten)]
    score: ScoreLine,
}

/// Has the result looked at after the commit.
pub(super) fn ask(turn: &mut Turn, escrow: DealId) -> Result<(), Bug> {
    let body = serde_json::to_string(&JudgeJob { escrow }).map_err(|e| Bug(e.to_string()))?;
    turn.job(JobDraft {
        route: RouteKey::of(escrow),
        kind: JUDGE_JOB,
        destination: String::new(),
        due_at: turn.now(),
        body,
    });
    Ok(())
}

impl Market {
    /// Looks at a result, and writes down what was found.
    pub(crate) async fn finish_judge(&self, job: Job) -> Result<(), Failure> {
        let Ok(JudgeJob { escrow }) = serde_json::from_str(&job.body) else {
            self.store.fail_job(job, "the job names no escrow".to_owned(), None).await?;
            return Ok(());
        };
        let record = self.escrow_record(&escrow).await?;
        let Some(receipt_id) = record.delivered.as_ref().map(|d| d.receipt_id.clone()) else {
            self.store.finish_job(job).await?;
            return Ok(());
        };
        let Some(found) = self.look_at_result(&record, &receipt_id, job.attempts).await? else {
            let later = self.store.now().await?.plus(LOOK_PAUSE);
            let error = "the payload is not here yet, or nobody can look at it".to_owned();
            self.store.fail_job(job, error, Some(later)).await?;
            return Ok(());
        };
        let mut records = load_judged(&self.receipt_record(&receipt_id).await?);
        records.push((agent_key(&record.terms.buyer), Lock::Exclusive));
        let mut load = Load { records, ..Load::default() };
        let (sides, market) = (self.sides_of(&record).await?, self.clone());
        sides.load(&mut load);
        let end = JobEnd { route: job.route.clone(), id: job.id };
        self.run(load, vec![], move |turn| {
            turn.end_job(end.clone());
            write_down(turn, &market, &record, &receipt_id, &found, &sides)
        })
        .await?;
        Ok(())
    }

    /// What the check finds; `None` if it should be asked for again.
    async fn look_at_result(
        &self,
        record: &HireEscrowRecord,
        receipt_id: &str,
        attempts: i64,
    ) -> Result<Option<Verification>, Failure> {
        let last = attempts >= LOOKS_MAX;
        let unseen = |why: &str| Ok(last.then(|| Verification::not_verifiable(why)));
        let Some(checks) = &self.checks else {
            return unseen("no node could look at it");
        };
        let Some(payload) = self.payload(receipt_id).await? else {
            return unseen("the seller left nothing to look at");
        };
        let terms = &record.terms;
        let version = terms.verification_version.as_deref();
        let look = checks.verify(&terms.capability, version, &payload.params, &payload.result);
        match tokio::time::timeout(LOOK_TIME_MAX, look).await {
            Ok(found) => Ok(Some(found)),
            Err(_) => unseen("it took too long"),
        }
    }
}

fn write_down(
    turn: &mut Turn,
    market: &Market,
    record: &HireEscrowRecord,
    receipt_id: &str,
    found: &Verification,
    sides: &Sides,
) -> Result<(), Stop> {
    if !judged(turn, receipt_id, found)? {
        return Ok(());
    }
    let (buyer, seller) = (record.terms.buyer, record.terms.seller);
    let agent = agent_key(&buyer);
    if found.all_passed
        && let Some(mut known) = turn.record::<AgentRecord>(&agent)?
    {
        let count = known.agent.refunds_despite_pass;
        known.agent.refunds_despite_pass = count.saturating_add(1);
        turn.put(&agent, &known)?;
    }
    let fact = match found.failed() {
        true => judged_fact(record.id, &record.terms, turn.now()),
        false => None,
    };
    let score = sides.count(market, turn, fact)?;
    let told = Judged {
        escrow_id: record.id,
        receipt_id,
        buyer,
        seller,
        all_passed: found.all_passed,
        verifiable: found.verifiable,
        score,
    };
    turn.event(&RouteKey::of(receipt_id), "receipt.judged", &told, &[buyer, seller])?;
    Ok(())
}
