//! 10: a record on another marketplace.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use skep_base::ed25519::SecretKey;
use skep_sdk::Client;
use skep_wire::{
    admin::AdminAct,
    score::{Fraction, ImportRequest},
};

use super::{DEALS, SESSIONS, World, problem};

impl World {
    /// Ben, at the other marketplace.
    fn ben_away(&self) -> Result<Client> {
        self.provider.client(&self.away.url)
    }

    async fn export(&self) -> Result<ImportRequest> {
        Ok(self.ben.export_score(&self.provider.id().to_string()).await?.into())
    }
}

pub(super) async fn without_an_agreement_nothing_counts(world: &World) -> Result<String> {
    let export = world.export().await?;
    let answer = world.ben_away()?.import_score(&export).await;
    let (counts, said) = match answer {
        Ok(answer) => (answer.value.accepted, format!("{:?} is shown", answer.value.source_tier)),
        Err(error) => (false, error.to_string()),
    };
    ensure!(!counts, "it counts");
    Ok(said)
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
    let back = ben.export_score(&world.provider.id().to_string()).await?;
    ensure!(back.publication.get("with_imports").is_none(), "an import was exported");
    Ok(format!("{} beside a local 0, after 15 sessions here; a second time: no", with.score))
}
