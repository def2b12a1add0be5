//! 6: finding sellers.

use skep_base::id::ListingId;
use skep_hire::{
    capability,
    listing::version_number,
    rank::RANKED_BY,
    terms::{self, QUERY_WORDS_MAX, WORD_BYTES_MAX, WORD_LEN_MIN},
};
use skep_store::{ListingFilter, ListingPlace, ModeFilter};
use skep_wire::hire::{
    Match, PaymentMode, SEARCH_LIMIT_DEFAULT, SEARCH_LIMIT_MAX, Search, SearchAnswer,
};

use super::HireRefusal;
use crate::{Failure, Market, Refusal};

/// Capabilities that are named where nothing was found.
const OFFERED_MAX: usize = 20;
/// Capabilities that are counted where nothing was found; there may be more.
const CAPABILITIES_COUNTED_MAX: usize = 1000;
/// The longest capability, and the longest question, in bytes.
const CAPABILITY_LEN_MAX: usize = 128;
const QUERY_LEN_MAX: usize = 400;

/// Where a page ended, for whoever asks for the next one.
pub(super) fn cursor(place: &ListingPlace) -> String {
    format!("{}.{}", place.rank, place.id)
}

pub(super) fn parse_cursor(text: &str) -> Result<ListingPlace, Refusal> {
    let parsed = text.split_once('.').and_then(|(rank, id)| {
        let id: ListingId = id.parse().ok()?;
        Some(ListingPlace { rank: rank.parse().ok()?, id: id.to_string() })
    });
    parsed.ok_or(Refusal::MalformedCursor)
}

fn bad(detail: impl Into<String>) -> HireRefusal {
    HireRefusal::BadSearch { detail: detail.into() }
}

impl Market {
    /// Finds listings, best first. A page may be short, or empty, and still have a next one.
    pub async fn search(&self, search: Search) -> Result<SearchAnswer, Failure> {
        let limit = search.limit.unwrap_or(SEARCH_LIMIT_DEFAULT);
        if !(1..=SEARCH_LIMIT_MAX).contains(&limit) {
            return Err(bad(format!("limit is 1 to {SEARCH_LIMIT_MAX}")).into());
        }
        let after = search.cursor.as_deref().map(parse_cursor).transpose()?;
        let first_page = after.is_none();
        let terms = asked_terms(&search)?;
        let mut filter = filter(&search)?;
        let now = self.store.now().await?;
        filter.standard_min = Some(capability::oldest_version(now)).filter(|least| *least > 0);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (ids, next) = match wants_unknown(&search) {
            true => (Vec::new(), None),
            false => self.look(terms, filter, after, limit).await?,
        };
        let next_cursor = next.as_ref().map(cursor);
        let mut answer = SearchAnswer {
            agents: self.show_found(ids.iter().map(String::as_str), now).await?,
            next_cursor,
            matching: search.matching,
            ranked_by: RANKED_BY.to_owned(),
            available_capabilities: None,
            total_distinct_capabilities: None,
        };
        if answer.agents.is_empty() && answer.next_cursor.is_none() && first_page {
            let found =
                self.store.listing_terms(terms::CAPABILITY, CAPABILITIES_COUNTED_MAX).await?;
            let names = found.iter().filter_map(|term| term.strip_prefix(terms::CAPABILITY));
            let names: Vec<&str> = names.collect();
            answer.total_distinct_capabilities = u64::try_from(names.len()).ok();
            let wanted = search.capability.unwrap_or_default();
            answer.available_capabilities = Some(nearest(&wanted, names));
        }
        Ok(answer)
    }

    /// Ids of the listings that are found, and where they end.
    async fn look(
        &self,
        mut terms: Vec<String>,
        filter: ListingFilter,
        after: Option<ListingPlace>,
        limit: usize,
    ) -> Result<(Vec<String>, Option<ListingPlace>), Failure> {
        if terms.len() != 1 || filter != ListingFilter::default() {
            let page = self.store.search_listings(terms, filter, after, limit).await?;
            return Ok((page.rows.into_iter().map(|row| row.id).collect(), page.next));
        }
        // Nothing but its place decides about a listing, and its row is not read.
        let term = terms.remove(0);
        let mut places = self.store.listing_places(term, after, limit + 1).await?;
        let more = places.len() > limit;
        places.truncate(limit);
        let next = places.last().filter(|_| more).cloned();
        Ok((places.into_iter().map(|place| place.id).collect(), next))
    }
}

