use std::{collections::BTreeMap, fmt::Write};

use expect_test::expect_file;
use proptest::{prelude::*, sample::select};

use super::*;

const POLICIES: [RemainderPolicy; 3] =
    [RemainderPolicy::OnRelease, RemainderPolicy::Reserve, RemainderPolicy::Advance];

fn amount(minor: i64) -> Amount {
    Amount::new(minor).unwrap()
}

/// What each place has won or lost, and what is set aside.
#[derive(Default)]
struct Ledger {
    balances: BTreeMap<Place, i128>,
    reserved: Option<i128>,
    labels: Vec<&'static str>,
}

impl Ledger {
    fn shift(&mut self, from: Place, to: Place, amount: i128) {
        assert!(amount > 0, "a leg moves something");
        *self.balances.entry(from).or_default() -= amount;
        *self.balances.entry(to).or_default() += amount;
        assert!(self.of(Place::Escrow) >= 0, "the escrow pays what it has not");
    }

    fn of(&self, place: Place) -> i128 {
        self.balances.get(&place).copied().unwrap_or_default()
    }

    /// A payment counts as made: what the payer lacks becomes a debt elsewhere.
    fn carry_out(&mut self, legs: &[Leg]) {
        for leg in legs {
            match *leg {
                Leg::Move { label, from, to, amount } | Leg::Pay { label, from, to, amount } => {
                    assert!(!self.labels.contains(&label), "{label} names two movements");
                    self.labels.push(label);
                    self.shift(from, to, amount.minor().into());
                }
                Leg::Reserve { amount } => {
                    assert_eq!(self.reserved.replace(amount.minor().into()), None);
                }
                Leg::Capture { amount } => {
                    let reserved = self.reserved.take().expect("something was set aside");
                    assert!(i128::from(amount.minor()) <= reserved);
                    self.shift(Place::Requester, Place::Provider, amount.minor().into());
                }
                Leg::Free => assert!(self.reserved.take().is_some(), "something was set aside"),
            }
        }
    }
}

fn half_even(price: i64, bps: u32) -> i128 {
    let (product, whole) = (i128::from(price) * i128::from(bps), 10_000);
    let (down, rest) = (product / whole, product % whole);
    match (rest * 2).cmp(&whole) {
        std::cmp::Ordering::Less => down,
        std::cmp::Ordering::Equal => down + down % 2,
        std::cmp::Ordering::Greater => down + 1,
    }
}

#[derive(Clone, Debug)]
struct Case {
    stake: Stake,
    subsidised: bool,
    released: Amount,
    rate_bps: u32,
    verifier_due: bool,
}

/// Small prices are where rounding bites; large ones where sums overflow.
fn cases() -> impl Strategy<Value = Case> {
    let price = prop_oneof![1..200_i64, 1..1_000_000_000_i64, 1..i64::MAX / 4];
    let terms = (price, 2_500..=10_000_u16, select(POLICIES.to_vec()));
    let fees = (0..=FEE_BPS_MAX, 0..=WHOLE_E4, 0..=100_u32, 0..100_000_i64);
    (terms, fees, any::<(bool, bool)>(), 0..=4_u8, any::<u64>()).prop_map(
        |((price, modifier, policy), (cap, share, rate, verifier), (subsidised, due), end, r)| {
            let fee = (cap, share);
            let (price, verifier) = (amount(price), amount(verifier));
            let stake = Stake::new(price, modifier, policy, fee, verifier, subsidised).unwrap();
            let part = ((i128::from(r) * i128::from(price.minor())) >> 64) as i64;
            let released = match end {
                0 => Amount::ZERO,
                1 => price,
                2 => stake.remainder,
                _ => amount(part),
            };
            let rate_bps = cap * rate / 100;
            Case { stake, subsidised, released, rate_bps, verifier_due: due }
        },
    )
}

