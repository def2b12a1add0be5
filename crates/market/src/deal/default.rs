//! Decision 9: a debt that stays open for seven days is a public default.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Amount, Asset,
    id::{DealId, DebtId},
};
use skep_store::{AccountId, Job, JobDraft, JobEnd, Load, Lock, RouteKey, Turn};

use crate::{AgentRecord, Failure, Market, identity::agent_key};

/// Jobs that look whether a debt was paid in time.
pub(crate) const DEFAULT_JOB: &str = "debt.default";
/// How long a debt may be open before it is a public default.
pub(super) const DEFAULT_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Serialize, Deserialize)]
struct DefaultJob {
    deal: DealId,
    debt: DebtId,
    debtor: AgentId,
    asset: Asset,
}

/// What the log says of a default.
#[derive(Debug, Serialize)]
struct Defaulted {
    negotiation_id: DealId,
    debtor: AgentId,
    open_minor: Amount,
    asset: Asset,
}

/// Comes back in seven days to see whether the debt is paid.
pub(super) fn watch(turn: &mut Turn, deal: DealId, debt: DebtId, debtor: &AccountId) {
    let Ok(agent) = debtor.owner().parse::<AgentId>() else { return };
    let body = DefaultJob { deal, debt, debtor: agent, asset: debtor.asset() };
    let Ok(body) = serde_json::to_string(&body) else { return };
    turn.job(JobDraft {
        route: RouteKey::of(deal),
        kind: DEFAULT_JOB,
        destination: String::new(),
        due_at: turn.now().plus(DEFAULT_AFTER),
        body,
    });
}

impl Market {
    /// Puts an unpaid debt on the debtor's record.
    pub(crate) async fn finish_default(&self, job: Job) -> Result<(), Failure> {
        let Ok(DefaultJob { deal, debt, debtor, asset }) = serde_json::from_str(&job.body) else {
            self.store.fail_job(job, "the job names no debt".to_owned(), None).await?;
            return Ok(());
        };
        let wallet = AccountId::wallet(&debtor, asset);
        let state = self.store.debt(&wallet, debt).await?;
        let open = state.map_or(Amount::ZERO, |state| state.open);
        if open.is_zero() {
            self.store.finish_job(job).await?;
            return Ok(());
        }
        let key = agent_key(&debtor);
        let load = Load {
            records: vec![(key.clone(), Lock::Exclusive)],
            accounts: vec![wallet.clone()],
            ..Load::default()
        };
        let end = JobEnd { route: job.route.clone(), id: job.id };
        self.run(load, vec![], move |turn| {
            turn.end_job(end.clone());
            let record: Option<AgentRecord> = turn.record(&key)?;
            // Paid between the two looks.
            let owed = turn.book.account(&wallet).map_or(Amount::ZERO, |account| account.owed);
            let (Some(mut record), false) = (record, owed.is_zero()) else { return Ok(()) };
            record.agent.defaults = record.agent.defaults.saturating_add(1);
            turn.put(&key, &record)?;
            let told = Defaulted { negotiation_id: deal, debtor, open_minor: open, asset };
            turn.event(&key.route, "debt.defaulted", &told, &[debtor])?;
            Ok(())
        })
        .await?;
        Ok(())
    }
}
