//! 8.4: what a stranger needs to check a score without trusting this node; and 8.5, the same check
//! done here.

use serde::Deserialize as _;
use serde_json::Value;
use skep_base::{
    AgentId, Timestamp,
    ed25519::PublicKey,
    hash::json_sha256,
    id::{DealId, SessionId},
};
use skep_score::verify::{self, Source};
use skep_settle::session_proof;
use skep_wire::{
    conduit::{SessionBundle, SessionProof},
    score::{
        Certificate, Dimension, FailedCheck, KeySet, NumberedFact, Ordered, RECENT_PROOFS_MAX,
        Settled, Verdict, VerifyAnswer, VerifyLevel, VerifyRequest,
    },
    settle::{SettlementReceipt, VerificationCallback, Verifier, VerifierStamp},
};

use super::{portability::import_source_key, publication::bug, refusal::ScoreRefusal};
use crate::{
    Failure, Market,
    deal::{AGENT_KID, DealRecord, deal_key, proof_key, settlement_record_key, verifier_key},
    pay::{HireEscrowRecord, escrow_key},
    read::next,
    session,
};

impl Market {
    /// The evidence of an agent's score: its facts in one chain, and for the newest of them what
    /// gateways and verifiers have signed. `settlements`: how many receipts at most.
    pub async fn certificate(
        &self,
        agent: &AgentId,
        by: Option<&AgentId>,
        settlements: usize,
    ) -> Result<Certificate, Failure> {
        let sight = self.sight(agent).await?;
        if !sight.is_published() && by != Some(agent) {
            return Err(ScoreRefusal::NotPublished { agent: *agent }.into());
        }
        // The very publication that others were given, and the window that it is about.
        let kept = self.publication_of(&sight).await?;
        let window = self.window(&sight, kept.at).await?;
        let imported = match kept.publication.with_imports {
            Some(_) => self.read(import_source_key(agent)).await?,
            None => None,
        };
        Ok(Certificate {
            agent_id: *agent,
            publication: serde_json::to_value(&*kept.publication).map_err(bug)?,
            session_proofs: self.newest_proofs(&window.facts).await?,
            settlements: self.newest_settlements(&window.facts, settlements).await?,
            imported,
            chain_before: window.chain_before_shown,
            facts: window.facts,
            keys: self.score_keys().await?,
        })
    }

    async fn newest_proofs(&self, facts: &[NumberedFact]) -> Result<Vec<SessionProof>, Failure> {
        let sessions: Vec<SessionId> =
            sources(facts, Dimension::Conduit).take(RECENT_PROOFS_MAX).collect();
        let keys = sessions.iter().map(session::proof_key).collect();
        let mut records = self.read_all(keys).await?;
        let mut proofs = Vec::with_capacity(sessions.len());
        for _ in sessions {
            let proof: Option<SessionProof> = next(&mut records)?;
            proofs.extend(proof.map(|proof| SessionProof { attachments: Vec::new(), ..proof }));
        }
        Ok(proofs)
    }

    /// Those of deals and of hires, each with what others than this node have signed of it.
    async fn newest_settlements(
        &self,
        facts: &[NumberedFact],
        at_most: usize,
    ) -> Result<Vec<Settled>, Failure> {
        let deals: Vec<DealId> = sources(facts, Dimension::Ap2).take(at_most).collect();
        let keys = deals.iter().map(settlement_record_key).collect();
        let mut records = self.read_all(keys).await?;
        let mut receipts = Vec::<SettlementReceipt>::with_capacity(deals.len());
        for _ in &deals {
            receipts.extend(next::<SettlementReceipt>(&mut records)?);
        }
        // What was judged has a verdict, what was hired may have its buyer's order.
        let of = |receipt: &SettlementReceipt| match &receipt.settlement.verification_id {
            Some(verification) => proof_key(verification),
            None => escrow_key(&receipt.settlement.escrow_id),
        };
        let mut records = self.read_all(receipts.iter().map(of).collect()).await?;
        let mut settled = Vec::with_capacity(receipts.len());
        for receipt in receipts {
            let mut one = Settled { receipt, verdict: None, ordered: None };
            match one.receipt.settlement.verification_id {
                Some(_) => {
                    let callback: Option<VerificationCallback> = next(&mut records)?;
                    if let Some(callback) = callback {
                        one.verdict = self.verdict(&one, &callback).await?;
                    }
                }
                None => {
                    let escrow: Option<HireEscrowRecord> = next(&mut records)?;
                    let order = escrow.and_then(|e| e.order.map(|order| (e.terms, order)));
                    // Only the buyer's word says something of the seller's work.
                    one.ordered = order
                        .filter(|(terms, order)| order.by == terms.buyer)
                        .map(|(terms, order)| Ordered { terms, order });
                }
            }
            settled.push(one);
        }
        Ok(settled)
    }

