//! Who stands on the two sides of a hire's escrow, where that matters for the seller's score.

use skep_base::{AgentId, Did};
use skep_score::Fact;
use skep_store::{Load, Lock, Turn};

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
    linked: bool,
}

impl Market {
    pub(crate) async fn sides_of(&self, record: &HireEscrowRecord) -> Result<Sides, Failure> {
        let (seller, buyer) = (record.terms.seller, record.terms.buyer);
        let mut records = self.read_all(vec![agent_key(&seller), agent_key(&buyer)]).await?;
        let known: Option<AgentRecord> = crate::read::next(&mut records)?;
        let buyer: Option<AgentRecord> = crate::read::next(&mut records)?;
        let operator = known.map(|known| known.agent.operator);
        let linked = buyer.is_some_and(|buyer| Some(&buyer.agent.operator) == operator.as_ref());
        Ok(Sides { seller, operator, linked })
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
