//! 5, 6, 7.3.1 and 8.2: listings, and how they are found.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skep_base::AgentId;
use skep_hire::capability;
use skep_wire::hire::{Found, Listing, Search, WalletSigned};

use super::{MEAN, MEDIAN, WORDS, World, refused};
use crate::{client::now, stage::Shop};

/// A listing of a seller's own, with something changed, signed by it.
fn listing(shop: &Shop, change: impl FnOnce(&mut Listing)) -> Result<Listing> {
    let mut listing: Listing = serde_json::from_value(json!({
        "agent_id": shop.id(), "capability": MEAN, "price_usdc": "0.02", "currency": "USDC",
        "max_latency_ms": 30_000, "endpoint": shop.url, "issued_at": now(),
        "verification_version": "v1", "payment_mode": "direct", "first_call_free": false,
    }))?;
    change(&mut listing);
    listing.sign(shop.actor.keyring.wallet())?;
    Ok(listing)
}

async fn found(w: &World, search: Value) -> Result<Vec<Found>> {
    let answer = w.post("/v1/search", &search).await?;
    ensure!(answer.status == 200, "{search}: {}", answer.body);
    Ok(serde_json::from_value(answer.body["agents"].clone())?)
}

fn sellers(found: &[Found]) -> BTreeSet<AgentId> {
    found.iter().map(|found| found.agent_id).collect()
}

pub(super) async fn names_outside_the_taxonomy_need_custom(w: &World) -> Result<String> {
    for name in ["poem.write.sonnet", "compute.statistics.magic", "Image.Generate", "custom", "a"] {
        let unknown = listing(&w.means, |listing| name.clone_into(&mut listing.capability))?;
        let published = w.client.publish_listing(&unknown).await;
        refused(published, "bad_capability").with_context(|| name.to_owned())?;
    }
    let own = found(w, json!({"capability": WORDS})).await?;
    ensure!(sellers(&own).contains(&w.words.id()), "a custom capability is not found");
    Ok(format!("{WORDS} is taken, names of nobody's are bad_capability"))
}

pub(super) async fn every_capability_has_schemas_and_a_check(w: &World) -> Result<String> {
    let taxonomy = w.hand.get(&format!("{}/v1/capabilities", w.url)).await?.body;
    let items = taxonomy["items"].as_array().context("no taxonomy")?;
    for item in items {
        let name = item["example"].as_str().context("a capability without a name")?;
        let schema = w.hand.get(&format!("{}/v1/capabilities/{name}/schema", w.url)).await?.body;
        for side in ["input", "output"] {
            let built = jsonschema::validator_for(&schema[side]);
            let built = built.map_err(|error| anyhow::anyhow!("{name} {side}: {error}"))?;
            ensure!(!built.is_valid(&json!(42)), "{name} {side} takes anything");
        }
        let seen = capability::verify(name, None, &json!({}), &json!({}));
        ensure!(!seen.all_passed, "{name}: nothing passes its check");
    }
    ensure!(items.len() >= 40, "only {} capabilities", items.len());
    let own = w.hand.get(&format!("{}/capabilities/{MEAN}/schema", w.means.url)).await?.body;
    let standard = format!("{}/v1/capabilities/{MEAN}/schema?version=v1", w.url);
    let standard = w.hand.get(&standard).await?.body;
    ensure!(own["input"] == standard["input"], "a seller takes something else");
    let hire = w.hand.hire(&w.means, MEAN, json!({"numbers": "many"}), |_| {})?;
    w.hand.ask(&w.means, &hire).await?.refused(400, "bad_params")?;
    Ok(format!("{} capabilities, each with two schemas; sellers hold to them", items.len()))
}

