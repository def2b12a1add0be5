//! Section 10: taking a record elsewhere, and bringing one from there.

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use skep_base::AgentId;
use skep_score::import::{self, Applicant, Imported};
use skep_store::{Load, Lock, RecordKey, RouteKey, Turn};
use skep_wire::score::{
    Evaluator, Export, ImportAnswer, ImportRequest, ImportSource, KeyPurpose, KeySet,
    TrustRegistry, TrustedIssuer,
};

use super::{
    Scored, admin::trust_registry_key, load_track, publication::bug, refusal::ScoreRefusal,
    tell_agent,
};
use crate::{Answered, Failure, Market, Refusal, Signed, answer::Stop, identity::agent_key};

/// Names of publications that were brought: each has one owner for ever.
const NAME_IMPORT: &str = "score_import";
/// Names of records elsewhere: all exports of one are brought by the agent that was first.
const NAME_RECORD: &str = "score_passport";

/// What the log says of an import: enough to make the track record again.
#[derive(Debug, Serialize)]
struct ImportEvent<'a> {
    agent_id: AgentId,
    imported: &'a Imported,
}

impl Market {
    /// What an agent takes elsewhere: only what was counted here (decision 41a).
    pub async fn export_score(&self, agent: &AgentId) -> Result<Export, Failure> {
        let sight = self.sight(agent).await?;
        let window = self.window(&sight, sight.now).await?;
        let publication = Arc::new(self.publish(&sight, &window, false)?);
        let passport = self.passport_with(&sight, Some(publication.clone())).await?;
        Ok(Export {
            publication: serde_json::to_value(&*publication).map_err(bug)?,
            passport: serde_json::to_value(passport).map_err(bug)?,
        })
    }

    /// Brings what another platform has signed about the caller. Without an agreement with that
    /// platform only its tier is kept, and counts for nothing (10.1, step 4).
    pub async fn import_score(
        &self,
        signed: &Signed,
        request: ImportRequest,
    ) -> Result<Answered<ImportAnswer>, Failure> {
        let read = import::read(&request).map_err(ScoreRefusal::from)?;
        let registry = self.trust_registry().await?;
        let Some(issuer) = registry.find(&read.platform).cloned() else {
            if read.platform == self.platform().platform {
                return Err(ScoreRefusal::from(import::Refusal::OwnExport).into());
            }
            return self.import_informally(signed, &request, read).await;
        };
        let keys = self.keys_of(&issuer, kid_of(&request)).await?;
        self.check_import(signed, &request, &keys).await?;
        let publication = request.source_publication.clone();
        let source = ImportSource { publication, keys: signing(keys, kid_of(&request)) };
        self.accept_import(signed, read, issuer, source).await
    }

    async fn check_import(
        &self,
        signed: &Signed,
        request: &ImportRequest,
        keys: &KeySet,
    ) -> Result<(), Failure> {
        let here = self.platform().platform;
        let applicant = Applicant { agent: &signed.agent, key: &signed.key, here };
        let now = self.store.now().await?;
        Ok(import::check(request, keys, &applicant, now).map_err(ScoreRefusal::from)?)
    }

    /// Where the keys of the platform cannot be had, its word is not even shown: anybody could have
    /// written it.
    async fn import_informally(
        &self,
        signed: &Signed,
        request: &ImportRequest,
        read: import::Read,
    ) -> Result<Answered<ImportAnswer>, Failure> {
        let agent = signed.agent;
        let keys = match import::own_key_url(&read) {
            Some(url) => self.keys_at(&read.platform, &url, kid_of(request)).await.ok(),
            None => None,
        };
        let Some(keys) = keys else {
            let (track, _) = self.track_record(&agent).await?;
            let value = import::informal(&read, false, &track, self.store.now().await?);
            return Ok(Answered { value, replayed: false });
        };
        self.check_import(signed, request, &keys).await?;
        let operator = self.agent_record(&agent).await?.agent.operator;
        let mut load = Load {
            records: vec![(agent_key(&agent), Lock::Shared)],
            names: vec![(NAME_RECORD, read.record_name())],
            ..Load::default()
        };
        load_track(&mut load, &agent, &operator, Lock::Exclusive);
        let market = self.clone();
        self.run_signed(signed, load, move |turn, _| {
            claim_record(turn, &read, &agent)?;
            let mut track = market.track_of(turn, &agent)?;
            let informal = import::note(&read, &mut track).map_err(ScoreRefusal::from)?;
            let told = json!({ "agent_id": agent, "informal": informal });
            tell_agent(turn, &agent, "score.tier_noted", &told)?;
            market.put_track(turn, &agent, &track)?;
            Ok(import::informal(&read, true, &track, turn.now()))
        })
        .await
    }

