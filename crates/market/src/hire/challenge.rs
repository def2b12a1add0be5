//! Whether a seller's key is where its listing says.

use std::time::Duration;

use skep_base::AgentId;
use skep_wire::hire::{EndpointProof, WalletSigned};

use super::HireRefusal;
use crate::Market;

/// How long an endpoint may take to say who it is.
const ASK_TIME_MAX: Duration = Duration::from_secs(5);
/// The longest proof, in bytes.
const PROOF_LEN_MAX: usize = 4096;

/// What is done about endpoints that do not show whose they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Challenge {
    /// Nobody is asked.
    Off,
    /// They are asked, and listed as unproven.
    Soft,
    /// They are not listed.
    #[default]
    Enforce,
}

impl Market {
    /// Asks an endpoint for the agent's signature over `nonce`.
    pub(super) async fn ask_endpoint(
        &self,
        origin: &str,
        agent: AgentId,
        nonce: &str,
    ) -> Result<(), HireRefusal> {
        let egress = self.egress.as_ref().ok_or(HireRefusal::NoEgress)?;
        let not_proven = |detail: String| {
            let origin = origin.to_owned();
            HireRefusal::EndpointNotProven { origin, detail }
        };
        let url = format!("{origin}/.well-known/swarmwage-verify?nonce={nonce}");
        let asked = tokio::time::timeout(ASK_TIME_MAX, egress.get_here(url, PROOF_LEN_MAX)).await;
        let body = asked
            .map_err(|_| not_proven("it took too long".to_owned()))?
            .map_err(|failure| not_proven(failure.code))?;
        let proof: EndpointProof = skep_base::json::from_slice(&body)
            .map_err(|_| not_proven("the answer is no proof".to_owned()))?;
        if proof.agent_id != agent || proof.nonce != nonce {
            return Err(not_proven("it is a proof of something else".to_owned()));
        }
        proof.check_signature().map_err(|error| not_proven(error.to_string()))?;
        Ok(())
    }
}
