//! 12, and the gate of disputes: what a score is worth when the next deal is made.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use skep_base::Money;
use skep_wire::{
    score::{BenchmarkTier, Fraction},
    settle::Outcome,
};

use super::{World, problem};
use crate::stage;

pub(super) async fn the_hold_follows_the_score(world: &World) -> Result<String> {
    let score = world.publication().await?.score.value;
    let hold = world.hold(&world.ben).await?;
    let e4 = 10_000 - 8 * u32::from(score);
    ensure!(u32::from(hold.modifier_e4) == e4, "{hold:?}");
    ensure!(hold.effective_modifier_e4 == hold.modifier_e4, "{hold:?}");
    let (price, held) = (hold.price_minor.minor(), hold.amount_minor.minor());
    ensure!(held == (price * i64::from(e4) + 9_999) / 10_000, "{held} of {price}");
    let whole = world.hold(&world.noa).await?;
    let whole_hold = whole.amount_minor.minor() + whole.subsidy_minor.minor();
    ensure!(whole_hold == whole.price_minor.minor(), "{whole:?}");
    let held = Money::new(hold.amount_minor, hold.currency);
    let price = Money::new(hold.price_minor, hold.currency);
    Ok(format!("at {score}: {held} of {price}; of a newcomer: all of it"))
}

pub(super) async fn who_asks_for_a_benchmark_gets_nobody_without(world: &World) -> Result<String> {
    let ask = json!({"requires_benchmark": true});
    let held = world.publication().await?.benchmark.tier;
    ensure!(held != BenchmarkTier::None, "Ben holds no benchmark");
    let answer = stage::agree(&world.ann, &world.ben, ask.clone()).await?;
    let hold = answer.escrow.context("accepted without a hold")?;
    world.ann.cancel_deal(hold.escrow_id).await?;
    let offer =
        stage::request(world.ann.agent_id().context("Ann has no agent")?, world.newcomer.id(), ask);
    let refused = problem(world.ann.open_negotiation(&offer).await, "benchmark_required")?;
    let gap = refused.benchmark.context("the refusal says no gap")?;
    ensure!((gap.current_score, gap.gap) == (0, gap.required_score), "{gap:?}");
    ensure!(!gap.qualification_gaps.is_empty(), "{gap:?}");
    Ok(format!("{} is taken; without: {}", held.as_str(), refused.detail))
}

pub(super) async fn a_dispute_puts_the_whole_price_back(world: &World) -> Result<String> {
    let window = json!({"metadata": {"skep": {"dispute_window_s": 3600}}});
    world.deal(&world.ben, window, Outcome::Failed).await?;
    let during = world.publication().await?;
    ensure!(during.gates.disputed_sessions_active == 1, "{:?}", during.gates);
    ensure!(during.escrow.effective_modifier == Fraction::ONE, "{:?}", during.escrow);
    ensure!(during.escrow.modifier < Fraction::ONE, "{:?}", during.escrow);
    let [.., modifier, effective] = world.headers().await?;
    ensure!(modifier != effective, "7.4's header is {modifier}");
    let hold = world.hold(&world.ben).await?;
    ensure!(hold.amount_minor == hold.price_minor, "{hold:?}");
    world.pass(2 * 3600).await?;
    world
        .until("the dispute ends", |now| {
            now.gates.disputed_sessions_active == 0 && now.benchmark.tier != BenchmarkTier::None
        })
        .await?;
    let after = world.hold(&world.ben).await?;
    ensure!(after.amount_minor < after.price_minor, "{after:?}");
    Ok(format!("{} of 10000 during it, {} after", 10_000, after.effective_modifier_e4))
}
