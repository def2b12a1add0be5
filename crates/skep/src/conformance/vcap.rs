//! VCAP's checklist (12.2) and levels (12.1), run over HTTP against a node made for it.

mod machines;
mod messages;
mod proofs;

use anyhow::Result;
use skep_base::{Asset, Money};
use skep_sdk::Client;
use skep_testkit::process::Child;

use super::{Deviation, Report};
use crate::stage::{self, Actor, Looker};

const CORE: &str = "Core";
const VERIFIED: &str = "Verified";
const FULL: &str = "Full";

/// A node and everybody whom the checks need.
struct World {
    requester: Actor,
    provider: Actor,
    /// Answers only when a check says so; deals name it in their terms.
    verifier: Looker,
    reviewer: Looker,
    ann: Client,
    ben: Client,
    url: String,
    _node: Child,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Result<World> {
        let folder = tempfile::tempdir()?;
        let (verifier, reviewer) = (Looker::new("verifier")?, Looker::new("reviewer")?);
        let id = reviewer.id().to_string();
        let node = stage::node(folder.path(), &["--accredit", &id])?;
        let url = node.url().to_owned();
        let (requester, provider) = (Actor::new("requester")?, Actor::new("provider")?);
        let (ann, ben) = (requester.register(&url).await?, provider.register(&url).await?);
        verifier.register(&url, &["artifact"]).await?;
        reviewer.register(&url, &["human"]).await?;
        ann.faucet(Money::parse_decimal("1000", Asset::USDC)?).await?;
        Ok(World {
            requester,
            provider,
            verifier,
            reviewer,
            ann,
            ben,
            url,
            _node: node,
            _folder: folder,
        })
    }
}

pub async fn report() -> Result<Report> {
    let world = World::new().await?;
    let lines = vec![
        line!(world, CORE "3.1-3.7" "all seven message types are made and processed"
            => messages::all_seven_are_valid_by_their_published_schemas),
        line!(world, CORE "4.1" "the negotiation state machine"
            => machines::every_transition_of_a_negotiation),
        line!(world, CORE "4.2" "the escrow state machine with atomic CAS transitions"
            => machines::sixty_four_callers_settle_an_escrow_once),
        line!(world, CORE "4.3" "the verification state machine"
            => machines::every_transition_of_a_verification),
        line!(world, CORE "4.4" "the service agreement state machine"
            => machines::every_transition_of_an_agreement),
        line!(world, CORE "8.1" "delivery idempotency"
            => machines::a_second_delivery_gets_the_first_verification),
        line!(world, CORE "8.2" "escrow idempotency"
            => machines::a_settled_escrow_stays_settled),
        line!(world, CORE "8.3" "callback idempotency"
            => proofs::the_same_callback_counts_once),
        line!(world, VERIFIED "5.1" "proof_hash is the SHA-256 of the canonical bundle"
            => proofs::the_hash_is_recomputed_and_a_wrong_one_refused),
        line!(world, VERIFIED "5.2" "proof_signature binds the proof to its escrow"
            => proofs::forged_and_replayed_proofs_are_refused),
        line!(world, VERIFIED "9.4" "signatures are verified strictly"
            => proofs::weak_keys_and_second_spellings_are_refused),
        line!(world, VERIFIED "9.5" "proof_hash and proof_signature stand in settlement records"
            => proofs::settlements_carry_the_proof),
        line!(world, FULL "5.3" "hash-chained action logs"
            => proofs::a_changed_action_breaks_the_chain),
        line!(world, FULL "5.4" "agent identity binding"
            => proofs::a_foreign_identity_is_refused),
        line!(world, FULL "7.1-7.3" "time-outs go to a person, and money waits"
            => machines::a_time_out_moves_no_money_and_a_reviewer_decides),
    ];
    let reached = |levels: &[&str]| {
        lines.iter().filter(|line| levels.contains(&line.level)).all(|line| line.passed)
    };
    let levels = vec![
        (CORE, reached(&[CORE])),
        (VERIFIED, reached(&[CORE, VERIFIED])),
        (FULL, reached(&[CORE, VERIFIED, FULL])),
    ];
    let (spec, name) = ("VCAP, draft-stone-vcap-01", "VCAP");
    Ok(Report { spec, name, levels, lines, deviations: deviations() })
}

fn deviations() -> Vec<Deviation> {
    let deviation = |clause, deviation| Deviation { clause, deviation };
    vec![
        deviation(
            "9.1, 9.3",
            "no shared secrets (left over from draft -00): verifiers register \
            Ed25519 keys with a kid",
        ),
        deviation(
            "3.4, 6.3",
            "auto_approve by the provider alone is refused: the requester must \
            have agreed, the provider be TRUSTED, the price small, a day pass without objection",
        ),
        deviation("6.3", "a delivery's hints fill what the terms left open and never weaken them"),
        deviation(
            "4.4",
            "a deal with a dispute window refunds only after it; the default window \
            is 0, as the spec says",
        ),
        deviation(
            "7.1",
            "parties may agree on a review deadline, after which the requester is \
            refunded; an operator may set a default (review_deadline_s); release is never a \
            fall-back",
        ),
        deviation(
            "3.3",
            "amounts carry amount_minor beside the number; negotiation, escrow and \
            agreement of one deal share one UUID",
        ),
        deviation(
            "9.4",
            "instead of comparing shared secrets in constant time, Ed25519 signatures are verified \
            strictly: there is nothing secret to compare",
        ),
        deviation(
            "3.1, 11.1",
            "a requester's own negotiation_id is refused, and so are unknown fields of \
            metadata.skep; all other unknown fields are kept",
        ),
        deviation(
            "3.6",
            "a verdict without a bundle counts only from a verifier that registered as one that \
            gives none; where it points to its bundle, that is fetched and kept",
        ),
        deviation(
            "4.1-4.4",
            "added: an offer may be withdrawn, a verdict may come without an acknowledgement, \
            and a reviewer may divide the price",
        ),
        deviation("10.1", "a split says both parts, buyer_minor and seller_minor"),
        deviation("9.2", "plain HTTP is served on loopback, or behind a proxy that ends TLS, only"),
        deviation(
            "App. C",
            "an AIVS signature is never taken for a proof_signature: it binds no \
            escrow",
        ),
    ]
}
