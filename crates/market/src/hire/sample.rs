//! Made-up listings for measurements: a few capabilities that many sell, and many that few do.

use skep_base::{AgentId, Timestamp, hash::sha256};
use skep_store::bench::Sample;
use skep_wire::hire::Listing;

use super::{ListingRecord, counts::Counts};

/// What a fifth of them sell.
pub const SAMPLE_POPULAR: &str = "text.summarize.short";
/// What one in a thousand sells: a page full of them among ten thousand.
pub const SAMPLE_RARE: &str = "custom.rare.ocr";
/// Other names, the first of them far more often than the last.
const NAMES: f64 = 2_000.0;
/// Words of descriptions, in the same way.
const VOCABULARY: f64 = 20_000.0;
const WORDS: u64 = 8;
/// Listings of one seller.
const PER_SELLER: u64 = 3;

/// The `n`th listing, always the same one. Its signature does not hold.
pub fn sample_listing(n: u64) -> Sample {
    let part = |label: u64| {
        let hash = sha256(&[n.to_be_bytes(), label.to_be_bytes()].concat());
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&hash.as_bytes()[..4]);
        f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX)
    };
    // What comes kth comes about 1/k as often as what comes first.
    let skewed = |label: u64, of: f64| of.powf(part(label)) as u64;
    let capability = match (n % 1_000, part(0)) {
        (7, _) => SAMPLE_RARE.to_owned(),
        (_, 0.0..0.2) => SAMPLE_POPULAR.to_owned(),
        _ => format!("custom.some.n{}", skewed(1, NAMES)),
    };
    let words = (0..WORDS).map(|word| format!("word{}", skewed(2 + word, VOCABULARY)));
    let mut agent = [0; 20];
    agent.copy_from_slice(&sha256(&(n / PER_SELLER).to_be_bytes()).as_bytes()[..20]);
    let price = 1_000 + (part(100) * 999_000.0) as i64;
    let price = skep_base::Amount::new(price).unwrap_or_default();
    let at = Timestamp::from_ms(1_800_000_000_000);
    // The mode makes several listings of one agent and one capability different ones.
    let mode = format!("custom_escrow:https://escrow.example/{}", n % PER_SELLER);
    let listing = Listing {
        agent_id: AgentId(agent),
        payee: None,
        capability,
        price_usdc: price.into(),
        currency: None,
        chain: None,
        max_latency_ms: 1000,
        first_call_free: None,
        endpoint: "https://seller.example".to_owned(),
        payment_mode: mode.parse().ok(),
        verification_version: None,
        clarification_supported: None,
        audit_participating: None,
        private_metrics: None,
        description: Some(words.collect::<Vec<_>>().join(" ")),
        issued_at: Some(at),
        signature: None,
        extra: Default::default(),
    };
    let record = ListingRecord {
        listing,
        origin: "https://seller.example:443".to_owned(),
        verification: 0,
        proven: true,
        alive: part(101) < 0.9,
        failures: 0,
        checked_at: Some(at),
        dead_since: None,
        timer: None,
        removed: None,
        counts: Counts { confirmed: skewed(102, 1000.0), ..Counts::default() },
        published_at: at,
        seller: Default::default(),
    };
    let body = serde_json::to_string(&record).unwrap_or_default();
    let indexed = record.indexed().expect("it is not removed");
    Sample { indexed, record: body }
}