    async fn accept_import(
        &self,
        signed: &Signed,
        read: import::Read,
        issuer: TrustedIssuer,
        source: ImportSource,
    ) -> Result<Answered<ImportAnswer>, Failure> {
        let agent = signed.agent;
        let operator = self.agent_record(&agent).await?.agent.operator;
        let digest = read.digest.to_string();
        let mut load = Load {
            // What is taken is there when somebody drops its issuer and looks for it.
            records: vec![(agent_key(&agent), Lock::Shared), (trust_registry_key(), Lock::Shared)],
            names: vec![(NAME_IMPORT, digest.clone()), (NAME_RECORD, read.record_name())],
            ..Load::default()
        };
        load_track(&mut load, &agent, &operator, Lock::Exclusive);
        load.records.push((import_source_key(&agent), Lock::Exclusive));
        let market = self.clone();
        self.run_signed(signed, load, move |turn, _| {
            still_trusted(turn, &issuer)?;
            claim_record(turn, &read, &agent)?;
            let repeated = || ScoreRefusal::from(import::Refusal::Repeated);
            if turn.name_owner(NAME_IMPORT, &digest)?.is_some() {
                return Err(repeated().into());
            }
            let mut track = market.track_of(turn, &agent)?;
            let answer = import::accept(&read, &issuer, &mut track, turn.now())
                .map_err(ScoreRefusal::from)?;
            turn.claim_name(NAME_IMPORT, &digest, agent);
            turn.put(&import_source_key(&agent), &source)?;
            if let Some(imported) = &track.imported {
                let told = ImportEvent { agent_id: agent, imported };
                tell_agent(turn, &agent, "score.imported", &told)?;
            }
            let who = Scored { agent, operator: &operator };
            market.evaluate(turn, who, &mut track, Evaluator::SessionCompletion)?;
            market.put_track(turn, &agent, &track)?;
            Ok(answer)
        })
        .await
    }
}

/// What the import that counts was: others see it in the certificate.
pub(super) fn import_source_key(agent: &AgentId) -> RecordKey {
    RecordKey { route: RouteKey::of(agent), kind: "import_source", id: agent.to_string() }
}

/// The export was checked by the entry that was there when it came.
fn still_trusted(turn: &Turn, issuer: &TrustedIssuer) -> Result<(), Stop> {
    let registry: TrustRegistry = turn.record(&trust_registry_key())?.unwrap_or_default();
    match registry.find(&issuer.platform) == Some(issuer) {
        true => Ok(()),
        false => {
            let reason = ScoreRefusal::AgreementChanged { platform: issuer.platform.clone() };
            Err(Stop::Unheard(Refusal::Score { reason }))
        }
    }
}

/// The one of a platform's keys that is needed to check what it has signed.
fn signing(mut keys: KeySet, kid: &str) -> KeySet {
    keys.keys.retain(|key| key.kid == kid && key.purpose == KeyPurpose::Publication);
    keys
}

/// A record is one agent's: elsewhere it may be known by an address and by a key, and two agents
/// here may each have one of them.
fn claim_record(turn: &mut Turn, read: &import::Read, agent: &AgentId) -> Result<(), Stop> {
    let name = read.record_name();
    match turn.name_owner(NAME_RECORD, &name)? {
        None => turn.claim_name(NAME_RECORD, &name, agent),
        Some(owner) if owner == agent.to_string() => {}
        Some(_) => return Err(ScoreRefusal::from(import::Refusal::Taken).into()),
    }
    Ok(())
}

/// The key that an export says it was signed with.
fn kid_of(request: &ImportRequest) -> &str {
    request.source_publication["issuer"]["kid"].as_str().unwrap_or_default()
}
