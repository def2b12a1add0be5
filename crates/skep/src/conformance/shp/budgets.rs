//! 4.4: what an agent may spend for somebody else.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use skep_agent::buyer::PaymentChoice;
use skep_base::{Amount, Hash32};
use skep_wire::hire::{BudgetIssuer, BudgetToken, HireRequest, Usdc, WalletSigned};

use super::{MEAN, PRICE, World, order};
use crate::{client::now, stage};

/// A budget that Ann, who is her own operator, gives herself.
fn token(w: &World, minor: i64) -> Result<BudgetToken> {
    let amount = Amount::new(minor).context("no amount")?;
    let mut token = BudgetToken {
        agent_id: w.ann.id(),
        max_amount_usdc: Usdc::from(amount),
        max_duration_seconds: 600,
        issued_at: now().as_ms() / 1000,
        issuer: BudgetIssuer::Operator(w.ann.keyring.did()),
        nonce: Hash32::from(stage::entropy()?).to_string(),
        parent: None,
        signature: None,
    };
    token.sign_as_operator(w.ann.keyring.secret())?;
    Ok(token)
}

pub(super) async fn no_hire_goes_beyond_its_budget(w: &World) -> Result<String> {
    let budget = token(w, 2 * PRICE + 1)?;
    let hire = |token: &BudgetToken, n: i64| -> Result<HireRequest> {
        let token = token.clone();
        w.hand.hire(&w.means, MEAN, json!({"data": [n]}), |h| h.budget_token = Some(token))
    };
    for n in 0..2 {
        let (_, answer) = w.hand.bought(&w.means, &hire(&budget, n)?).await?;
        ensure!(answer.status == 200, "within the budget: {}", answer.body);
    }
    let (_, answer) = w.hand.bought(&w.means, &hire(&budget, 2)?).await?;
    answer.refused(402, "budget_exceeded").context("the third of two")?;
    let shown = w.client.budget(&budget.id()?).await?;
    ensure!(shown.left_minor.minor() == 1, "{} minor units are left", shown.left_minor);

    let mut raised = token(w, PRICE)?;
    raised.max_amount_usdc = "1000".parse()?;
    let (_, answer) = w.hand.bought(&w.means, &hire(&raised, 3)?).await?;
    answer.refused(402, "invalid_budget").context("a raised one")?;
    let mut late = token(w, PRICE)?;
    late.issued_at -= 601;
    late.sign_as_operator(w.ann.keyring.secret())?;
    w.hand.ask(&w.means, &hire(&late, 4)?).await?.refused(422, "invalid_budget")?;
    let mut stolen = hire(&token(w, PRICE)?, 5)?;
    stolen.buyer_id = w.eve.id();
    stolen.sign(w.eve.wallet())?;
    w.eve.ask(&w.means, &stolen).await?.refused(422, "invalid_budget")?;

    let small = token(w, PRICE - 1)?;
    let buyer = w.place().buyer(&w.ann, |config| config.budget = Some(small))?;
    let wanted = order(&w.means, MEAN, json!({"data": [6]}), PaymentChoice::Any);
    match buyer.hire(wanted).await {
        Err(error) if error.code() == "budget_exceeded" => {}
        other => anyhow::bail!("the buyer itself did not stop: {other:?}"),
    }
    Ok("counted by the node: two hires of two, not a third; forged, late and stolen tokens are \
        invalid_budget; the buyer stops before it signs"
        .to_owned())
}
