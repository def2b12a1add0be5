//! Keys that change while a node stays who it is (decisions 2, 42).

use skep_base::Did;
use skep_wire::swarm::{
    Check, Claim, ErrorCode, Evidence, Handshake, KeyChain, KeyLink, KnownKeys, Message, OpenError,
    OwnKeys, Signed, SignedAttestation,
};

use super::{Node, Output, Refusal, refuse, send};

/// Keepalives after a change with which everybody is told again, should some have missed it.
const TOLD_AGAIN: u32 = 3;
/// Afterwards neighbours hear of it with every so many keepalives: some were away.
const REMINDED_EVERY: u32 = 6;

impl Node {
    /// This node's agent has a new key. Whatever is signed from now on is signed by it, and this
    /// is what everybody hears first.
    pub(super) fn rotate(&mut self, link: KeyLink, out: &mut Vec<Output>) -> Result<(), Refusal> {
        let profile = &mut self.profile;
        let followed = KeyChain::follow(profile.key, &profile.key_chain);
        let added = followed.and_then(|mut chain| chain.add(link.clone()));
        if let Err(error) = added {
            return refuse(ErrorCode::InvalidSignature, error.to_string());
        }
        profile.key_chain.push(link);
        self.told_key = 0;
        self.tell_key(out);
        Ok(())
    }

    /// With each keepalive of a node that has changed its key.
    pub(super) fn repeat_key(&mut self, out: &mut Vec<Output>) {
        if !self.profile.key_chain.is_empty() {
            self.tell_key(out);
        }
    }

    fn tell_key(&mut self, out: &mut Vec<Output>) {
        let epoch = self.epoch();
        let to = if self.told_key <= TOLD_AGAIN {
            epoch.members().iter().filter(|did| **did != self.me).copied().collect()
        } else if self.told_key.is_multiple_of(REMINDED_EVERY) {
            self.near()
        } else {
            Vec::new()
        };
        self.told_key = self.told_key.saturating_add(1);
        if !to.is_empty() {
            out.push(send(to, Message::Handshake(self.handshake())));
        }
    }

    /// Whoever opens messages has seen that the chain holds and knows the newest one; a node looks
    /// once more, since it remembers what it was told.
    pub(super) fn check_keys(&self, hello: &Handshake) -> Result<(), Refusal> {
        let own = OwnKeys { newest: &hello.pub_key, links: &hello.key_chain };
        let chain = match own.chain() {
            Ok(chain) if chain.did() == hello.agent_id => chain,
            Ok(_) => {
                return refuse(ErrorCode::InvalidSignature, "the DID is not that of the first key");
            }
            Err(error) => return refuse(ErrorCode::InvalidSignature, error.to_string()),
        };
        let known = self.peers.get(&hello.agent_id).and_then(|peer| peer.handshake.as_ref());
        if let Some(Ok(known)) = known.and_then(|kept| kept.message.own_keys()).map(|k| k.chain())
            && !chain.extends(&known)
        {
            return refuse(ErrorCode::InvalidSignature, "newer or other keys are known here");
        }
        Ok(())
    }

    /// Everybody knows the keys of the issuers that the genesis names. The word of somebody else is
    /// worth nothing, and a record with it could not be opened by those who have not met that one.
    pub(super) fn check_evidence(&self, evidence: &Evidence) -> Result<(), Refusal> {
        let issued = |it: &SignedAttestation| self.genesis.is_issuer(&it.attestation.attester);
        match evidence.0.iter().all(issued) {
            true => Ok(()),
            false => {
                refuse(ErrorCode::InvalidParams, "evidence is the word of the swarm's issuers")
            }
        }
    }

    /// The key that signs for this node now.
    pub(super) fn newest_key(&self) -> skep_base::ed25519::PublicKey {
        let last = self.profile.key_chain.last();
        last.map_or(self.profile.key, |link| link.statement.new_key)
    }

    /// All keys that this node knows of, for whoever opens its messages after a restart.
    pub fn known_keys(&self) -> KnownKeys {
        let mut keys = KnownKeys::default();
        self.genesis.founders.iter().chain(&self.genesis.issuers).for_each(|key| keys.learn(*key));
        self.met().for_each(|message| keys.meet(message));
        keys
    }

    /// Messages that this node has taken and that bring their signers' keys along: greetings,
    /// orders, and the greetings of those who were elected.
    fn met(&self) -> impl Iterator<Item = &Signed> {
        let peers = self.peers.values().filter_map(|peer| peer.handshake.as_ref());
        let orders = self.tasks.values().map(|state| &state.origin);
        let kept = peers.chain(orders).chain(self.joined.values()).map(|kept| &*kept.0);
        kept.filter(|message| message.message.own_keys().is_some())
    }

    /// The keys of an agent that others have told this node of. It is asked for with every message
    /// of somebody who has not come by itself, and one certificate may have very many.
    fn keys_of(&self, did: &Did) -> KnownKeys {
        let mut keys = KnownKeys::default();
        let peer = self.peers.get(did).and_then(|peer| peer.handshake.as_ref());
        let orders = self.tasks.values().map(|state| &state.origin);
        let orders = orders.filter(|order| order.meta.signer == *did);
        let met = peer.into_iter().chain(orders).chain(self.joined.get(did));
        met.for_each(|kept| keys.meet(kept));
        keys
    }
}

/// What a node's messages are opened with: the keys of those who have come by themselves, and of
/// those whom it knows by what others have brought, as the client of a task or who was elected.
#[derive(Clone, Copy, Debug)]
pub struct Door<'a> {
    pub keys: &'a KnownKeys,
    pub node: &'a Node,
}

impl Check for Door<'_> {
    fn check(&self, claim: &Claim<'_>) -> Result<(), OpenError> {
        match self.keys.check(claim) {
            Err(OpenError::UnknownSigner(did)) => self.node.keys_of(&did).check(claim),
            checked => checked,
        }
    }

    fn links(&self, signer: &Did) -> Option<Vec<KeyLink>> {
        match self.keys.get(signer) {
            Some(_) => self.keys.links(signer),
            None => self.node.keys_of(signer).links(signer),
        }
    }
}
