//! What a track record is worth where money is at stake (decisions 8 and 11).

use skep_score::Track;
use skep_store::Turn;
use skep_wire::settle::{Standing, Tier};

use super::{Scored, base_of};
use crate::{Market, answer::Stop, deal::standing_key};

/// How a provider stands.
#[derive(Clone, Debug)]
pub(crate) struct Esteem {
    pub(crate) standing: Standing,
    /// An operator of a test has said so; the score is not asked.
    pub(crate) is_word: bool,
}

/// Whether an operator's word says more than a subscription.
fn says_all(word: &Standing) -> bool {
    let nothing = Standing::default();
    (word.modifier_e4, word.tier, word.subsidised)
        != (nothing.modifier_e4, nothing.tier, nothing.subsidised)
}

/// The tier of a track record, or the operator's word of a test.
pub(crate) fn tier_of(word: Option<&Standing>, tier: Tier) -> Tier {
    word.filter(|word| says_all(word)).map_or(tier, |word| word.tier)
}

impl Market {
    /// How an agent stands in a turn that loaded its track record and its standing.
    pub(crate) fn esteem(&self, turn: &Turn, who: Scored<'_>) -> Result<Esteem, Stop> {
        let word: Option<Standing> = turn.record(&standing_key(&who.agent))?;
        if let Some(word) = word.as_ref().filter(|word| says_all(word)) {
            return Ok(Esteem { standing: word.clone(), is_word: true });
        }
        let (track, base) = (self.track_of(turn, &who.agent)?, base_of(turn, &who.agent)?);
        let parameters = self.parameters();
        let around = who.around(self, turn, &base, &parameters)?;
        let modifiers = track.modifiers(&around);
        let standing = Standing {
            modifier_e4: modifiers.raw_e4,
            effective_e4: Some(modifiers.effective_e4),
            tier: track.tier,
            subscription: word.and_then(|word| word.subscription),
            subsidised: self.is_new(&track),
        };
        Ok(Esteem { standing, is_word: false })
    }

    /// Whether the platform fronts a part of this provider's next hold. Those under way count as
    /// settled, so that many at once are not more than so many; so does what was paid and made no
    /// score, so that nobody stays new by it.
    pub(crate) fn is_new(&self, track: &Track) -> bool {
        let unscored = u64::from(track.subsidies_open) + u64::from(track.subsidies_spent);
        let taken = track.totals.ap2.saturating_add(unscored);
        taken < u64::from(self.policy.subsidy.deals)
    }
}
