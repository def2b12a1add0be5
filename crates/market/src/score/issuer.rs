//! Under which name and by which keys scores are published, and whose others are believed.

use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use skep_base::{
    AgentId, Timestamp,
    ed25519::{PublicKey, SecretKey},
    hash::sha256,
};
use skep_score::{import::is_key_url, publish::Platform, verify::host_of};
use skep_store::{Load, Lock, RecordKey};
use skep_wire::{
    score::{IssuerKey, KeyPurpose, KeySet, TrustRegistry, TrustedIssuer},
    settle::Verifier,
};

use super::{admin::trust_registry_key, publication::Published, refusal::ScoreRefusal};
use crate::{Failure, Market, deal::verifier_key};

/// How long a key is announced for; a node that still uses it announces it anew.
const KEY_ANNOUNCED: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// A key with less than this left is announced anew.
const KEY_LEFT_MIN: Duration = Duration::from_secs(5 * 365 * 24 * 3600);
/// Keys that are listed, at most: old ones go first.
const KEYS_MAX: usize = 1000;
/// How long another issuer's keys are used without being asked for again.
const FOREIGN_KEPT: Duration = Duration::from_secs(3600);
/// How long its host may take.
const FETCH_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest list of keys, in bytes.
const KEYS_LEN_MAX: usize = 256 * 1024;
/// Issuers whose keys are kept at one time.
const FOREIGN_MAX: usize = 1000;

/// What scores are published with.
#[derive(Debug)]
pub(crate) struct Office {
    pub(super) key: SecretKey,
    kid: String,
    place: OnceLock<Place>,
    pub(super) published: Published,
    /// By the address that they came from: what a stranger names changes nobody else's keys.
    foreign: Mutex<BTreeMap<String, (Timestamp, KeySet)>>,
    /// How many qualify, and whether these are too many, as it was a moment ago.
    pub(super) rate: Mutex<Option<(Timestamp, (f64, bool))>>,
}

#[derive(Debug)]
struct Place {
    platform: String,
    url: String,
}

impl Office {
    pub(crate) fn new(key: SecretKey) -> Office {
        let kid = score_kid(&key.public());
        Office {
            key,
            kid,
            place: OnceLock::new(),
            published: Published::default(),
            foreign: Mutex::default(),
            rate: Mutex::default(),
        }
    }
}

/// The name of a key that signs scores.
fn score_kid(key: &PublicKey) -> String {
    named("score", key)
}

fn named(purpose: &str, key: &PublicKey) -> String {
    let hash = sha256(key.as_bytes()).to_string();
    format!("{purpose}-{}", &hash[..16])
}

fn score_keys_key() -> RecordKey {
    RecordKey::own("score_keys", "score_keys")
}

impl Market {
    /// Signs scores and passports with a key of their own (decision 6).
    pub fn with_score_key(self, key: SecretKey) -> Market {
        Market { office: Office::new(key).into(), ..self }
    }

    /// Where others find this node. Said once, before anything is published.
    pub fn set_platform_url(&self, url: &str) {
        let url = url.trim_end_matches('/').to_owned();
        let platform = host_of(&url).unwrap_or_default().to_owned();
        // Whoever is later changes nothing: the first word may have been signed already.
        let _ = self.office.place.set(Place { platform, url });
    }

