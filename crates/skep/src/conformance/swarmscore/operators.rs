//! 9.4 and 9.7: what operators answer for, and what they are told.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;
use skep_api::ADMIN_SOCKET;
use skep_base::{ed25519::SecretKey, id::ListingId};
use skep_sdk::AdminClient;
use skep_wire::{
    admin::AdminAct,
    hire::{Found, Listing, WalletSigned},
    identity::{OperatorStatement, RegisterOperator, Statement},
    score::BenchmarkTier,
};

use super::{LOOK_EVERY, PATIENCE, World};
use crate::{client::now, stage::entropy};

impl World {
    /// Puts Ben and Noa under one operator.
    async fn attach(&self) -> Result<skep_base::Did> {
        let key = SecretKey::from_seed(entropy()?);
        let public_key = key.public();
        let statement = OperatorStatement { name: "Acme".to_owned(), public_key, issued_at: now() };
        let request = RegisterOperator { key_signature: statement.sign(&key)?, statement };
        self.ann.register_operator(&request).await?;
        for (client, actor) in [(&self.ben, &self.provider), (&self.noa, &self.newcomer)] {
            client.change_keys(&actor.id(), &actor.keyring.attachment(now(), &key)).await?;
        }
        Ok(public_key.did())
    }

    /// Something that Ben sells.
    async fn list(&self) -> Result<ListingId> {
        let mut listing: Listing = serde_json::from_value(json!({
            "agent_id": self.provider.id(), "capability": "custom.test.echo",
            "price_usdc": "0.02", "max_latency_ms": 1000, "endpoint": "http://127.0.0.1:9",
            "issued_at": now(),
        }))?;
        listing.sign(self.provider.keyring.wallet())?;
        self.ben.publish_listing(&listing).await?;
        Ok(listing.id())
    }

    /// Waits until search knows what Ben holds and how his operator stands.
    async fn seen(&self, id: ListingId, under_review: bool) -> Result<Found> {
        let started = Instant::now();
        loop {
            let found = self.ann.listing(id).await?;
            let known = found.benchmark == BenchmarkTier::Standard;
            if known && found.operator_under_review == under_review {
                return Ok(found);
            }
            ensure!(started.elapsed() < PATIENCE, "search does not follow: {found:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Noa cheats, and Ben, who has the same operator, has earned what he has.
pub(super) async fn fraud_is_answered_for_by_the_operator(world: &World) -> Result<String> {
    let (operator, listing) = (world.attach().await?, world.list().await?);
    let before = world.seen(listing, false).await?;
    let agent_id = world.newcomer.id();
    // Noa was an operator of its own until a moment ago: who answers has to be said.
    let revoke = |at| AdminAct::RevokeBenchmark { agent_id, at };
    let unsaid = world.home.act(revoke(None), "sold others' work").await;
    ensure!(unsaid.is_err(), "somebody was made to answer without a word on when it happened");
    // The node's clock is ahead of this one.
    let just_now = world.ann.advance_clock(0).await?;
    world.home.act(revoke(Some(just_now)), "sold others' work").await?;
    let hidden = world.seen(listing, true).await?;
    ensure!(hidden.ranking.score < before.ranking.score, "{:?}", hidden.ranking);
    let hold = world.hold(&world.ben).await?;
    ensure!(hold.amount_minor == hold.price_minor, "{hold:?}");
    let nothing = world.home.act(AdminAct::ClearRevocation { agent_id }, " ").await;
    ensure!(nothing.is_err(), "a revocation was taken back without a reason");
    world.home.act(AdminAct::ClearRevocation { agent_id }, "the report was false").await?;
    world.home.act(AdminAct::EndCooldown { operator }, "the report was false").await?;
    let after = world.seen(listing, false).await?;
    ensure!(after.ranking.score == before.ranking.score, "{:?}", after.ranking);
    let hold = world.hold(&world.ben).await?;
    ensure!(hold.amount_minor < hold.price_minor, "{hold:?}");
    let why = hidden.ranking.because.iter().find(|why| why.contains("review"));
    Ok(format!("its other agent: {}", why.map_or("", |why| why)))
}

pub(super) async fn the_rate_is_reported(world: &World) -> Result<String> {
    let socket = world.home.folder.path().join(ADMIN_SOCKET);
    let report = AdminClient::new(&socket)?.report().await?;
    ensure!((report.verified, report.qualified) == (1, 1), "{report:?}");
    Ok(format!(
        "{}: {} of {}; {}",
        report.quarter, report.qualified, report.verified, report.advice
    ))
}