pub(super) async fn every_filter_counts(w: &World) -> Result<String> {
    let (means, cheat) = (w.means.id(), w.cheat.id());
    let own = super::own_escrow(&w.client).await?.to_string();
    for (filter, has_means, has_cheat) in [
        (json!({}), true, true),
        (json!({"max_price_usdc": "0.015"}), false, true),
        (json!({"max_price_usdc": "0.02"}), true, true),
        (json!({"max_latency_ms": 29_999}), false, false),
        (json!({"max_latency_ms": 30_000}), true, true),
        (json!({"payment_mode": "direct"}), true, true),
        (json!({"payment_mode": own}), true, true),
        (json!({"payment_mode": "platform_escrow:*"}), true, true),
        (json!({"payment_mode": "platform_escrow:elsewhere"}), false, false),
        (json!({"min_verification_version": "v1"}), true, true),
        (json!({"min_verification_version": "v2"}), false, false),
        (json!({"agent_id": means}), true, false),
        // Nobody has these yet, and what is not known passes no minimum.
        (json!({"min_avg_stars": 1.0}), false, false),
        (json!({"min_trust_tier": 1}), false, false),
        (json!({"first_call_free": true}), false, false),
        (json!({"clarification_supported": true}), false, false),
    ] {
        let mut search = filter.clone();
        search["capability"] = json!(MEAN);
        let sellers = sellers(&found(w, search).await?);
        let seen = (sellers.contains(&means), sellers.contains(&cheat));
        ensure!(seen == (has_means, has_cheat), "{filter} finds {sellers:?}");
    }
    let all = found(w, json!({"capability": MEAN})).await?;
    let search = Search { capability: Some(MEAN.to_owned()), limit: Some(1), ..Search::default() };
    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let page = w.client.search(&Search { cursor, ..search.clone() }).await?;
        ensure!(page.agents.len() <= 1, "a page is longer than its limit");
        pages.extend(page.agents.into_iter().map(|found| found.listing_id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let all: Vec<_> = all.iter().map(|found| found.listing_id).collect();
    ensure!(pages == all, "pages give {pages:?}, not {all:?}");
    let free = found(w, json!({"capability": MEDIAN, "first_call_free": true})).await?;
    ensure!(sellers(&free).contains(&w.medians.id()), "a free first call is not found");
    Ok(format!("fifteen searches; {} listings in pages of one", all.len()))
}

pub(super) async fn answers_carry_signed_listings_and_reputation(w: &World) -> Result<String> {
    let answer = w.post("/v1/search", &json!({"capability": MEAN})).await?.body;
    ensure!(answer.get("next_cursor").is_some(), "no next_cursor");
    let agents = answer["agents"].as_array().context("no agents")?;
    for agent in agents {
        for field in
            ["capability", "price_usdc", "max_latency_ms", "payment_mode", "endpoint", "signature"]
        {
            ensure!(agent["listing"].get(field).is_some(), "a listing without {field}");
        }
        for field in [
            "success_rate",
            "avg_latency_ms",
            "last_30d_hire_count",
            "avg_stars",
            "total_ratings",
            "claimed",
            "trust_tier",
        ] {
            ensure!(agent["reputation"].get(field).is_some(), "a reputation without {field}");
        }
        let listing: Listing = serde_json::from_value(agent["listing"].clone())?;
        listing.check().context("a listing is not signed by its seller")?;
        let mut cheaper = listing.clone();
        cheaper.price_usdc = "0.000001".parse()?;
        ensure!(cheaper.check().is_err(), "a changed price goes unseen");
        let because = agent["ranking"]["because"].as_array().context("no reasons")?;
        ensure!(!because.is_empty(), "a place without a reason");
    }
    Ok(format!("{} listings, each signed by its seller, each place explained", agents.len()))
}

pub(super) async fn a_capability_has_one_listing_for_each_mode(w: &World) -> Result<String> {
    let own = || found(w, json!({"capability": MEAN, "agent_id": w.means.id()}));
    let before = own().await?;
    let modes: BTreeSet<String> = before.iter().map(|f| f.listing.mode().to_string()).collect();
    let expected = ["direct".to_owned(), super::own_escrow(&w.client).await?.to_string()];
    ensure!(modes == BTreeSet::from(expected), "modes are {modes:?}");
    let older = listing(&w.means, |listing| {
        listing.issued_at = Some(now().minus(Duration::from_secs(200)));
        listing.price_usdc = "0.01".parse().unwrap_or_else(|_| listing.price_usdc.clone());
    })?;
    let answer = w.client.publish_listing(&older).await?;
    ensure!(!answer.changed, "an older listing replaced a later one");
    let newer = w.client.publish_listing(&listing(&w.means, |_| {})?).await?;
    ensure!(newer.changed, "a later listing did not replace an earlier one");
    let after = own().await?;
    ensure!(after.len() == before.len(), "there are {} listings now", after.len());
    let elsewhere = listing(&w.means, |listing| {
        listing.payment_mode = "platform_escrow:elsewhere".parse().ok();
    })?;
    refused(w.client.publish_listing(&elsewhere).await, "wrong_escrow")?;
    Ok(format!(
        "{}; later ones replace earlier ones",
        modes.into_iter().collect::<Vec<_>>().join(", ")
    ))
}

pub(super) async fn listings_say_which_checks_they_promise(w: &World) -> Result<String> {
    let strict = json!({"capability": MEAN, "min_verification_version": "v1"});
    let strict = found(w, strict).await?;
    ensure!(strict.iter().all(|f| f.listing.version() == "v1"), "v0 counts as v1");
    ensure!(sellers(&strict).contains(&w.means.id()), "v1 is not found");
    let unknown = listing(&w.means, |l| l.verification_version = Some("v9".to_owned()))?;
    refused(w.client.publish_listing(&unknown).await, "bad_verification_version")?;
    let known = capability::find(MEAN).context("the capability is gone")?;
    let deprecated: Vec<_> = known.deprecated_versions().collect();
    ensure!(known.current_version() == "v1" && !deprecated.is_empty(), "v0 never ends");
    let (version, ends) = deprecated[0];
    Ok(format!("{version} is permissive and ends {ends}; v9 is bad_verification_version"))
}
