//! ATEP passports, made and signed when they are asked for.

use std::sync::Arc;

use serde_json::Value;
use skep_base::{AgentId, Timestamp, ed25519::PublicKey};
use skep_score::{
    atep::{self, Holder},
    publish::VALID_FOR,
    vc,
};
use skep_wire::score::{
    BenchmarkEvent, PASSPORT_HISTORY_MAX, Passport, PublicPassport, Publication,
};

use super::publication::{Sight, bug, not_canonical};
use crate::{Failure, Market};

/// What a passport shows besides what was counted.
struct Shown {
    publication: Option<Arc<Publication>>,
    history: Vec<BenchmarkEvent>,
}

impl Market {
    /// An agent's own passport, with what only it may see.
    pub async fn passport(&self, agent: &AgentId) -> Result<Passport, Failure> {
        let sight = self.sight(agent).await?;
        let publication = self.public_score(&sight).await?;
        self.passport_with(&sight, publication).await
    }

    /// The same with a publication of the caller's choice.
    pub(super) async fn passport_with(
        &self,
        sight: &Sight,
        publication: Option<Arc<Publication>>,
    ) -> Result<Passport, Failure> {
        let shown = self.shown(sight, publication).await?;
        let passport = atep::passport(&holder(sight, &shown), &self.platform());
        passport.sign(&self.office.key).map_err(not_canonical)
    }

    /// An agent's passport for everybody.
    pub async fn public_passport(&self, agent: &AgentId) -> Result<PublicPassport, Failure> {
        let sight = self.sight(agent).await?;
        Ok(self.public(&sight).await?.0)
    }

    /// The same as a W3C Verifiable Credential, which its proof secures.
    pub async fn public_passport_vc(&self, agent: &AgentId) -> Result<Value, Failure> {
        let sight = self.sight(agent).await?;
        let (passport, publication) = self.public(&sight).await?;
        let until = sight.now.plus(VALID_FOR);
        vc::credential(&passport, publication.as_deref(), until, &self.office.key).map_err(bug)
    }

    async fn public(
        &self,
        sight: &Sight,
    ) -> Result<(PublicPassport, Option<Arc<Publication>>), Failure> {
        let publication = self.public_score(sight).await?;
        let shown = self.shown(sight, publication).await?;
        let passport = atep::public_passport(&holder(sight, &shown), &self.platform());
        Ok((passport.sign(&self.office.key).map_err(not_canonical)?, shown.publication))
    }

    async fn shown(
        &self,
        sight: &Sight,
        publication: Option<Arc<Publication>>,
    ) -> Result<Shown, Failure> {
        let agent = sight.agent.agent.agent_id;
        let history = self.benchmark_history(&agent, PASSPORT_HISTORY_MAX).await?;
        Ok(Shown { publication, history })
    }
}

fn holder<'a>(sight: &'a Sight, shown: &'a Shown) -> Holder<'a> {
    Holder {
        agent: &sight.agent.agent.agent_id,
        track: &sight.track,
        breadth: &sight.breadth,
        base: &sight.base,
        key: current_key(sight),
        publication: shown.publication.as_deref(),
        history: &shown.history,
        now: sight.now,
    }
}

/// The key that is good now, and since when.
fn current_key(sight: &Sight) -> Option<(&PublicKey, Timestamp)> {
    let current = sight.agent.current_key()?;
    let entry = sight.agent.agent.keys.iter().rev().find(|key| key.public_key == *current);
    Some((current, entry.map_or(sight.agent.agent.registered_at, |key| key.since)))
}
