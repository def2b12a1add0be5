use serde_json::json;
use skep_base::{ed25519::SecretKey, wallet::WalletKey};

use super::*;

const START: i64 = 1_800_000_000;

fn key() -> SecretKey {
    SecretKey::from_seed([9; 32])
}

fn wallet(seed: u8) -> WalletKey {
    WalletKey::from_bytes([seed; 32]).unwrap()
}

fn token(agent: u8, change: impl FnOnce(&mut BudgetToken)) -> BudgetToken {
    let mut token: BudgetToken = serde_json::from_value(json!({
        "agent_id": wallet(agent).address(), "max_amount_usdc": "5", "max_duration_seconds": 3600,
        "issued_at": START, "issuer": key().public().did(), "nonce": "n",
    }))
    .unwrap();
    change(&mut token);
    token.sign_as_operator(&key()).unwrap();
    token
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_ms((START + seconds) * 1000)
}

fn root(token: &BudgetToken, seconds: i64) -> Result<usize, BudgetRefusal> {
    let (did, key) = (key().public().did(), key().public());
    let spender = Spender { operator: &did, operator_key: Some(&key) };
    check_new(token, at(seconds), Some(spender), None)
}

#[test]
fn a_budget_is_good_from_its_start_until_its_end() {
    let good = token(1, |_| {});
    assert_eq!(root(&good, 0), Ok(0));
    assert_eq!(root(&good, 3599), Ok(0));
    assert_eq!(root(&good, 3600), Err(BudgetRefusal::Expired { at: at(3600) }));
    assert_eq!(root(&good, -1), Err(BudgetRefusal::NotYetValid { from: at(0) }));
}

#[test]
fn what_nobody_may_give_is_refused_by_name() {
    let malformed = |change: fn(&mut BudgetToken)| root(&token(1, change), 0).unwrap_err();
    for change in [
        |t: &mut BudgetToken| t.max_amount_usdc = "0".parse().unwrap(),
        |t: &mut BudgetToken| t.max_duration_seconds = 0,
        |t: &mut BudgetToken| t.max_duration_seconds = BUDGET_SECONDS_MAX + 1,
        |t: &mut BudgetToken| t.nonce = String::new(),
        |t: &mut BudgetToken| t.nonce = "n".repeat(NONCE_LEN_MAX + 1),
    ] {
        assert!(matches!(malformed(change), BudgetRefusal::Malformed { .. }));
    }
    let mut forged = token(1, |_| {});
    forged.max_amount_usdc = "6".parse().unwrap();
    assert!(matches!(root(&forged, 0), Err(BudgetRefusal::Signature { .. })));
    let other = SecretKey::from_seed([8; 32]).public().did();
    let good = token(1, |_| {});
    let stranger = Spender { operator: &other, operator_key: None };
    assert_eq!(check_new(&good, at(0), Some(stranger), None), Err(BudgetRefusal::WrongIssuer));
    // Nobody gives himself a budget out of nothing.
    let mut own = good.clone();
    own.sign_as_agent(&wallet(1)).unwrap();
    assert_eq!(root(&own, 0), Err(BudgetRefusal::WrongIssuer));
}

#[test]
fn a_part_is_given_by_the_owner_and_fits_in() {
    let whole = token(1, |_| {});
    let id = whole.id().unwrap();
    let part = |by: u8, change: fn(&mut BudgetToken)| {
        let mut part = token(2, change);
        part.parent = Some(id);
        part.sign_as_agent(&wallet(by)).unwrap();
        part
    };
    let check = |part: &BudgetToken, depth: usize, left: i64| {
        let parent = Parent { token: &whole, depth, left: Amount::new(left).unwrap() };
        check_new(part, at(1), None, Some(parent))
    };
    let good = part(1, |_| {});
    assert_eq!(check(&good, 0, 5_000_000), Ok(1));
    let (left, needed) = (Amount::new(4_999_999).unwrap(), good.limit());
    assert_eq!(check(&good, 0, 4_999_999), Err(BudgetRefusal::Exceeded { left, needed }));
    assert_eq!(check(&good, BUDGET_DEPTH_MAX, 5_000_000), Err(BudgetRefusal::TooDeep));
    let unknown = BudgetRefusal::UnknownParent { parent: id };
    assert_eq!(check_new(&good, at(1), None, None), Err(unknown));
    assert_eq!(check(&part(3, |_| {}), 0, 5_000_000), Err(BudgetRefusal::WrongIssuer));
    let longer = part(1, |t| t.max_duration_seconds = 3601);
    let outlives = BudgetRefusal::OutlivesParent { at: whole.expires_at() };
    assert_eq!(check(&longer, 0, 5_000_000), Err(outlives));
}
