//! SHP, clause by clause, over HTTP against a node and sellers that are made for it.

mod budgets;
mod clarify;
mod custom_escrow;
mod escrow;
mod hires;
mod jobs;
mod messages;
mod registry;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use skep_agent::{Buyer, HireOrder, buyer::PaymentChoice};
use skep_base::{Amount, Asset, Money};
use skep_sdk::{Client, Error};
use skep_testkit::process::Child;
use skep_wire::hire::PaymentMode;

use super::{Deviation, Report};
use crate::stage::{self, Actor, Hand, Place, Shop, own_work};

const HIRE: &str = "Hire";
const ESCROW: &str = "Escrow";
const CLARIFY: &str = "Clarify";

const MEAN: &str = "compute.statistics.mean";
const MEDIAN: &str = "compute.statistics.median";
const WORDS: &str = "custom.conformance.words";
/// What a mean costs, in minor units.
const PRICE: i64 = 20_000;

/// Gives a quote, alternatives or a refusal, as the brief says, and does what it is hired for.
const SCRIPT: &str = r#"asked=$(cat)
option() { printf '{"price_usdc":"0.0%s","params":{"words":%s}}' "$1" "$1"; }
case "$asked" in
  *'"clarify"'*alternatives*)
    printf '{"outcome":"counter","reason":"too much at once","options":[%s,%s,%s,%s]}' \
      "$(option 5)" "$(option 6)" "$(option 7)" "$(option 8)" ;;
  *'"clarify"'*shortly*)
    printf '{"outcome":"quote","price_usdc":"0.06","params":{"words":9},"valid_for_s":1}' ;;
  *'"clarify"'*'nine words'*)
    printf '{"outcome":"quote","price_usdc":"0.06","params":{"words":9}}' ;;
  *'"clarify"'*) printf '{"outcome":"decline","reason":"not today"}' ;;
  *) printf '{"done":%s}' "$asked" ;;
esac"#;

/// A node, its sellers and their buyer.
struct World {
    /// Honest, in both modes.
    means: Shop,
    /// Honest, and free for the first time.
    medians: Shop,
    /// Gives quotes.
    words: Shop,
    /// Sells means and gives 42 for all of them.
    cheat: Shop,
    ann: Actor,
    /// Ann's node.
    client: Client,
    /// Ann, by herself and by hand.
    buyer: Buyer,
    hand: Hand,
    /// Somebody else, with money too.
    eve: Hand,
    url: String,
    _node: Child,
    folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Result<World> {
        let folder = tempfile::tempdir()?;
        let node = stage::node(folder.path(), &[])?;
        let url = node.url().to_owned();
        let place = Place { node: &url, folder: folder.path() };
        let (ann, eve) = (Actor::new("ann")?, Actor::new("eve")?);
        let client = ann.register(&url).await?;
        for client in [&client, &eve.register(&url).await?] {
            client.faucet(Money::parse_decimal("100", Asset::USDC)?).await?;
        }
        let seller = Actor::new;
        let both = ["--payment-mode", "direct", "--payment-mode", "escrow"];
        let goods = [MEAN, "--price", "0.02", "--verification-version", "v1"];
        let statistics = own_work("statistics")?;
        let goods = [&goods[..], &both[..]].concat();
        let means = Shop::open(place, seller("means")?, &goods, &statistics).await?;
        let goods = [MEDIAN, "--price", "0.02", "--first-call-free"];
        let medians = Shop::open(place, seller("medians")?, &goods, &statistics).await?;
        let script = ["sh".into(), "-c".into(), SCRIPT.into()];
        let goods = [WORDS, "--price", "0.05", "--clarify", "--max-latency-ms", "5000"];
        let words = Shop::open(place, seller("words")?, &goods, &script).await?;
        let modes = vec![PaymentMode::Direct, own_escrow(&client).await?];
        let program = ["echo".into(), r#"{"result": 42}"#.into()];
        let cheat =
            Shop::open_blind(place, seller("cheat")?, MEAN, "0.01", modes, &program).await?;
        let buyer = place.buyer(&ann, |_| {})?;
        let (hand, eve) = (Hand::new(&ann, place).await?, Hand::new(&eve, place).await?);
        Ok(World {
            means,
            medians,
            words,
            cheat,
            ann,
            client,
            buyer,
            hand,
            eve,
            url,
            _node: node,
            folder,
        })
    }

    fn place(&self) -> Place<'_> {
        Place { node: &self.url, folder: self.folder.path() }
    }

    /// Ann's free money, in minor units.
    async fn free(&self) -> Result<i64> {
        let wallet = self.client.wallet().await?;
        let balance = wallet.balances.first().context("Ann has no money")?;
        Ok(balance.available.amount.minor())
    }

