//! What is for sale, as x402's discovery lists show it: the listings that are paid directly.

use serde_json::{Map, json};
use skep_base::AgentId;
use skep_hire::bazaar;
use skep_wire::{
    hire::{Found, PaymentMode, SEARCH_LIMIT_MAX, Search},
    x402::{
        BAZAAR, DiscoveredResource, Discovery, EXACT, Pagination, Rail, Resource, V1_NETWORK,
        ledger_network,
    },
};

use crate::{Failure, Market};

/// How far a list can be skipped through: beyond it, search.
pub const DISCOVERY_OFFSET_MAX: u64 = 1000;
/// Searches that one answer makes at the most: each looks at a bounded part of the index.
const LOOKS_MAX: usize = 5;
/// How long a payment is asked to be good for besides the work itself, in seconds.
const TIMEOUT_EXTRA_S: u64 = 60;

/// Which resources are wanted.
#[derive(Clone, Debug, Default)]
pub struct ResourceFilter {
    /// `http` is the only one.
    pub kind: Option<String>,
    pub pay_to: Option<AgentId>,
    pub scheme: Option<String>,
    pub network: Option<String>,
}

impl ResourceFilter {
    /// Whether anything here can match.
    fn can_match(&self) -> bool {
        let is = |given: &Option<String>, known: &[&str]| {
            given.as_ref().is_none_or(|given| known.contains(&given.as_str()))
        };
        is(&self.kind, &["http"])
            && is(&self.scheme, &[EXACT])
            && is(&self.network, &[&ledger_network(), V1_NETWORK])
    }
}

impl Market {
    /// `GET /x402/discovery/search`
    pub async fn x402_search(
        &self,
        query: Option<String>,
        limit: u32,
        cursor: Option<String>,
    ) -> Result<Discovery, Failure> {
        let answer = self.search(direct(query, limit, cursor)).await?;
        let rail = self.rail();
        let found = answer.agents.into_iter().map(|found| resource(&rail, found));
        let cursor = answer.next_cursor;
        Ok(Discovery {
            x402_version: 2,
            resources: Some(found.collect()),
            partial_results: Some(cursor.is_some()),
            pagination: Some(Pagination { limit: limit.into(), cursor, ..Pagination::default() }),
            ..Discovery::default()
        })
    }

    /// `GET /x402/discovery/resources`
    pub async fn x402_resources(
        &self,
        filter: &ResourceFilter,
        limit: u32,
        offset: u64,
    ) -> Result<Discovery, Failure> {
        let (rail, offset) = (self.rail(), offset.min(DISCOVERY_OFFSET_MAX));
        let (mut items, mut seen, mut cursor) = (Vec::new(), 0_u64, None);
        let most = limit as usize;
        let seller = match filter.pay_to {
            Some(payee) => self.paid_at(payee).await?,
            None => None,
        };
        let mut more = filter.can_match() && (filter.pay_to.is_none() || seller.is_some());
        let mut looks = 0;
        while more && items.len() < most && looks < LOOKS_MAX {
            looks += 1;
            let mut search = direct(None, SEARCH_LIMIT_MAX, cursor.take());
            search.agent_id = seller;
            let page = self.search(search).await?;
            for found in page.agents {
                let theirs = filter.pay_to.is_none_or(|payee| found.listing.payee() == payee);
                if !theirs {
                    continue;
                }
                seen += 1;
                if seen > offset && items.len() < most {
                    items.push(resource(&rail, found));
                }
            }
            more = page.next_cursor.is_some();
            cursor = page.next_cursor;
        }
        // How many there are is known once the end was seen.
        let total = (!more).then_some(seen);
        let (limit, offset) = (limit.into(), Some(offset));
        let pagination = Pagination { limit, offset, total, cursor: None };
        Ok(Discovery {
            x402_version: 2,
            items: Some(items),
            pagination: Some(pagination),
            ..Discovery::default()
        })
    }

    /// Whose listings are paid at this address; nobody's if that is not one agent.
    async fn paid_at(&self, payee: AgentId) -> Result<Option<AgentId>, Failure> {
        match self.agent_paid_at(payee).await {
            Ok(agent) => Ok(Some(agent)),
            Err(Failure::Refused(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

fn direct(query: Option<String>, limit: u32, cursor: Option<String>) -> Search {
    Search {
        query,
        payment_mode: Some(PaymentMode::Direct.to_string()),
        limit: Some(limit),
        cursor,
        ..Search::default()
    }
}

fn resource(rail: &Rail, found: Found) -> DiscoveredResource {
    let Found { listing, listing_id, .. } = &found;
    let url = format!("{}/hire", listing.endpoint.trim_end_matches('/'));
    let timeout_s = listing.max_latency_ms / 1000 + TIMEOUT_EXTRA_S;
    let v2 = rail.requirements(listing.price_usdc.amount(), listing.payee(), timeout_s);
    let sold = Resource {
        url: url.clone(),
        description: listing.description.clone(),
        mime_type: Some("application/json".to_owned()),
    };
    let v1 = rail.requirements_v1(&v2, &sold);
    let accepts = [serde_json::to_value(v2), serde_json::to_value(v1)];
    let updated = listing.issued_at.or(found.checked_at);
    let bazaar = bazaar::block_of(&listing.capability, listing.verification_version.as_deref());
    DiscoveredResource {
        resource: url,
        kind: "http".to_owned(),
        x402_version: 2,
        accepts: accepts.into_iter().flatten().collect(),
        last_updated: updated.map(|at| at.to_string()).unwrap_or_default(),
        metadata: json!({
            "agent_id": listing.agent_id,
            "listing_id": listing_id,
            "capability": listing.capability,
            "description": listing.description,
            "first_call_free": listing.first_call_free,
            "reputation": found.reputation,
        }),
        extensions: Map::from_iter([(BAZAAR.to_owned(), bazaar)]),
    }
}