    /// Who signed a callback, and with which of its keys, those replaced since then too.
    async fn verdict(
        &self,
        settled: &Settled,
        callback: &VerificationCallback,
    ) -> Result<Option<Verdict>, Failure> {
        let Some((verifier, kid)) = self.signer_of(callback).await? else { return Ok(None) };
        let keys: Vec<PublicKey> = if kid == AGENT_KID {
            let agent = self.agent_record(&verifier).await?.agent;
            agent.keys.iter().rev().map(|key| key.public_key).collect()
        } else {
            let known: Option<Verifier> = self.read(verifier_key(&verifier)).await?;
            let keys = known.map(|known| known.keys).unwrap_or_default();
            keys.iter().filter(|key| key.kid == kid).map(|key| key.public_key).collect()
        };
        let (passed, completed_at) = (callback.passed, callback.completed_at);
        let verdict = |key| Verdict { verifier, kid: kid.clone(), key, passed, completed_at };
        Ok(keys.into_iter().map(verdict).find(|verdict| settled.is_signed(verdict)))
    }

    /// A callback without its bundle does not say whose it is; the deal does.
    async fn signer_of(
        &self,
        callback: &VerificationCallback,
    ) -> Result<Option<(AgentId, String)>, Failure> {
        if let Some(bundle) = &callback.proof_bundle {
            let stamp = VerifierStamp::deserialize(&bundle["verifier"]).ok();
            return Ok(stamp.map(|stamp| (stamp.id, stamp.kid)));
        }
        let id = callback.verification_id;
        let known: Option<DealRecord> = self.read(deal_key(&id.deal())).await?;
        let attempt = known.as_ref().and_then(|known| known.deal.attempt(id.attempt()));
        let proof = attempt.and_then(|attempt| attempt.proof.as_ref());
        Ok(proof.map(|proof| (proof.by, proof.kid.clone())))
    }

    /// Checks a publication by this node's own keys, or by those of an issuer that it trusts.
    pub async fn verify_publication(
        &self,
        request: VerifyRequest,
    ) -> Result<VerifyAnswer, Failure> {
        let issuer = self.known_issuer(&request.publication).await?;
        let brought = request.certificate.as_ref().and_then(|said| said.imported.as_ref());
        let origin = match brought {
            Some(brought) => self.known_issuer(&brought.publication).await?,
            None => None,
        };
        let now = self.store.now().await?;
        // Hashes and signatures of a whole certificate take their time.
        let checked = tokio::task::spawn_blocking(move || {
            let [issuer, origin] = [&issuer, &origin]
                .map(|known| known.as_ref().map(|(host, keys)| Source { keys, host: Some(host) }));
            let known = Known { issuer: issuer.as_ref(), origin: origin.as_ref() };
            check_score(&request.publication, request.certificate.as_ref(), known, now)
        });
        checked.await.map_err(bug)
    }

    /// The platform that a publication names, with its keys, if this node has them for itself.
    async fn known_issuer(&self, publication: &Value) -> Result<Option<(String, KeySet)>, Failure> {
        let issuer = &publication["issuer"];
        let text = |name: &str| issuer[name].as_str().unwrap_or_default();
        let (platform, kid) = (text("platform"), text("kid"));
        let keys = match platform == self.platform().platform {
            true => Some(self.score_keys().await?),
            false => match self.trust_registry().await?.find(platform) {
                // That its keys cannot be had is an answer too: nothing is known of the signature.
                Some(issuer) => self.keys_of(issuer, kid).await.ok(),
                None => None,
            },
        };
        Ok(keys.map(|keys| (platform.to_owned(), keys)))
    }
}

/// Keys that the checker has for itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    pub issuer: Option<&'a Source<'a>>,
    /// Of the platform that something was imported from.
    pub origin: Option<&'a Source<'a>>,
}

impl<'a> Known<'a> {
    pub fn issuer(source: &'a Source<'a>) -> Known<'a> {
        Known { issuer: Some(source), origin: None }
    }
}

/// Checks a publication and, if there is one, the certificate that backs it (8.1 to 8.4). Needs
/// nothing but what it is given.
pub fn check_score(
    publication: &Value,
    certificate: Option<&Certificate>,
    known: Known<'_>,
    now: Timestamp,
) -> VerifyAnswer {
    let source = known.issuer;
    let Some(certificate) = certificate else {
        return verify::publication(publication, source, now);
    };
    let mut answer = verify::certificate(certificate, source, known.origin, &SettleProofs, now);
    if !is_same(&certificate.publication, publication) {
        answer = verify::publication(publication, source, now);
        answer.verified = false;
        answer.failed_checks.push(FailedCheck {
            level: VerifyLevel::L3,
            check: "certificate.publication".to_owned(),
            detail: "the certificate is of another publication".to_owned(),
        });
    }
    answer
}

/// However their numbers are written.
fn is_same(a: &Value, b: &Value) -> bool {
    matches!((json_sha256(a), json_sha256(b)), (Ok(a), Ok(b)) if a == b)
}

/// The rules of sessions and verifications, for those of scores.
struct SettleProofs;

impl verify::Proofs for SettleProofs {
    fn session(&self, proof: &SessionProof) -> Result<SessionBundle, String> {
        session_proof::check(proof, None).map_err(|fault| fault.to_string())
    }
}

/// What the newest facts of one kind came from, newest first.
fn sources<T: std::str::FromStr>(facts: &[NumberedFact], of: Dimension) -> impl Iterator<Item = T> {
    let facts = facts.iter().rev().filter(move |fact| fact.fact.dimension == of);
    facts.filter_map(|fact| fact.fact.source.parse().ok())
}
