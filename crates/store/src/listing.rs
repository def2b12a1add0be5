//! What search knows of listings: one row for each, and the terms that it is found by.
//!
//! A search walks the rarest of its terms, best listing first, and looks at a bounded number of
//! rows: what it costs does not depend on how many listings there are.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use skep_base::Timestamp;

/// Listings that one search looks at before it answers with what it has and a cursor.
pub const LISTINGS_SCANNED_MAX: usize = 2000;
/// How far a term's listings are counted to see which term is the rarest.
pub(crate) const COUNTED_MAX: i64 = 1001;

/// How many listings have a term, as far as they are counted, and how far down the order the last
/// of these is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) found: i64,
    pub(crate) place: i64,
}

impl Counted {
    /// Which of the terms the fewest listings have. Of those that have more than are counted, the
    /// one whose listings lie furthest apart.
    pub(crate) fn rarest(terms: &[Counted]) -> Option<usize> {
        let key = |index: &usize| (terms[*index].found, Reverse(terms[*index].place));
        (0..terms.len()).min_by_key(key)
    }
}
/// Rows looked at first where other terms are wanted, too: not all of them will have these. Each
/// further look takes four times as many.
const FIRST_LOOK: usize = 64;
/// Payloads that are forgotten at once: they may be large.
pub(crate) const PAYLOADS_DROPPED: usize = 16;

/// A listing as search sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingRow {
    pub id: String,
    pub agent_id: String,
    pub payee: String,
    pub capability: String,
    pub payment_mode: String,
    /// Higher comes first.
    pub rank: i64,
    /// In minor units.
    pub price: i64,
    pub max_latency_ms: i64,
    /// 0 for `v0`.
    pub verification: i64,
    pub clarifies: bool,
    pub audited: bool,
    pub first_free: bool,
    /// In 1/10000; unknown as long as nobody has judged.
    pub success_bps: Option<i64>,
}

/// A row with what it is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    pub row: ListingRow,
    pub terms: BTreeSet<String>,
}

/// Sealed bytes of a hire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub receipt_id: String,
    pub sealed: Vec<u8>,
    pub expires_at: Timestamp,
}

/// Which payment modes are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModeFilter {
    Exactly(String),
    BeginsWith(String),
}

/// What a listing must be, besides having the terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingFilter {
    /// The capability, or the first of its words.
    pub capability_prefix: Option<String>,
    pub price_max: Option<i64>,
    pub latency_ms_max: Option<i64>,
    pub success_bps_min: Option<i64>,
    pub verification_min: Option<i64>,
    pub mode: Option<ModeFilter>,
    pub clarifies: Option<bool>,
    pub audited: Option<bool>,
    pub first_free: Option<bool>,
    /// Of what has a version that everybody knows; `custom.` ones have their own.
    pub standard_min: Option<i64>,
}

impl ListingFilter {
    /// What is not known passes no minimum.
    pub(crate) fn passes(&self, row: &ListingRow) -> bool {
        let is = |wanted: Option<bool>, known: bool| wanted.is_none_or(|wanted| wanted == known);
        let mode = match &self.mode {
            None => true,
            Some(ModeFilter::Exactly(mode)) => row.payment_mode == *mode,
            Some(ModeFilter::BeginsWith(begin)) => row.payment_mode.starts_with(begin),
        };
        let prefix = self.capability_prefix.as_ref().is_none_or(|prefix| {
            let rest = row.capability.strip_prefix(prefix.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        let successful = self
            .success_bps_min
            .is_none_or(|least| row.success_bps.is_some_and(|known| known >= least));
        mode && prefix
            && successful
            && self.price_max.is_none_or(|most| row.price <= most)
            && self.latency_ms_max.is_none_or(|most| row.max_latency_ms <= most)
            && self.verification_min.is_none_or(|least| row.verification >= least)
            && (row.capability.starts_with("custom.")
                || self.standard_min.is_none_or(|least| row.verification >= least))
            && is(self.clarifies, row.clarifies)
            && is(self.audited, row.audited)
            && is(self.first_free, row.first_free)
    }
}

/// Where a page ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingPlace {
    pub rank: i64,
    pub id: String,
}

/// What a search found. There may be more behind `next` even if the page is short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingPage {
    pub rows: Vec<ListingRow>,
    pub next: Option<ListingPlace>,
}

/// The place of a rank in the index: the best first.
pub(crate) fn place(rank: i64) -> i64 {
    rank.saturating_neg()
}

/// After which entry of a term's to look.
pub(crate) fn begin(after: Option<ListingPlace>) -> (i64, String) {
    after.map_or((i64::MIN, String::new()), |at| (place(at.rank), at.id))
}

/// An entry of a term's.
pub(crate) fn entry(place: i64, id: String) -> ListingPlace {
    ListingPlace { rank: place.saturating_neg(), id }
}

/// A search on its way along a term.
#[derive(Debug)]
pub(crate) struct Walk {
    filter: ListingFilter,
    limit: usize,
    others: usize,
    scanned: usize,
    look: usize,
    after: (i64, String),
    page: ListingPage,
    over: bool,
}

impl Walk {
    /// `others`: how many terms are wanted besides the one that is walked.
    pub(crate) fn new(
        filter: ListingFilter,
        others: usize,
        after: Option<ListingPlace>,
        limit: usize,
    ) -> Walk {
        let after = begin(after);
        let page = ListingPage::default();
        // Each row lies in a page of its own: no more are read than a page of answers needs.
        let look = if others == 0 { limit.saturating_add(1) } else { FIRST_LOOK };
        Walk { filter, limit, others, scanned: 0, look, after, page, over: false }
    }

