//! 10.1: what counts from elsewhere is what another platform has signed about this agent.

use serde::Deserialize as _;
use skep_wire::{
    score::{Publication, VerifyLevel},
    settle::Tier,
};

use super::{Source, evidence::Audit};
use crate::{import, publish::passport_id, track::WINDOW};

impl Audit<'_> {
    /// Which part of it counts, and after how many sessions, is the issuer's own agreement with
    /// that platform: it is stated, and the sums follow from it (L2).
    pub(super) fn imports(&mut self, origin: Option<&Source<'_>>) {
        let Some(with) = &self.read.with_imports else { return };
        self.coverage.imports_pinned = Some(origin.is_some());
        let Some(brought) = &self.said.imported else {
            return self.expect("imports.missing", false, "what was imported is not shown");
        };
        let read = match Publication::deserialize(&brought.publication) {
            Ok(read) => read,
            Err(e) => {
                let detail = e.to_string();
                return self.expect("imports.publication", false, &detail);
            }
        };
        let computed_at = read.issuer.computed_at;
        // It lives for a day and counts for longer: it is checked as of when it was made.
        let own = Source { keys: &brought.keys, host: Some(&with.platform) };
        let source = origin.unwrap_or(&own);
        let checked = super::publication(&brought.publication, Some(source), computed_at);
        for failed in checked.failed_checks {
            let detail = format!("{}: {}", failed.check, failed.detail);
            self.findings.fail(VerifyLevel::L3, "imports.publication", detail);
        }
        let from = &read.issuer.platform;
        let elsewhere = *from == with.platform && *from != self.read.issuer.platform;
        self.expect("imports.platform", elsewhere, "it is another platform's, or the issuer's own");
        let same = read.agent_passport_id == passport_id(&self.said.agent_id);
        self.expect("imports.agent", same, "it is not shown that it is the same agent's");
        let counts = import::counts(&read) == with.imported;
        self.expect("imports.counts", counts, "the platform has signed other numbers");
        let tier = with.atep_tier <= read.gates.atep_tier.min(Tier::Verified);
        self.expect("imports.atep_tier", tier, "the platform has signed a lower tier");
        let before = computed_at <= self.read.issuer.computed_at;
        self.expect("imports.computed_at", before, "it was computed later");
        let ends = with.ends_at == computed_at.plus(WINDOW);
        self.expect("imports.ends_at", ends, "it counts for 90 days from when it was computed");
    }
}
