//! What either side can do to a deal besides delivering.

use skep_base::{AgentId, Timestamp, id::DealId};
use skep_settle::{Deal, deal::Input};
use skep_store::{Load, Turn};
use skep_wire::settle::{
    BaselineReport, DealAnswer, Dispute, Objection, Role, Split, TEXT_LEN_MAX,
};

use super::{DealRecord, DealRefusal, deliver::answer_of, loaded};
use crate::{Answered, Failure, Market, Signed};

impl Market {
    /// Decision 29a.
    pub async fn deal_cancel(
        &self,
        signed: &Signed,
        id: DealId,
    ) -> Result<Answered<DealAnswer>, Failure> {
        self.act(signed, id, |by| Input::Cancel { by }).await
    }

    /// One side contests a verdict, and puts a deposit down.
    pub async fn deal_dispute(
        &self,
        signed: &Signed,
        id: DealId,
        request: Dispute,
    ) -> Result<Answered<DealAnswer>, Failure> {
        let reason = short(request.reason);
        self.act(signed, id, move |by| Input::Dispute { by, reason: reason.clone() }).await
    }

    /// Decision 29b: one side offers, the other's same words settle.
    pub async fn deal_split(
        &self,
        signed: &Signed,
        id: DealId,
        request: Split,
    ) -> Result<Answered<DealAnswer>, Failure> {
        let released = request.released_minor;
        self.act(signed, id, move |by| Input::Split { by, released }).await
    }

    /// Decision 26: the requester does not take the provider's word.
    pub async fn deal_object(
        &self,
        signed: &Signed,
        id: DealId,
        request: Objection,
    ) -> Result<Answered<DealAnswer>, Failure> {
        let known = self.party_to(signed, id).await?;
        let verifier = self.verifier_for(&known, &[]).await?;
        let mut load = self.load_deal(&known.deal);
        if let Some(verifier) = &verifier {
            Market::load_verifier(&mut load, verifier);
        }
        let (market, reason) = (self.clone(), short(request.reason));
        self.run_act(signed, id, load, move |turn, deal, role| match role {
            Role::Requester => {
                let able = |agent: &AgentId| market.can_verify(turn, deal, agent).is_ok();
                let verifier = verifier.filter(able);
                Ok(Input::Object { reason: reason.clone(), verifier })
            }
            Role::Provider => Err(DealRefusal::NotTheRequester),
        })
        .await
    }

    /// Decision 31: after the deadline anyone may ask for the refund.
    pub async fn deal_refund(
        &self,
        signed: &Signed,
        id: DealId,
    ) -> Result<Answered<DealAnswer>, Failure> {
        let known = self.deal_record(&id).await?;
        let (load, market) = (self.load_deal(&known.deal), self.clone());
        self.run_signed(signed, load, move |turn, _| {
            let record = loaded(turn, &id)?;
            Ok(answer_of(&market.advance(turn, record, Input::ClaimRefund)?))
        })
        .await
    }

    /// Decision 33: what the page was before the work.
    pub async fn deal_baseline(
        &self,
        signed: &Signed,
        id: DealId,
        report: BaselineReport,
    ) -> Result<Answered<DealAnswer>, Failure> {
        let known = self.deal_record(&id).await?;
        let (load, market, by) = (self.load_talk(&known.deal), self.clone(), signed.agent);
        self.run_signed(signed, load, move |turn, _| {
            let record = loaded(turn, &id)?;
            let input = Input::Baseline { by, fingerprint: report.fingerprint };
            Ok(answer_of(&market.advance(turn, record, input)?))
        })
        .await
    }

    async fn act(
        &self,
        signed: &Signed,
        id: DealId,
        input: impl Fn(Role) -> Input + Send + 'static,
    ) -> Result<Answered<DealAnswer>, Failure> {
        let known = self.party_to(signed, id).await?;
        let load = self.load_deal(&known.deal);
        self.run_act(signed, id, load, move |_, _, role| Ok(input(role))).await
    }

    async fn run_act(
        &self,
        signed: &Signed,
        id: DealId,
        load: Load,
        mut input: impl FnMut(&Turn, &Deal, Role) -> Result<Input, DealRefusal> + Send + 'static,
    ) -> Result<Answered<DealAnswer>, Failure> {
        let (market, caller) = (self.clone(), signed.agent);
        self.run_signed(signed, load, move |turn, _| {
            let record = loaded(turn, &id)?;
            let role = record.deal.role_of(&caller);
            let role = role.ok_or(DealRefusal::UnknownDeal { deal: id })?;
            let input = input(turn, &record.deal, role)?;
            Ok(answer_of(&market.advance(turn, record, input)?))
        })
        .await
    }

    /// A stranger cannot tell a deal from none.
    async fn party_to(&self, signed: &Signed, id: DealId) -> Result<DealRecord, Failure> {
        let known = self.deal_record(&id).await?;
        match known.deal.role_of(&signed.agent) {
            Some(_) => Ok(known),
            None => Err(DealRefusal::UnknownDeal { deal: id }.into()),
        }
    }

    /// Lets time act on a deal. Says when it is due, if that is still to come.
    pub(crate) async fn tick(&self, id: DealId) -> Result<Option<Timestamp>, Failure> {
        let known = self.deal_record(&id).await?;
        let (load, market) = (self.load_deal(&known.deal), self.clone());
        let ticked = self.run(load, vec![], move |turn: &mut Turn| {
            let record = loaded(turn, &id)?;
            match record.deal.due_at() {
                Some(due) if due > turn.now() => Ok(Some(due)),
                None => Ok(None),
                Some(_) => {
                    market.advance(turn, record, Input::Tick)?;
                    Ok(None)
                }
            }
        });
        Ok(ticked.await?.value)
    }
}

/// What people say is kept, up to a length.
pub(crate) fn short(mut text: String) -> String {
    let mut end = text.len().min(TEXT_LEN_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