    pub(super) fn platform(&self) -> Platform<'_> {
        let place = self.office.place.get_or_init(|| Place {
            platform: self.marketplace.to_string(),
            url: format!("https://{}", self.marketplace),
        });
        Platform { platform: &place.platform, platform_url: &place.url, kid: &self.office.kid }
    }

    /// Says which verifier is the node's own: its verdicts are the node's word.
    pub fn with_own_verifier(self, agent: Option<AgentId>) -> Market {
        Market { own_verifier: agent, ..self }
    }

    /// The keys that this node signs with now, and since when they may have; all that its own
    /// verifier ever had, too.
    async fn own_keys(&self, now: Timestamp) -> Result<Vec<IssuerKey>, Failure> {
        let until = now.plus(KEY_ANNOUNCED);
        let office = self.office.key.public();
        let mut keys = vec![IssuerKey::ed25519(
            &self.office.kid,
            &office,
            KeyPurpose::Publication,
            (now, until),
        )];
        // The others were in use before anything was published.
        let beginning = Timestamp::from_ms(0);
        let settlement = self.settlement_key.public();
        let gateway = self.gateway.as_ref().and_then(|gateway| gateway.key());
        let others = [
            ("settlement", Some(settlement), KeyPurpose::Settlement),
            ("gateway", gateway, KeyPurpose::Gateway),
        ];
        for (name, key, purpose) in others {
            let Some(key) = key else { continue };
            keys.push(IssuerKey::ed25519(&named(name, &key), &key, purpose, (beginning, until)));
        }
        if let Some(agent) = &self.own_verifier {
            let verifier: Option<Verifier> = self.read(verifier_key(agent)).await?;
            for known in verifier.map(|known| known.keys).unwrap_or_default() {
                let valid = (beginning, until);
                let (kid, key) = (named("verifier", &known.public_key), known.public_key);
                keys.push(IssuerKey::ed25519(&kid, &key, KeyPurpose::Verifier, valid));
            }
        }
        Ok(keys)
    }

    /// Announces this node's keys, if they are not. Old ones stay, so that what they signed can be
    /// checked; scores of now are signed with the newest alone.
    pub async fn announce_score_keys(&self) -> Result<(), Failure> {
        let now = self.store.now().await?;
        let own = self.own_keys(now).await?;
        self.announce_keys(own, now).await
    }

    /// The same for keys that came later, like that of a gateway that was down when the node
    /// started. The one for scores is left alone: of two nodes that differ each would end the
    /// other's again and again.
    pub(crate) async fn announce_late_keys(&self) -> Result<(), Failure> {
        let now = self.store.now().await?;
        let mut own = self.own_keys(now).await?;
        own.retain(|key| key.purpose != KeyPurpose::Publication);
        self.announce_keys(own, now).await
    }

    async fn announce_keys(&self, own: Vec<IssuerKey>, now: Timestamp) -> Result<(), Failure> {
        let known: Option<KeySet> = self.read(score_keys_key()).await?;
        if is_announced(&known.unwrap_or_default(), &own, now) {
            return Ok(());
        }
        let key = score_keys_key();
        let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        let announced = self.run(load, vec![], move |turn| {
            let mut known: KeySet = turn.record(&key)?.unwrap_or_default();
            let own = own.clone();
            if !is_announced(&known, &own, turn.now()) {
                announce(&mut known, own, turn.now());
                let over = known.keys.len().saturating_sub(KEYS_MAX);
                known.keys.drain(..over);
                turn.put(&key, &known)?;
                turn.event(&key.route, "score.keys_announced", &known, &[])?;
            }
            Ok(())
        });
        announced.await?;
        Ok(())
    }

    /// All keys that scores, receipts and session proofs of this marketplace were ever signed with.
    pub async fn score_keys(&self) -> Result<KeySet, Failure> {
        let known: Option<KeySet> = self.read(score_keys_key()).await?;
        let mut known = known.unwrap_or_default();
        let now = self.store.now().await?;
        // A gateway says its key when the first session opens, which may be later.
        for own in self.own_keys(now).await? {
            if !known.keys.iter().any(|key| same(key, &own)) {
                known.keys.push(own);
            }
        }
        Ok(known)
    }

    /// Whose exports are taken (10.2).
    pub async fn trust_registry(&self) -> Result<TrustRegistry, Failure> {
        Ok(self.read(trust_registry_key()).await?.unwrap_or_default())
    }

    /// The keys of an issuer that is trusted: those that were given by hand, or else what its own
    /// host says. They are asked for again when one is missing or a while has passed.
    pub(super) async fn keys_of(
        &self,
        issuer: &TrustedIssuer,
        kid: &str,
    ) -> Result<KeySet, Failure> {
        match &issuer.keys {
            Some(keys) => Ok(keys.clone()),
            None => self.keys_at(&issuer.platform, &issuer.key_url, kid).await,
        }
    }

    /// The keys at an address, of this platform as far as the address is its own.
    pub(super) async fn keys_at(
        &self,
        platform: &str,
        key_url: &str,
        kid: &str,
    ) -> Result<KeySet, Failure> {
        let now = self.store.now().await?;
        {
            let kept = self.office.foreign.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = kept.get(key_url).filter(|(at, _)| now.since(*at) < FOREIGN_KEPT);
            if let Some((_, keys)) = fresh
                && keys.find(kid, KeyPurpose::Publication).is_some()
            {
                return Ok(keys.clone());
            }
        }
        let keys = self.fetch_keys(platform, key_url).await?;
        let mut kept = self.office.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= FOREIGN_MAX {
            kept.clear();
        }
        kept.insert(key_url.to_owned(), (now, keys.clone()));
        Ok(keys)
    }

    async fn fetch_keys(&self, platform: &str, key_url: &str) -> Result<KeySet, ScoreRefusal> {
        let unreachable = |detail: &str| ScoreRefusal::IssuerUnreachable {
            platform: platform.to_owned(),
            detail: detail.to_owned(),
        };
        if !is_key_url(key_url, self.dev) {
            return Err(unreachable("keys are only taken over https"));
        }
        let egress = self.egress.as_ref().ok_or_else(|| unreachable("no_egress"))?;
        let asked = egress.get_here(key_url.to_owned(), KEYS_LEN_MAX);
        let body = tokio::time::timeout(FETCH_TIME_MAX, asked).await;
        let body = body
            .map_err(|_| unreachable("it took too long"))?
            .map_err(|failure| unreachable(&failure.code))?;
        skep_base::json::from_slice(&body).map_err(|_| unreachable("its answer is no list of keys"))
    }
}

fn same(a: &IssuerKey, b: &IssuerKey) -> bool {
    a.kid == b.kid && a.purpose == b.purpose && a.key == b.key
}

/// Whether a newer key ends this one. Nodes share one key for scores. Gateways may be many at a
/// time, and receipts are dated by what they settle, however late a node learns of a new key.
fn is_replaced(known: &IssuerKey, own: &IssuerKey) -> bool {
    own.purpose == KeyPurpose::Publication && known.purpose == own.purpose && !same(known, own)
}

fn is_announced(known: &KeySet, own: &[IssuerKey], now: Timestamp) -> bool {
    let lasts = |key: &IssuerKey| key.valid_until.since(now) >= KEY_LEFT_MIN;
    own.iter().all(|own| {
        known.keys.iter().any(|key| same(key, own) && lasts(key))
            && !known.keys.iter().any(|key| is_replaced(key, own) && key.valid_until > now)
    })
}

/// What is known keeps its beginning.
fn announce(known: &mut KeySet, own: Vec<IssuerKey>, now: Timestamp) {
    for own in own {
        for key in known.keys.iter_mut().filter(|key| is_replaced(key, &own)) {
            key.valid_until = key.valid_until.min(now);
        }
        match known.keys.iter_mut().find(|key| same(key, &own)) {
            Some(key) => key.valid_until = key.valid_until.max(own.valid_until),
            None => known.keys.push(own),
        }
    }
}
