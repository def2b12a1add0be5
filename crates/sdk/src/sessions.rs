//! Browser sessions, one method for each endpoint.

use skep_base::id::SessionId;
use skep_wire::{
    Page,
    conduit::{Act, ActionDone, CloseSession, OpenSession, Session, SessionProof, Step},
};

use crate::{
    Client, Error,
    client::{Call, Written},
};

impl Client {
    /// Opens a browser session; what it may cost at most is held.
    pub async fn open_session(&self, request: &OpenSession) -> Result<Written<Session>, Error> {
        self.send(&Call::post("/conduit/sessions", request)?.signed().patient()).await
    }

    /// Does one action, once, however often the answer is lost.
    pub async fn session_act(
        &self,
        id: SessionId,
        act: &Act,
    ) -> Result<Written<ActionDone>, Error> {
        let call = Call::post(format!("/conduit/sessions/{id}/actions"), act)?;
        self.send(&call.signed().patient()).await
    }

    /// Ends a session; `failed` says why it failed.
    pub async fn close_session(
        &self,
        id: SessionId,
        failed: Option<&str>,
    ) -> Result<Written<Session>, Error> {
        let request = CloseSession { failed: failed.map(str::to_owned) };
        let call = Call::post(format!("/conduit/sessions/{id}/close"), &request)?;
        self.send(&call.signed().patient()).await
    }

    pub async fn session(&self, id: SessionId) -> Result<Session, Error> {
        let call = Call::get(format!("/conduit/sessions/{id}")).signed();
        Ok(self.send(&call).await?.value)
    }

    /// The steps of a session, oldest first.
    pub async fn session_steps(
        &self,
        id: SessionId,
        cursor: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Page<Step>, Error> {
        let call = Call::get(format!("/conduit/sessions/{id}/steps")).query("cursor", cursor);
        Ok(self.send(&call.query("limit", limit).signed()).await?.value)
    }

    /// The signed proof of a session that is over.
    pub async fn session_proof(&self, id: SessionId) -> Result<SessionProof, Error> {
        let call = Call::get(format!("/conduit/sessions/{id}/proof")).signed().patient();
        Ok(self.send(&call).await?.value)
    }
}