/// Ratings and tiers are not known yet, and what is not known passes no minimum.
fn wants_unknown(search: &Search) -> bool {
    search.min_avg_stars.is_some_and(|least| least > 0.0)
        || search.min_trust_tier.is_some_and(|least| least > 0)
}

fn asked_terms(search: &Search) -> Result<Vec<String>, HireRefusal> {
    let mut asked = Vec::new();
    if let Some(capability) = &search.capability {
        if capability.is_empty() || capability.len() > CAPABILITY_LEN_MAX {
            return Err(bad(format!("a capability has 1 to {CAPABILITY_LEN_MAX} bytes")));
        }
        // No name has others, and not every database takes every character.
        let named = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
        if !capability.bytes().all(named) {
            return Err(bad("a capability has lower-case letters, digits, '.', '_' and '-'"));
        }
        asked.push(match search.matching {
            Match::Exact => terms::capability_term(capability),
            Match::Prefix => terms::prefix_term(capability.trim_end_matches('.')),
        });
    }
    if let Some(query) = &search.query {
        if query.len() > QUERY_LEN_MAX {
            return Err(bad(format!("a query has at most {QUERY_LEN_MAX} bytes")));
        }
        let words = terms::words(query);
        if words.is_empty() || words.len() > QUERY_WORDS_MAX {
            return Err(bad(format!(
                "a query has 1 to {QUERY_WORDS_MAX} words, each of at least {WORD_LEN_MIN} \
                 characters and at most {WORD_BYTES_MAX} bytes"
            )));
        }
        asked.extend(words.iter().map(|word| terms::word_term(word)));
    }
    asked.extend(search.agent_id.as_ref().map(terms::agent_term));
    asked.extend(search.benchmark.and_then(terms::benchmark_term).map(str::to_owned));
    if asked.is_empty() {
        asked.push(terms::ALL.to_owned());
    }
    Ok(asked)
}

fn filter(search: &Search) -> Result<ListingFilter, HireRefusal> {
    let mode = match search.payment_mode.as_deref() {
        None => None,
        Some(kind @ ("platform_escrow:*" | "custom_escrow:*")) => {
            Some(ModeFilter::BeginsWith(kind.trim_end_matches('*').to_owned()))
        }
        Some(mode) => {
            let mode: PaymentMode = mode.parse().map_err(|e| bad(format!("{e}")))?;
            Some(ModeFilter::Exactly(mode.to_string()))
        }
    };
    let verification_min = match search.min_verification_version.as_deref() {
        None => None,
        Some(version) => Some(version_number(version).ok_or_else(|| {
            bad("min_verification_version is v0, v1 or one that comes after them")
        })?),
    };
    let success_bps_min = match search.min_success_rate {
        None => None,
        Some(rate @ 0.0..=1.0) => Some((rate * 10_000.0).ceil() as i64).filter(|bps| *bps > 0),
        Some(_) => return Err(bad("min_success_rate is 0 to 1")),
    };
    let is_prefix = search.matching == Match::Prefix;
    Ok(ListingFilter {
        capability_prefix: search
            .capability
            .as_ref()
            // A term says the same of as many words as it has.
            .filter(|prefix| is_prefix && prefix.split('.').count() > terms::PREFIXES_MAX)
            .map(|prefix| prefix.trim_end_matches('.').to_owned()),
        price_max: search.max_price_usdc.as_ref().map(|price| price.amount().minor()),
        latency_ms_max: search.max_latency_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)),
        success_bps_min,
        verification_min,
        mode,
        clarifies: search.clarification_supported,
        audited: search.audit_participating,
        first_free: search.first_call_free,
        standard_min: None,
    })
}

/// Those that have the most of the wanted name's first words, then by name.
fn nearest(wanted: &str, mut names: Vec<&str>) -> Vec<String> {
    let shared = |name: &str| {
        name.split('.').zip(wanted.split('.')).take_while(|(one, other)| one == other).count()
    };
    // The sort keeps equal ones in the order of their names.
    names.sort_by_key(|name| std::cmp::Reverse(shared(name)));
    names.into_iter().take(OFFERED_MAX).map(str::to_owned).collect()
}
