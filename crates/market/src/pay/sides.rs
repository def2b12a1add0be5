//! Who stands on the two sides of a hire's escrow, where that matters for the seller's score.

use skep_base::{AgentId, Did};
use skep_score::Fact;
use skep_store::{Load, Lock, Turn};
use skep_wire::hire::EscrowTerms;

use super::escrow::HireEscrowRecord;
use crate::{
    AgentRecord, Failure, Market,
    answer::Stop,
    identity::agent_key,
    score::{Change, ScoreLine, Scored, load_track},
};

#[derive(Clone, Debug)]
pub(crate) struct Sides {
    seller: AgentId,
    /// Nobody is scored whom this node does not know.
    operator: Option<Did>,
    /// The operator of the buyer, or of the wallet that pays, is the seller's or the payee's.
    linked: bool,
}

impl Market {
    /// A payee of the buyer's operator gives the buyer its money back, so that its hire is as good
    /// as one of itself. So is one that the seller's own operator pays.
    pub(crate) async fn sides_of(&self, record: &HireEscrowRecord) -> Result<Sides, Failure> {
        let EscrowTerms { seller, buyer, payee, .. } = &record.terms;
        let payer = record.payer();
        let keys = [seller, payee, buyer, &payer].map(agent_key);
        let mut records = self.read_all(keys.to_vec()).await?;
        let mut operator = || -> Result<Option<Did>, Failure> {
            let known: Option<AgentRecord> = crate::read::next(&mut records)?;
            Ok(known.map(|known| known.agent.operator))
        };
        let [sellers, payees] = [operator()?, operator()?];
        let spenders = [operator()?, operator()?];
        let linked = spenders.iter().any(|it| it.is_some() && [&sellers, &payees].contains(&it));
        Ok(Sides { seller: *seller, operator: sellers, linked })
    }
}

impl Sides {
    fn scored(&self) -> Option<&Did> {
        self.operator.as_ref().filter(|_| !self.linked)
    }

    pub(crate) fn load(&self, load: &mut Load) {
        let Some(operator) = self.scored() else { return };
        load.records.push((agent_key(&self.seller), Lock::None));
        load_track(load, &self.seller, operator, Lock::Exclusive);
    }

    /// Hires within one operator count for nothing.
    pub(crate) fn count(
        &self,
        market: &Market,
        turn: &mut Turn,
        fact: Option<Fact>,
    ) -> Result<ScoreLine, Stop> {
        match self.scored() {
            Some(operator) => {
                let who = Scored { agent: self.seller, operator };
                market.count(turn, who, Change::of(fact))
            }
            None => Ok(ScoreLine::default()),
        }
    }
}
