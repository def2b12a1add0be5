//! 10: a record on another marketplace.

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use skep_base::ed25519::SecretKey;
use skep_score::money::modifier_e4;
use skep_sdk::Client;
use skep_wire::{
    admin::AdminAct,
    score::{Fraction, ImportRequest, ImportedCounts, Probation},
    settle::{Outcome, Tier},
};

use super::{DEALS, SESSIONS, World, hold, problem};

/// Deals here, how many are needed then, and whether what was brought counts.
const STEPS: [(u64, u64, bool); 4] =
    [(14, 15, false), (15, 30, false), (29, 30, false), (30, 30, true)];

impl World {
    /// Ben, at the other marketplace.
    fn ben_away(&self) -> Result<Client> {
        self.provider.client(&self.away.url)
    }

    /// Ben works at the other marketplace until what he brought counts: after thirty deals, since
    /// fifteen alone are not enough for a benchmark. Says what it comes to.
    async fn probation(&self, ben: &Client) -> Result<u16> {
        let ann = self.requester.client(&self.away.url)?;
        let mut done = 0;
        for (deals, needed, over) in STEPS {
            while done < deals {
                self.deal_at(&self.away, (&ann, ben), json!({}), Outcome::Verified).await?;
                done += 1;
            }
            let said = ben.publication_of(&self.provider.id().to_string()).await?;
            let with = said.with_imports.context("the import is gone")?;
            let expected = Probation { local_sessions: deals, sessions_needed: needed, over };
            ensure!(with.probation == expected, "{:?}", with.probation);
            let hold = hold(&ann, ben).await?;
            let best = if over { with.score } else { said.score.value };
            ensure!(with.score > said.score.value, "{with:?}");
            ensure!(hold.modifier_e4 == modifier_e4(said.score.value), "{hold:?}");
            ensure!(hold.effective_modifier_e4 == modifier_e4(best), "after {deals}: {hold:?}");
            if over {
                return Ok(with.score);
            }
        }
        bail!("the probation does not end")
    }

    async fn export(&self) -> Result<ImportRequest> {
        Ok(self.ben.export_score(&self.provider.id().to_string()).await?.into())
    }
}

pub(super) async fn without_an_agreement_nothing_counts(world: &World) -> Result<String> {
    let (ben, export) = (world.ben_away()?, world.export().await?);
    let answer = ben.import_score(&export).await?.value;
    ensure!(!answer.accepted && answer.imported == ImportedCounts::default(), "{answer:?}");
    ensure!(answer.noted && answer.source_tier == Tier::Verified, "{answer:?}");
    let name = world.provider.id().to_string();
    let shown = ben.score(&name).await?;
    let [noted] = shown.unverified_imports.as_slice() else {
        bail!("{:?} is shown", shown.unverified_imports)
    };
    ensure!(noted.platform == world.home.name() && noted.unverified, "{noted:?}");
    ensure!(noted.tier == Tier::Verified, "{noted:?}");
    let publication = &shown.publication;
    ensure!(publication.with_imports.is_none(), "{:?}", publication.with_imports);
    ensure!(publication.gates.atep_tier == Tier::Unverified, "{:?}", publication.gates);
    let passport = ben.public_passport(&name).await?.extensions;
    ensure!(passport.swarmscore_unverified_imports == shown.unverified_imports, "{passport:?}");
    Ok(format!("{:?} of {} is shown as unverified", noted.tier, noted.platform))
}

pub(super) async fn what_was_forged_is_refused(world: &World) -> Result<String> {
    let issuer = json!({
        "platform": world.home.name(), "platform_url": world.home.url,
        "key_url": format!("{}/.well-known/swarmscore-keys", world.home.url),
        "import_haircut": 0.5, "probation_sessions": 15,
        "trusted_since": "2026-01-01T00:00:00.000Z",
        "verification_method": "cryptographic_proof_chain",
        "statement": "Its certificates were checked to L3 by this run.",
    });
    world
        .away
        .act(AdminAct::TrustIssuer { issuer: serde_json::from_value(issuer)? }, "conformance")
        .await?;
    let (ben, export) = (world.ben_away()?, world.export().await?);
    let mut forged = export.clone();
    forged.source_publication["dimensions"]["technical_execution"]["conduit_sessions_90d"] =
        json!(100);
    problem(ben.import_score(&forged).await, "import_bad_publication")?;
    let mut signed_anew = export.clone();
    let key = SecretKey::from_seed([7; 32]);
    for document in [&mut signed_anew.source_publication, &mut signed_anew.source_passport] {
        let bytes = skep_score::verify::signed_bytes(document).unwrap_or_default();
        document["issuer"]["signature"] = json!(key.sign(&bytes));
    }
    problem(ben.import_score(&signed_anew).await, "import_bad_publication")?;
    let mut promoted = export.clone();
    promoted.source_passport["trust_tier"]["current"] = json!("TRUSTED");
    problem(ben.import_score(&promoted).await, "import_bad_passport")?;
    let noa = world.newcomer.client(&world.away.url)?;
    problem(noa.import_score(&export).await, "import_other_agent")?;
    Ok("changed, signed by another key, with another tier, somebody else's".to_owned())
}

pub(super) async fn an_export_counts_by_half_and_once(world: &World) -> Result<String> {
    let (ben, export) = (world.ben_away()?, world.export().await?);
    let answer = ben.import_score(&export).await?.value;
    ensure!(answer.accepted && answer.import_haircut == Some(Fraction::from_e4(5_000)));
    let counted = (answer.imported.conduit_successful, answer.imported.ap2_successful);
    ensure!(counted == (SESSIONS as u64, DEALS as u64), "{:?}", answer.imported);
    problem(ben.import_score(&export).await, "import_repeated")?;
    let here = ben.publication_of(&world.provider.id().to_string()).await?;
    ensure!(here.score.value == 0, "the local score has changed: {:?}", here.score);
    let with = here.with_imports.context("nothing stands beside it")?;
    ensure!(with.ap2_sessions_90d == DEALS as f64 / 2.0, "{with:?}");
    ensure!(!with.probation.over && with.probation.sessions_needed == 15, "{with:?}");
    ensure!(here.escrow.effective_modifier == Fraction::ONE, "{:?}", here.escrow);
    let score = world.probation(&ben).await?;
    let back = ben.export_score(&world.provider.id().to_string()).await?;
    ensure!(back.publication.get("with_imports").is_none(), "an import was exported");
    Ok(format!(
        "{} beside a local 0; after 30 deals here it is {score}; no second time",
        with.score
    ))
}