    /// After which place to look next, and at how many rows; nothing when the page is done.
    pub(crate) fn next_look(&self) -> Option<(i64, &str, i64)> {
        let rows = self.look.min(LISTINGS_SCANNED_MAX - self.scanned);
        (!self.over && rows > 0).then_some((self.after.0, self.after.1.as_str(), rows as i64))
    }

    /// Takes what a look showed: rows in order, each with how many of the other terms it has.
    pub(crate) fn take(&mut self, rows: Vec<(ListingRow, i64)>) {
        let asked = self.look.min(LISTINGS_SCANNED_MAX - self.scanned);
        self.look *= 4;
        let found_all = rows.len() < asked;
        for (row, has) in rows {
            if self.page.rows.len() == self.limit {
                // One more is there or may be: the page ends at its last row.
                self.page.next = self.page.rows.last().map(end_of);
                self.over = true;
                return;
            }
            self.scanned += 1;
            self.after = (place(row.rank), row.id.clone());
            if usize::try_from(has) == Ok(self.others) && self.filter.passes(&row) {
                self.page.rows.push(row);
            }
        }
        if found_all {
            self.over = true;
        } else if self.page.rows.len() == self.limit || self.scanned >= LISTINGS_SCANNED_MAX {
            let (place, id) = self.after.clone();
            self.page.next = Some(entry(place, id));
            self.over = true;
        }
    }

    pub(crate) fn page(self) -> ListingPage {
        self.page
    }
}

fn end_of(row: &ListingRow) -> ListingPlace {
    ListingPlace { rank: row.rank, id: row.id.clone() }
}

/// What a turn, or a whole group, does to the index: for each listing how it was found before all
/// of it and how it is found after.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListingChanges(BTreeMap<String, (Option<Indexed>, Option<Indexed>)>);

/// An entry of the index: term, place, listing.
pub(crate) type TermEntry = (String, i64, String);

impl ListingChanges {
    pub(crate) fn change(&mut self, before: Option<Indexed>, after: Option<Indexed>) {
        let Some(id) = after.as_ref().or(before.as_ref()).map(|indexed| indexed.row.id.clone())
        else {
            return;
        };
        self.0.entry(id).or_insert((before, None)).1 = after;
    }

    /// Adds what came after.
    pub(crate) fn extend(&mut self, later: ListingChanges) {
        for (before, after) in later.0.into_values() {
            self.change(before, after);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn rows(&self) -> Vec<&ListingRow> {
        self.0.values().filter_map(|(_, after)| after.as_ref().map(|a| &a.row)).collect()
    }

    /// Ids of those that are not found any more.
    pub(crate) fn gone(&self) -> Vec<&String> {
        self.0.iter().filter(|(_, (_, after))| after.is_none()).map(|(id, _)| id).collect()
    }

    /// Entries to be taken out of the index and, after that, those to be put in.
    pub(crate) fn terms(&self) -> (Vec<TermEntry>, Vec<TermEntry>) {
        let (mut out, mut new) = (Vec::new(), Vec::new());
        for (before, after) in self.0.values() {
            let (old, fresh) = (entries(before.as_ref()), entries(after.as_ref()));
            out.extend(old.difference(&fresh).cloned());
            new.extend(fresh.difference(&old).cloned());
        }
        (out, new)
    }
}

fn entries(indexed: Option<&Indexed>) -> BTreeSet<TermEntry> {
    let Some(Indexed { row, terms }) = indexed else { return BTreeSet::new() };
    terms.iter().map(|term| (term.clone(), place(row.rank), row.id.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_terms_that_many_have_the_one_that_is_spread_out_is_the_rarest() {
        let counted = |found, place| Counted { found, place };
        let rarest = |terms: &[Counted]| Counted::rarest(terms);
        assert_eq!(rarest(&[counted(1001, -500), counted(1001, -90), counted(1001, -95)]), Some(1));
        assert_eq!(rarest(&[counted(1001, -5), counted(7, -900)]), Some(1));
        assert_eq!(rarest(&[counted(0, 0), counted(7, -900)]), Some(0));
        assert_eq!(rarest(&[]), None);
    }
}
