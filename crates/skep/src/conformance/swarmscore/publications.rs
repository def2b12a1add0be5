//! 5, 7 and 8.2: what is counted, and what is published of it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use skep_market::{Known, check_score};
use skep_score::verify::Source;
use skep_wire::score::{
    HEADER_EFFECTIVE_MODIFIER, HEADER_MODIFIER, HEADER_SCORE, HEADER_TIER, Publication,
    VerifyAnswer, VerifyLevel,
};

use super::{DEALS, SESSIONS, World, problem};

/// 7.1 and 7.2.
const FIELDS: [&str; 22] = [
    "/swarmscore_version",
    "/agent_passport_id",
    "/issuer/platform",
    "/issuer/platform_url",
    "/issuer/computed_at",
    "/issuer/kid",
    "/issuer/signature",
    "/score/value",
    "/score/tier",
    "/score/conduit_contribution",
    "/score/ap2_contribution",
    "/dimensions/technical_execution/conduit_sessions_90d",
    "/dimensions/technical_execution/verified_proof_count",
    "/dimensions/commercial_reliability/ap2_sessions_90d",
    "/dimensions/commercial_reliability/total_escrow_released_cents",
    "/gates/atep_tier",
    "/gates/disputed_sessions_active",
    "/escrow/modifier",
    "/benchmark/status",
    "/benchmark/streak_days",
    "/evidence/proof_chain_root",
    "/valid_until",
];

impl World {
    /// Score, tier, and both modifiers, by the headers; they are those of the publication.
    pub(super) async fn headers(&self) -> Result<[String; 4]> {
        let url = format!("{}/v1/swarmscore/{}", self.home.url, self.provider.id());
        let answer = self.hand.get(&url).await?;
        let names = [HEADER_SCORE, HEADER_TIER, HEADER_MODIFIER, HEADER_EFFECTIVE_MODIFIER];
        let said = names.map(|name| answer.header(name).to_owned());
        let body = &answer.body;
        let score: u64 = said[0].parse()?;
        ensure!(body["score"]["value"] == score, "{said:?}");
        ensure!(body["score"]["tier"] == said[1], "{said:?}");
        for (said, field) in said[2..].iter().zip(["modifier", "effective_modifier"]) {
            let modifier: f64 = said.parse()?;
            ensure!(body["escrow"][field].as_f64() == Some(modifier), "{field}: {said}");
        }
        Ok(said)
    }

    /// Checks Ben's publication as a stranger would, so much later.
    async fn check(&self, later: Duration) -> Result<(Publication, VerifyAnswer)> {
        let (said, read) = (self.signed().await?, self.publication().await?);
        let keys = self.ann.score_keys().await?;
        let source = Source { keys: &keys, host: Some(self.home.name()) };
        let at = read.issuer.computed_at.plus(later);
        let answer = check_score(&said, None, Known::issuer(&source), at);
        Ok((read, answer))
    }
}

pub(super) async fn the_numbers_are_those_of_what_was_done(world: &World) -> Result<String> {
    let before = world.publication().await?;
    // Called off by the requester, and so nobody's success or failure.
    world.hold(&world.ben).await?;
    let after = world.publication().await?;
    let counts = |publication: &Publication| {
        let dimensions = &publication.dimensions;
        let technical = &dimensions.technical_execution;
        let commercial = &dimensions.commercial_reliability;
        [
            technical.conduit_sessions_90d,
            technical.conduit_successful_90d,
            technical.verified_proof_count,
            commercial.ap2_sessions_90d,
            commercial.ap2_successful_90d,
        ]
    };
    let [sessions, deals] = [SESSIONS as u64, DEALS as u64];
    let done = [sessions, sessions, sessions, deals, deals];
    ensure!(counts(&before) == done, "{:?}", before.dimensions);
    ensure!(counts(&after) == done, "a cancellation was counted: {:?}", after.dimensions);
    Ok(format!("{DEALS} escrows, {SESSIONS} sessions with proof; a cancelled deal left no trace"))
}

pub(super) async fn every_field_is_there_and_signed(world: &World) -> Result<String> {
    let said = world.signed().await?;
    for field in FIELDS {
        said.pointer(field).with_context(|| format!("{field} is not there"))?;
    }
    let (read, answer) = world.check(Duration::ZERO).await?;
    ensure!(answer.level == Some(VerifyLevel::L2), "{:?}", answer.failed_checks);
    ensure!(answer.signature_valid && answer.matches, "{answer:?}");
    Ok(format!("{} {}, signed by {}", read.score.value, read.score.tier.as_str(), read.issuer.kid))
}

pub(super) async fn headers_repeat_it(world: &World) -> Result<String> {
    Ok(world.headers().await?.join(", "))
}

pub(super) async fn it_holds_for_a_day(world: &World) -> Result<String> {
    const HOUR: Duration = Duration::from_secs(3600);
    let (read, in_time) = world.check(23 * HOUR).await?;
    ensure!(in_time.verified, "{:?}", in_time.failed_checks);
    let (_, late) = world.check(25 * HOUR).await?;
    ensure!(!late.verified, "it holds for more than a day");
    let failed = late.failed_checks.first().context("nothing failed")?;
    Ok(format!("until {}; later: {:?} {}", read.valid_until, failed.level, failed.check))
}

pub(super) async fn a_newcomer_is_seen_by_itself_only(world: &World) -> Result<String> {
    let noa = world.newcomer.id().to_string();
    let hidden = problem(world.ann.publication(&noa).await, "score_not_published")?;
    let own = world.noa.score(&noa).await?;
    ensure!(!own.published, "it says that others see it");
    Ok(format!("to others: {}; to itself: {}", hidden.title, own.publication.signal))
}