    /// Posts to the node, with no signature but the message's own.
    async fn post(&self, path: &str, body: &Value) -> Result<stage::Answer> {
        self.hand.post(&format!("{}{path}", self.url), body, None).await
    }
}

async fn own_escrow(client: &Client) -> Result<PaymentMode> {
    Ok(PaymentMode::PlatformEscrow(client.x402_rail().await?.escrow_provider))
}

/// One seller, one way to pay, up to a USDC.
fn order(shop: &Shop, capability: &str, params: Value, payment: PaymentChoice) -> HireOrder {
    let most = Amount::new(1_000_000).unwrap_or_default();
    HireOrder { agent: Some(shop.id()), payment, ..HireOrder::new(capability, params, most) }
}

/// A refusal of the node with this code, and nothing else.
fn refused<T>(result: Result<T, Error>, code: &str) -> Result<()> {
    match result {
        Err(Error::Problem { problem, .. }) if problem.code == code => Ok(()),
        Err(other) => bail!("expected {code}, not: {other}"),
        Ok(_) => bail!("expected {code}, and it was allowed"),
    }
}

/// What something cost.
fn cost(before: i64, after: i64, expected: i64) -> Result<()> {
    let cost = before - after;
    ensure!(cost == expected, "it cost {cost} minor units, not {expected}");
    Ok(())
}

pub async fn report() -> Result<Report> {
    let world = World::new().await?;
    let mut lines = hire_lines(&world).await;
    lines.extend(escrow_lines(&world).await);
    lines.extend(clarify_lines(&world).await);
    let reached = |levels: &[&str]| {
        lines.iter().filter(|line| levels.contains(&line.level)).all(|line| line.passed)
    };
    let levels = vec![
        (HIRE, reached(&[HIRE])),
        (ESCROW, reached(&[HIRE, ESCROW])),
        (CLARIFY, reached(&[HIRE, CLARIFY])),
    ];
    let (spec, name) = ("SHP, swarmwage/v0.3", "SHP");
    Ok(Report { spec, name, levels, lines, deviations: deviations() })
}

async fn hire_lines(world: &World) -> Vec<super::Line> {
    vec![
        line!(world, HIRE "2" "messages carry their version, and other major versions are rejected"
            => messages::the_callers_version_is_spoken_and_another_major_refused),
        line!(world, HIRE "4.1" "agents are lower-case addresses, and so are all references to them"
            => messages::agents_are_lower_case_addresses),
        line!(world, HIRE "4.4" "budget tokens cap what an agent spends"
            => budgets::no_hire_goes_beyond_its_budget),
        line!(world, HIRE "5.1" "names outside the taxonomy have the prefix custom."
            => registry::names_outside_the_taxonomy_need_custom),
        line!(world, HIRE "5.2" "standard capabilities publish schemas and have a check"
            => registry::every_capability_has_schemas_and_a_check),
        line!(world, HIRE "6.1" "search, with all of its filters"
            => registry::every_filter_counts),
        line!(world, HIRE "6.2" "what is found: listings and reputation"
            => registry::answers_carry_signed_listings_and_reputation),
        line!(world, HIRE "7.1" "a hire in one round trip, with the 402 before it"
            => hires::a_hire_is_asked_for_money_paid_and_answered),
        line!(world, HIRE "7.1" "payment is x402: clients that know nothing else are served"
            => hires::plain_x402_payments_of_both_versions_are_taken_once),
        line!(world, HIRE "7.2" "a hire on the seller's own time: 202, callback, GET /jobs"
            => jobs::a_job_is_called_back_and_can_be_asked_for),
        line!(world, HIRE "7.3.1" "a listing for each payment mode of a capability"
            => registry::a_capability_has_one_listing_for_each_mode),
        line!(world, HIRE "7.3.2" "direct settlement: what is paid is gone, garbage is disputed"
            => hires::direct_money_is_gone_and_garbage_is_disputed),
        line!(world, HIRE "8.1" "the buyer checks every result by the capability's function"
            => hires::the_buyers_own_check_decides),
        line!(world, HIRE "8.2" "listings name the version of the checks that they promise"
            => registry::listings_say_which_checks_they_promise),
        line!(world, HIRE "10" "JSON over HTTP, x402 and signed messages, no API keys"
            => messages::signatures_are_the_only_keys),
        line!(world, HIRE "11" "a first call can be free, once, and has its receipt"
            => hires::a_first_call_is_free_once),
        line!(world, HIRE "12" "hires are signed, and a nonce counts once"
            => hires::nothing_signed_can_be_used_again),
    ]
}