proptest! {
    #[test]
    fn everyone_ends_with_exactly_what_is_theirs(case in cases()) {
        let Case { stake, released, rate_bps, verifier_due, .. } = case;
        let mut ledger = Ledger::default();
        ledger.carry_out(&stake.open());
        prop_assert_eq!(ledger.of(Place::Escrow), i128::from(stake.in_escrow().minor()));
        let (legs, fee) = stake.close(released, rate_bps, verifier_due).unwrap();
        ledger.carry_out(&legs);

        let verifier = if verifier_due { stake.verifier_price.minor().into() } else { 0 };
        let (buyer, seller) = (i128::from(fee.buyer.minor()), i128::from(fee.seller.minor()));
        let released = i128::from(released.minor());
        prop_assert_eq!(ledger.of(Place::Escrow), 0);
        prop_assert_eq!(ledger.of(Place::Provider), released - seller);
        prop_assert_eq!(ledger.of(Place::Requester), -(released + buyer + verifier));
        prop_assert_eq!(ledger.of(Place::Fees), buyer + seller);
        prop_assert_eq!(ledger.of(Place::Verifier), verifier);
        prop_assert_eq!(ledger.of(Place::Subsidy), 0);
        prop_assert_eq!(ledger.reserved, None);
        prop_assert_eq!(ledger.balances.values().sum::<i128>(), 0);
    }

    #[test]
    fn holds_and_fees_round_as_decisions_8_and_10_say(case in cases()) {
        let Case { stake, subsidised, released, rate_bps, .. } = case;
        let price = i128::from(stake.price.minor());
        let hold = i128::from(stake.hold.minor());
        let exact = price * i128::from(stake.modifier_e4);
        prop_assert!(hold * 10_000 >= exact && (hold - 1) * 10_000 < exact);
        prop_assert_eq!(hold + i128::from(stake.remainder.minor()), price);
        let fronted = if subsidised { hold / 5 } else { 0 };
        prop_assert_eq!(i128::from(stake.subsidy.minor()), fronted);

        let fee = Fee::on(released, rate_bps, stake.buyer_share_bps).unwrap();
        let total = half_even(released.minor(), rate_bps);
        prop_assert_eq!(i128::from(fee.total().minor()), total);
        let buyer = total * i128::from(stake.buyer_share_bps) / 10_000;
        prop_assert_eq!(i128::from(fee.buyer.minor()), buyer);
        prop_assert!(fee.buyer <= stake.fee_reserved);
        prop_assert!(fee.total() <= released);
    }

    #[test]
    fn with_everything_held_nobody_can_come_to_owe_anything(case in cases()) {
        let Case { stake, released, rate_bps, verifier_due, .. } = case;
        let fee = (stake.fee_cap_bps, stake.buyer_share_bps);
        let verifier = stake.verifier_price;
        let whole = Stake::new(stake.price, 10_000, stake.policy, fee, verifier, false).unwrap();
        prop_assert_eq!(whole.hold, whole.price);
        let (legs, _) = whole.close(released, rate_bps, verifier_due).unwrap();
        let moves = whole.open().into_iter().chain(legs);
        prop_assert!(moves.clone().all(|leg| matches!(leg, Leg::Move { .. })), "{:?}", moves);
    }
}

fn show(leg: &Leg) -> String {
    match leg {
        Leg::Move { label, from, to, amount } => format!("{label} {from:?}→{to:?} {amount}"),
        Leg::Pay { label, from, to, amount } => format!("{label} {from:?}⇒{to:?} {amount}"),
        Leg::Reserve { amount } => format!("reserve {amount}"),
        Leg::Capture { amount } => format!("capture {amount}"),
        Leg::Free => "free".to_owned(),
    }
}

