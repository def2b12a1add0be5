use skep_base::{Amount, Asset};

use super::*;

/// The exact value of `max(0.25, 1 - score / 1250)`, for each score there is.
#[test]
fn the_modifier_is_the_exact_value_of_the_formula() {
    for score in 0..=1000_u16 {
        // 1250 - score of 1250 parts, in tenths of thousandths: 8 for each point.
        let exact = (10_000 * (1250 - u32::from(score))).div_euclid(1250).max(2500);
        assert_eq!(10_000 * (1250 - u32::from(score)) % 1250, 0);
        assert_eq!(u32::from(modifier_e4(score)), exact);
        let double = (1.0 - f64::from(score) / 1250.0).clamp(0.25, 1.0);
        assert!((double - f64::from(modifier_e4(score)) / 10_000.0).abs() < 1e-12);
    }
    let known = [(0, 10_000), (300, 7600), (500, 6000), (700, 4400), (850, 3200), (1000, 2500)];
    for (score, held) in known {
        assert_eq!(modifier_e4(score), held);
    }
    assert_eq!(modifier_e4(u16::MAX), FLOOR_E4);
}

#[test]
fn cents_are_rounded_down_and_dollars_only() {
    let amount = |minor| Amount::new(minor).unwrap();
    assert_eq!(cents(amount(12_509_999), Asset::USDC), 1250);
    assert_eq!(cents(amount(1250), Asset::USD), 1250);
    assert_eq!(cents(amount(1250), Asset::EUR), 0);
}