async fn escrow_lines(world: &World) -> Vec<super::Line> {
    vec![
        line!(world, ESCROW "7.3.3" "the buyer pays the escrow, which holds for the window"
            => escrow::money_waits_with_the_escrow_and_not_with_the_seller),
        line!(world, ESCROW "7.3.3" "all_passed: the buyer signs a release"
            => escrow::what_passes_is_released),
        line!(world, ESCROW "7.3.3" "a failed check: the buyer signs a refund, dispute = true"
            => escrow::what_fails_is_refunded_and_disputed),
        line!(world, ESCROW "7.3.3" "silence refunds"
            => escrow::silence_refunds),
        line!(world, ESCROW "7.3.1" "a custom escrow honours the same verbs"
            => custom_escrow::another_node_keeps_the_money),
        line!(world, ESCROW "7.3.1" "a custom escrow refunds what fails the buyer's check"
            => custom_escrow::another_node_gives_money_back),
        line!(world, ESCROW "7.3.1" "a custom escrow refunds by its own time-out"
            => custom_escrow::another_nodes_clock_gives_money_back),
    ]
}

async fn clarify_lines(world: &World) -> Vec<super::Line> {
    vec![
        line!(world, CLARIFY "7.5" "only listings that opt in are asked, standard ones never do"
            => clarify::only_listings_that_opt_in_are_asked),
        line!(world, CLARIFY "7.5" "no payment, no receipt"
            => clarify::asking_costs_nothing_and_leaves_no_receipt),
        line!(world, CLARIFY "7.5.1" "a brief has at most 2 KB"
            => clarify::a_brief_has_two_kilobytes),
        line!(world, CLARIFY "7.5.2" "a quote is honoured; unknown, changed and late ones are 409"
            => clarify::a_quote_is_honoured_for_what_it_is),
        line!(world, CLARIFY "7.5.3" "a counter has at most 3 options, and a pause of 30 s follows"
            => clarify::a_counter_has_at_most_three_options),
        line!(world, CLARIFY "7.5.4" "a decline has no token"
            => clarify::a_decline_has_no_token),
        line!(world, CLARIFY "7.5.5" "search finds those that can be asked"
            => clarify::search_finds_those_that_can_be_asked),
        line!(world, CLARIFY "7.5.6" "whoever asks and never hires is stopped"
            => clarify::eleven_questions_a_day_are_too_many),
    ]
}

fn deviations() -> Vec<Deviation> {
    let deviation = |clause, deviation| Deviation { clause, deviation };
    vec![
        deviation(
            "7.1",
            "the X-402-* headers of the text exist in no version of x402: they are sent beside \
            real x402, version 2 in headers and version 1 in the body of one and the same 402",
        ),
        deviation(
            "7.1",
            "rating_token is null in a seller's answer: a seller could make one up, so the \
            registry gives it when the buyer counter-signs the receipt",
        ),
        deviation(
            "7.1, 9.1",
            "receipts carry both signatures: the seller's, and the buyer's over what its own \
            check found; the seller's word alone counts as not verified by the buyer",
        ),
        deviation("6", "a listing needs issued_at: an older one never replaces a later one"),
        deviation(
            "6.2",
            "what is not known (a success rate without hires, stars, a tier) is null and passes \
            no minimum; listings carry their signature, and `alive` and `ranking` beside it",
        ),
        deviation(
            "7.1, 12",
            "a hire names its seller and its time as well; its payment's nonce is derived from \
            it, so that a payment is good for one hire only",
        ),
        deviation(
            "7.1",
            "plain x402 clients sign no hire: they are known by their payment, have no free call \
            and no budget, and their receipts say that the buyer has not verified",
        ),
        deviation(
            "11",
            "free calls are for signed hires only, once for each buyer and listing, with a limit \
            for each day, and are remembered over restarts",
        ),
        deviation(
            "4.4",
            "budget tokens name their issuer and have a nonce; the node counts, so that parallel \
            hires at several sellers stay within the budget together",
        ),
        deviation(
            "7.3.3",
            "a refund by the buyer, or by its silence, happens whatever anybody else finds in the \
            result, as the spec wants it; the platform then runs the check itself, and what passes \
            there does not count against the seller but is counted for the buyer to be seen by",
        ),
        deviation(
            "5.1",
            "data.scrape.{url}.json: a URL does not fit into a name, so that it is a parameter \
            (data.scrape.json)",
        ),
        deviation(
            "2",
            "v0.1 to v0.3 are answered in the caller's own version; v0.4 only for clarification \
            and for hires with a quote",
        ),
        deviation("10", "plain HTTP is served on loopback, or behind a proxy that ends TLS, only"),
        deviation(
            "4.2, 4.3, 4.5, 8.3, 9, 10",
            "not there yet: claims, tiers, clusters, audits, ratings, and the live feed",
        ),
    ]
}