/// Worked by hand. `⇒` may become a debt.
#[test]
fn worked_examples() {
    use RemainderPolicy::*;
    // Price, modifier, policy, fee and buyer's share, verifier's price, subsidy; released, paid.
    let examples = [
        (
            "VCAP 10.1: 300.00, 5 % halved",
            30_000,
            10_000,
            OnRelease,
            (500, 5_000),
            0,
            false,
            30_000,
        ),
        ("the same, refunded", 30_000, 10_000, OnRelease, (500, 5_000), 0, false, 0),
        ("a verifier is paid either way", 30_000, 10_000, OnRelease, (500, 5_000), 40, false, 0),
        ("a quarter is held", 30_000, 2_500, OnRelease, (500, 5_000), 0, false, 30_000),
        ("a quarter is held, refunded", 30_000, 2_500, OnRelease, (500, 5_000), 0, false, 0),
        ("the rest is set aside", 30_000, 2_500, Reserve, (500, 5_000), 0, false, 30_000),
        ("set aside, a third released", 30_000, 2_500, Reserve, (500, 5_000), 0, false, 10_000),
        ("set aside, refunded", 30_000, 2_500, Reserve, (500, 5_000), 0, false, 0),
        ("the rest is advanced", 30_000, 2_500, Advance, (500, 5_000), 0, false, 30_000),
        ("advanced, a third released", 30_000, 2_500, Advance, (500, 5_000), 0, false, 10_000),
        ("advanced, refunded", 30_000, 2_500, Advance, (500, 5_000), 0, false, 0),
        ("fronted, released", 30_000, 10_000, OnRelease, (0, 0), 0, true, 30_000),
        ("fronted, refunded", 30_000, 10_000, OnRelease, (0, 0), 0, true, 0),
        ("fronted, nearly all released", 30_000, 10_000, OnRelease, (0, 0), 0, true, 29_000),
        ("an odd cent of the hold goes up", 101, 5_000, OnRelease, (0, 0), 0, false, 101),
        (
            "an odd cent of the fee is the seller's",
            300,
            10_000,
            OnRelease,
            (500, 5_000),
            0,
            false,
            300,
        ),
        ("half a cent goes to the even one: down", 50, 10_000, OnRelease, (500, 0), 0, false, 50),
        ("half a cent goes to the even one: up", 30, 10_000, OnRelease, (500, 0), 0, false, 30),
    ];
    let mut table = String::new();
    for (what, price, modifier, policy, fee, verifier, subsidised, released) in examples {
        let (price, verifier) = (amount(price), amount(verifier));
        let stake = Stake::new(price, modifier, policy, fee, verifier, subsidised).unwrap();
        let (legs, charged) = stake.close(amount(released), fee.0, true).unwrap();
        let list = |legs: &[Leg]| legs.iter().map(show).collect::<Vec<_>>().join(", ");
        let (buyer, seller) = (charged.buyer, charged.seller);
        writeln!(table, "{what}: fee {} = {buyer} + {seller}", charged.total()).unwrap();
        writeln!(table, "  {}", list(&stake.open())).unwrap();
        writeln!(table, "  {}", list(&legs)).unwrap();
    }
    expect_file!["examples.txt"].assert_eq(&table);
}

#[test]
fn what_was_not_agreed_is_not_moved() {
    let stake = |price: i64, modifier, fee, verifier: i64| {
        let (price, verifier) = (amount(price), amount(verifier));
        Stake::new(price, modifier, RemainderPolicy::OnRelease, fee, verifier, false)
    };
    let agreed = stake(1_000, 10_000, (500, 5_000), 0).unwrap();
    assert_eq!(agreed.close(amount(1_001), 500, false), None);
    assert_eq!(agreed.close(amount(1_000), 501, false), None);
    assert!(agreed.close(amount(1_000), 500, false).is_some());
    assert_eq!(stake(1_000, 10_000, (FEE_BPS_MAX + 1, 0), 0), None);
    assert_eq!(stake(1_000, 10_000, (0, WHOLE_E4 + 1), 0), None);
    assert_eq!(stake(i64::MAX, 10_000, (0, 0), 1), None);
    // A modifier outside its range is brought back into it.
    assert_eq!(stake(1_000, 0, (0, 0), 0).unwrap().hold, amount(250));
    assert_eq!(stake(1_000, u16::MAX, (0, 0), 0).unwrap().hold, amount(1_000));
}
