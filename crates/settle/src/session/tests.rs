use std::fmt::Write;

use expect_test::expect_file;

use super::*;

const STATES: [Status; 4] = [Status::Idle, Status::Running, Status::Completed, Status::Failed];
const TIERS: [Tier; 4] = [Tier::Unverified, Tier::Basic, Tier::Verified, Tier::Trusted];

#[test]
fn the_whole_table() {
    let mut table = String::new();
    for from in STATES {
        for input in [Input::Act, Input::Complete, Input::Fail] {
            let to = step(from, input);
            let to = to.map_or_else(|refusal| format!("{refusal:?}"), |to| format!("{to:?}"));
            writeln!(table, "{from:?} | {input:?} => {to}").unwrap();
        }
    }
    // Who may do what, and at what price.
    let prices = Prices::default();
    for action in ActionType::ALL {
        let account = Account {
            status: Status::Idle,
            actions: 0,
            cost: Amount::ZERO,
            max_cost: prices.default_max(),
        };
        let price = prices.of(action);
        let able = TIERS.iter().find(|tier| gate(&account, **tier, action, price).is_ok());
        writeln!(table, "{} | {:?} => {price}", action.as_str(), able.unwrap()).unwrap();
    }
    expect_file!["table.txt"].assert_eq(&table);
}

#[test]
fn a_higher_tier_may_do_all_that_a_lower_one_may() {
    let account =
        Account { status: Status::Running, actions: 1, cost: Amount::ZERO, max_cost: Amount::ZERO };
    for action in ActionType::ALL {
        let able = TIERS.map(|tier| gate(&account, tier, action, Amount::ZERO).is_ok());
        assert!(able.is_sorted(), "{action:?} {able:?}");
    }
}

#[test]
fn the_last_minor_unit_and_the_last_action_may_be_used_and_no_more() {
    let minor = |n| Amount::new(n).unwrap();
    let at = |cost, actions| Account {
        status: Status::Running,
        actions,
        cost: minor(cost),
        max_cost: minor(100),
    };
    let ask = |account: &Account| gate(account, Tier::Unverified, ActionType::Extract, minor(10));
    assert_eq!(ask(&at(90, 0)), Ok(()));
    let spent = ask(&at(91, 0)).unwrap_err();
    assert!(matches!(spent, Refusal::BudgetSpent { price_minor: 10, left_minor: 9, .. }));
    assert_eq!(ask(&at(0, SESSION_ACTIONS_MAX - 1)), Ok(()));
    let many = Refusal::TooManyActions { max: SESSION_ACTIONS_MAX };
    assert_eq!(ask(&at(0, SESSION_ACTIONS_MAX)), Err(many));
    // A maximum of nothing pays what is free.
    let free = gate(
        &Account { max_cost: Amount::ZERO, ..at(0, 0) },
        Tier::Unverified,
        ActionType::Wait,
        Prices::default().of(ActionType::Wait),
    );
    assert_eq!(free, Ok(()));
}

#[test]
fn an_operator_may_price_single_actions() {
    let price = |n| Amount::new(n).unwrap();
    let special = BTreeMap::from([(ActionType::Crawl, price(9)), (ActionType::Wait, price(1))]);
    let prices = Prices { billable: price(2), special };
    let asked = [ActionType::Crawl, ActionType::Wait, ActionType::Map, ActionType::Scroll];
    assert_eq!(asked.map(|action| prices.of(action).minor()), [9, 1, 2, 0]);
    assert_eq!(prices.default_max(), price(50));
}
