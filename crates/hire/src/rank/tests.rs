use super::*;

fn facts(alive: bool, confirmed: u64, price: i64) -> Facts {
    Facts { alive, confirmed, price: Amount::new(price).unwrap(), seller: Seller::default() }
}

#[test]
fn alive_beats_hires_and_hires_beat_the_price() {
    let best_first = [
        facts(true, u64::MAX, i64::MAX),
        facts(true, 4, 1_000_000),
        facts(true, 3, 1),
        facts(true, 2, 2),
        facts(true, 1, 3),
        facts(true, 0, 1),
        facts(true, 0, i64::MAX),
        facts(false, u64::MAX, 1),
        facts(false, 0, 1),
        facts(false, 0, 2),
    ];
    assert!(best_first.is_sorted_by(|a, b| a.score() > b.score()), "{best_first:?}");
    assert_eq!(facts(true, 4, 9).score(), facts(true, 7, 9).score(), "one power of two");
    assert!(best_first[0].score() < 1 << 53);
}

#[test]
fn the_score_is_explained() {
    assert_eq!(
        facts(true, 5, 20_000).because(false),
        ["its address answers", "5 confirmed hires", "costs 0.020000 USDC"]
    );
    assert_eq!(facts(true, 5, 20_000).because(true)[1], "at least 4 confirmed hires");
    assert_eq!(facts(false, 0, 1).because(false)[1], "no confirmed hires yet");
}

#[test]
fn what_is_known_of_the_seller_moves_it() {
    let with = |confirmed, score_hundreds, newcomer, under_review| {
        let seller = Seller { score_hundreds, newcomer, under_review, ..Seller::default() };
        Facts { seller, ..facts(true, confirmed, 1_000_000) }
    };
    let best_first = [
        with(u64::MAX, 10, true, false),
        with(u64::MAX, 10, true, true),
        with(8, 7, false, false),
        with(8, 7, false, true),
        with(2, 0, false, false),
        with(0, 0, true, false),
        with(1, 0, false, false),
        with(0, 0, false, false),
    ];
    assert!(best_first.is_sorted_by(|a, b| a.score() > b.score()), "{best_first:?}");
    assert!(best_first[0].score() < 1 << 53);
    let told = with(8, 7, false, true).because(false).join("; ");
    assert!(told.contains("at least 700") && told.contains("under review"), "{told}");
}

#[test]
fn an_operator_under_review_costs_three_tenths_of_the_points() {
    let with = |confirmed, score_hundreds, under_review| {
        let seller = Seller { score_hundreds, under_review, ..Seller::default() };
        Facts { seller, ..facts(true, confirmed, i64::MAX) }
    };
    // What nothing is known of stands for the address; the rest of a score are the points.
    let ground = facts(true, 0, i64::MAX).score();
    let points = |facts: &Facts| (facts.score() - ground) >> PRICE_BITS;
    for (confirmed, score_hundreds, before, after) in
        [(0, 0, 0, 0), (1, 0, 20, 14), (8, 7, 220, 154), (u64::MAX, 10, 820, 574)]
    {
        let (clear, reviewed) =
            (with(confirmed, score_hundreds, false), with(confirmed, score_hundreds, true));
        assert_eq!((points(&clear), points(&reviewed)), (before, after));
        assert_eq!(10 * points(&reviewed), 7 * points(&clear), "9.7 says 0.7");
    }
    let newcomer = |under_review| {
        let seller = Seller { newcomer: true, under_review, ..Seller::default() };
        points(&Facts { seller, ..facts(true, 0, i64::MAX) })
    };
    assert_eq!((newcomer(false), newcomer(true)), (30, 21));
    let told = with(8, 7, true).because(false);
    assert!(told.contains(&"operator under review: its points count 0.7".to_owned()), "{told:?}");
    assert!(RANKED_BY.contains(", 0.7 of all that while the operator is under review"));
}
