//! Witnesses, some of whom lie, on a line that loses and reorders.

use std::collections::BTreeSet;

use proptest::prelude::*;
use skep_base::ed25519::SecretKey;
use skep_wire::swarm::{Chosen, Meta, Outcome, Subject};

use super::*;

fn start() -> Timestamp {
    Timestamp::from_ms(1_800_000_000_000)
}

fn key(n: u8) -> SecretKey {
    SecretKey::from_seed([n + 1; 32])
}

fn value(plan: &str, by: Did) -> Value {
    let chosen = Chosen::Plan { plan_id: plan.to_owned(), proposer: by };
    Value { outcome: Outcome::Plan(chosen), record: Vec::new() }
}

/// As witnesses judge: what is proposed is there, too.
fn is_whole(value: &Value, record: &[Kept]) -> Verdict {
    let is_whole = value.record.iter().copied().eq(record.iter().map(|kept| kept.hash()));
    if is_whole { Verdict::Valid } else { Verdict::Invalid }
}

/// All witnesses of one subject and what is on its way between them.
struct Room {
    keys: Vec<SecretKey>,
    dids: Vec<Did>,
    accords: Vec<Accord>,
    liars: BTreeSet<usize>,
    /// Whether liars gather signatures for what they have proposed first, let the others see
    /// something else, and come back to it without the messages that it follows from.
    hides: bool,
    line: Vec<(usize, Kept)>,
    now: Timestamp,
    chance: u64,
    loss: u64,
}

impl Room {
    fn new(n: u8, liars: BTreeSet<usize>, seed: u64, loss: u64) -> Room {
        let mut keys: Vec<SecretKey> = (0..n).map(key).collect();
        keys.sort_by_key(|key| key.public().did());
        let dids: Vec<Did> = keys.iter().map(|key| key.public().did()).collect();
        let setting = Setting {
            subject: Subject::Plan { task_id: "t".to_owned() },
            witnesses: dids.clone(),
            leaders: dids.clone(),
            reserves: Vec::new(),
            anyone_first: seed.is_multiple_of(2),
            slow_ms: 1_000,
            quick_ms: 1_000,
            deadline: Timestamp::MAX,
            resend_ms: 200,
        };
        let accord = |did: &Did| Accord::new(*did, setting.clone(), Vec::new(), start());
        let accords = dids.iter().map(accord).collect();
        let chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (line, hides, now) = (Vec::new(), false, start());
        Room { keys, dids, accords, liars, hides, line, now, chance, loss }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % below
    }

    fn seal(&self, by: usize, certificate: Certificate, attached: Vec<Arc<Signed>>) -> Kept {
        let (signer, sent_at) = (self.dids[by], self.now);
        let meta = Meta { signer, swarm: "test".to_owned(), epoch: 1, sent_at };
        let message = Message::Certificate(certificate);
        Kept(Arc::new(Signed::seal(meta, message, attached, &self.keys[by])))
    }

    /// What a plan follows from, and the plan as a value of that.
    fn proposed(&self, plan: &str, by: usize) -> (Value, Vec<Kept>) {
        let said = |number: u32| {
            let subject = Subject::Plan { task_id: plan.to_owned() };
            let word = Word::NextView { prepared: None };
            let meta = Meta {
                signer: self.dids[by],
                swarm: "test".to_owned(),
                epoch: 1,
                sent_at: start(),
            };
            let message = Message::Certificate(Certificate { subject, view: number, word });
            Kept(Arc::new(Signed::seal(meta, message, Vec::new(), &self.keys[by])))
        };
        let record: Vec<Kept> = (0..2).map(said).collect();
        let hashes = record.iter().map(|kept| kept.hash()).collect();
        (Value { record: hashes, ..value(plan, self.dids[by]) }, record)
    }

    /// Puts an accord's messages on the line. A liar proposes and signs two values at a time, and
    /// leaves out what a value follows from.
    fn perform(&mut self, by: usize, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Send { to, certificate, attached } => {
                    for did in to {
                        let Ok(at) = self.dids.binary_search(&did) else { continue };
                        let mut certificate = (*certificate).clone();
                        let mut attached = attached.clone();
                        let lies = self.liars.contains(&by);
                        if lies && self.hides {
                            self.hide(by, &mut certificate, &mut attached);
                        } else if lies && self.draw(2) == 0 {
                            self.twist(by, &mut certificate.word, &mut attached);
                        }
                        let kept = self.seal(by, certificate, attached);
                        self.line.push((at, kept));
                    }
                }
                Act::Wanted => {
                    let (mine, record) = self.proposed(&format!("p{by}"), by);
                    let acts = self.accords[by].offer(mine, record);
                    self.perform(by, acts);
                }
                Act::Decided => {}
            }
        }
    }

    fn twist(&mut self, by: usize, word: &mut Word, attached: &mut Vec<Arc<Signed>>) {
        if self.draw(2) == 0 {
            return self.strip(attached);
        }
        let plan = format!("lie{}", self.draw(2));
        let (other, record) = self.proposed(&plan, by);
        match word {
            Word::Propose { value } | Word::Bundle { value, .. } => {
                *value = other;
                attached.extend(record.iter().map(|kept| kept.0.clone()));
            }
            Word::Sign { hash, .. } => *hash = other.hash(),
            Word::NextView { prepared } => *prepared = None,
        }
    }

    /// All but the signatures is left out.
    fn strip(&self, attached: &mut Vec<Arc<Signed>>) {
        let subject = &self.accords[0].setting.subject;
        attached.retain(
            |kept| matches!(&kept.message, Message::Certificate(said) if said.subject == *subject),
        );
    }

    fn hide(&self, by: usize, said: &mut Certificate, attached: &mut Vec<Arc<Signed>>) {
        let (other, record) = self.proposed("lie", by);
        match &mut said.word {
            Word::Propose { value } if said.view > 0 => {
                *value = other;
                *attached = record.into_iter().map(|kept| kept.0).collect();
            }
            Word::Bundle { .. } => attached.clear(),
            Word::NextView { .. } => self.strip(attached),
            Word::Propose { .. } | Word::Sign { .. } => {}
        }
    }

    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            if !self.line.is_empty() && self.draw(8) > 0 {
                let index = self.draw(self.line.len() as u64) as usize;
                let (to, kept) = self.line.swap_remove(index);
                if self.draw(100) < self.loss {
                    continue;
                }
                // A twin of what was delivered may come again.
                if self.draw(10) == 0 {
                    self.line.push((to, kept.clone()));
                }
                let acts = self.accords[to].take(self.now, &kept, &is_whole);
                self.perform(to, acts);
            } else {
                self.now = plus(self.now, 40);
                for at in 0..self.accords.len() {
                    let text = serde_json::to_vec(&self.accords[at]).unwrap();
                    self.accords[at] = serde_json::from_slice(&text).unwrap();
                    let acts = self.accords[at].tick(self.now);
                    self.perform(at, acts);
                    let waits = self.hides && !self.liars.contains(&at);
                    if self.accords[at].view() == 0 && self.accords[at].leads() && !waits {
                        self.perform(at, vec![Act::Wanted]);
                    }
                }
            }
            if self.is_over() {
                return;
            }
        }
    }

    fn honest(&self) -> impl Iterator<Item = &Accord> {
        let honest = |(at, accord)| (!self.liars.contains(&at)).then_some(accord);
        self.accords.iter().enumerate().filter_map(honest)
    }

    fn is_over(&self) -> bool {
        self.honest().all(|accord| accord.decided().is_some())
    }

    fn values(&self) -> BTreeSet<Hash32> {
        self.honest().filter_map(|accord| Some(accord.decided()?.value.hash())).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..<_>::default() })]

    /// Whatever is lost and whoever lies: never two values; and one, when all that is honest meets.
    #[test]
    fn one_value_is_final(
        n in 1u8..8,
        seed in any::<u64>(),
        loss in 0u64..40,
        hides in any::<bool>(),
    ) {
        let mut room = Room::new(n, BTreeSet::new(), seed, loss);
        room.hides = hides;
        let liars = (usize::from(n) - 1) / 3;
        while room.liars.len() < liars {
            let at = room.draw(u64::from(n)) as usize;
            room.liars.insert(at);
        }
        room.run(3_000);
        prop_assert!(room.values().len() <= 1, "{:?}", room.values());
        room.loss = 0;
        room.run(30_000);
        prop_assert!(room.is_over(), "not all have decided");
        prop_assert_eq!(room.values().len(), 1);
    }
}

/// One of four lies: it has a value prepared that only it can show, lets the others see another,
/// and tells the next leader of the signatures without the messages that they are about.
#[test]
fn what_nobody_else_can_show_becomes_nothing() {
    let mut room = Room::new(4, BTreeSet::new(), 1, 0);
    let subject = room.accords[0].setting().subject.clone();
    let (liar, honest) = (3, [0, 1, 2]);
    let said = |view, word| Certificate { subject: subject.clone(), view, word };
    let (hidden, record) = room.proposed("hidden", liar);
    // All have signed the first value in a view, and have seen another one since.
    let word = Word::Sign { step: Step::Prepare, hash: hidden.hash() };
    let signatures: Vec<Arc<Signed>> =
        (0..4).map(|by| room.seal(by, said(0, word.clone()), Vec::new()).0).collect();
    let (other, shown) = room.proposed("shown", liar);
    for at in honest {
        room.accords[at].seen = Some((other.hash(), shown.clone()));
        let left = |by| room.seal(by, said(2, Word::NextView { prepared: None }), Vec::new());
        let left = [left(0), left(1), left(2)];
        for kept in &left {
            room.accords[at].take(room.now, kept, &is_whole);
        }
        assert_eq!(room.accords[at].view(), 2);
    }
    let (leader, witness) = (2, 1);
    assert!(room.accords[0].setting().may_lead(2, &room.dids[leader]));
    let prepared = Some(Prepared { view: 0, value: hidden.clone() });
    let stripped = room.seal(liar, said(2, Word::NextView { prepared }), signatures.clone());
    room.accords[leader].take(room.now, &stripped, &is_whole);
    assert_eq!(room.accords[leader].prepared, None);

    // Nor does a leader that proposes it find anybody who signs, or a bundle of it.
    let propose = said(2, Word::Propose { value: hidden.clone() });
    let propose = room.seal(leader, propose, signatures.clone());
    assert_eq!(room.accords[witness].take(room.now, &propose, &is_whole), Vec::new());
    let word = Word::Sign { step: Step::Prepare, hash: hidden.hash() };
    let again: Vec<Arc<Signed>> =
        (0..4).map(|by| room.seal(by, said(2, word.clone()), Vec::new()).0).collect();
    let bundle = said(2, Word::Bundle { step: Step::Prepare, value: hidden.clone() });
    let bare = room.seal(leader, bundle.clone(), again.clone());
    assert_eq!(room.accords[witness].take(room.now, &bare, &is_whole), Vec::new());
    // With the messages it is as good as any other.
    let record = record.into_iter().map(|kept| kept.0);
    let whole = room.seal(leader, bundle, again.into_iter().chain(record).collect());
    assert_eq!(room.accords[witness].take(room.now, &whole, &is_whole).len(), 1);
}

/// Whoever has missed a proposal gets what it follows from when its leader repeats what came of it.
#[test]
fn who_missed_the_proposal_signs_when_it_has_the_record() {
    let (leader, late) = (0, 3);
    let mut room = Room::new(4, BTreeSet::new(), 2, 0);
    let deliver = |room: &mut Room, is_lost: &dyn Fn(usize, &Kept) -> bool| {
        while let Some((to, kept)) = room.line.pop() {
            if !is_lost(to, &kept) {
                let acts = room.accords[to].take(room.now, &kept, &is_whole);
                room.perform(to, acts);
            }
        }
    };
    let is_word = |kept: &Kept, is: fn(&Word) -> bool| match &kept.message {
        Message::Certificate(said) => is(&said.word),
        _ => false,
    };
    let unlucky = room.dids[1];
    room.perform(leader, vec![Act::Wanted]);
    // Another one's second signature is lost: without the late one there are too few.
    deliver(&mut room, &|to, kept| {
        let of_one = kept.meta.signer == unlucky;
        to == late && is_word(kept, |word| matches!(word, Word::Propose { .. }))
            || of_one && is_word(kept, |word| matches!(word, Word::Sign { step: Step::Commit, .. }))
    });
    assert!(room.accords[leader].decided().is_none());
    assert_eq!(room.accords[late].prepared, None);
    room.now = plus(room.now, 200);
    let acts = room.accords[leader].tick(room.now);
    room.perform(leader, acts);
    deliver(&mut room, &|to, _| to == 1);
    assert!(room.accords[late].decided().is_some());
}

/// Who misses the last word signs again, and its leader answers: no view is left for it, and nobody
/// else is asked.
#[test]
fn who_signs_again_is_told_what_came_of_it() {
    let (leader, unlucky) = (0, 3);
    let mut room = Room::new(4, BTreeSet::new(), 2, 0);
    let is_end = |kept: &Kept| {
        matches!(&kept.message, Message::Certificate(said)
            if matches!(said.word, Word::Bundle { step: Step::Commit, .. }))
    };
    let deliver = |room: &mut Room, is_lost: &dyn Fn(usize, &Kept) -> bool| {
        while let Some((to, kept)) = room.line.pop() {
            if !is_lost(to, &kept) {
                let acts = room.accords[to].take(room.now, &kept, &|_, _| Verdict::Valid);
                room.perform(to, acts);
            }
        }
    };
    room.perform(leader, vec![Act::Wanted]);
    deliver(&mut room, &|to, kept| to == unlucky && is_end(kept));
    assert!(room.accords[unlucky].decided().is_none());
    room.now = plus(room.now, 200);
    let acts = room.accords[unlucky].tick(room.now);
    room.perform(unlucky, acts);
    assert_eq!(room.line.len(), 1, "one question to one");
    deliver(&mut room, &|_, _| false);
    assert!(room.is_over());
    assert_eq!(room.accords[unlucky].view(), 0);
}

#[test]
fn a_leader_ends_no_view_by_itself() {
    let mut room = Room::new(4, BTreeSet::new(), 1, 0);
    let subject = room.accords[0].setting().subject.clone();
    let leader = 1;
    assert!(room.accords[0].setting().may_lead(1, &room.dids[leader]));
    let proposed = value("early", room.dids[leader]);
    let propose =
        Certificate { subject: subject.clone(), view: 1, word: Word::Propose { value: proposed } };
    let propose = room.seal(leader, propose, Vec::new());
    let valid = |_: &Value, _: &[Kept]| Verdict::Valid;
    assert_eq!(room.accords[0].take(room.now, &propose, &valid), Vec::new());
    assert_eq!(room.accords[0].view(), 0);
    // One of four may lie; when another one has left the view as well, somebody honest has.
    let left = Certificate { subject, view: 1, word: Word::NextView { prepared: None } };
    let left = room.seal(2, left, Vec::new());
    room.accords[0].take(room.now, &left, &valid);
    assert!(!room.accords[0].take(room.now, &propose, &valid).is_empty());
    assert_eq!(room.accords[0].view(), 1);
}

#[test]
fn what_is_kept_of_a_bundle_is_one_signature_of_each_that_is_needed() {
    let room = Room::new(7, BTreeSet::new(), 1, 0);
    let subject = room.accords[0].setting().subject.clone();
    let final_value = value("p", room.dids[0]);
    let word = Word::Sign { step: Step::Commit, hash: final_value.hash() };
    let sign = Certificate { subject: subject.clone(), view: 0, word };
    let signature = |by: usize| room.seal(by, sign.clone(), Vec::new()).0;
    // All seven, the first of them a hundred times, and a stranger's.
    let mut attached: Vec<Arc<Signed>> = (0..100).map(|_| signature(0)).collect();
    attached.extend((1..7).map(signature));
    let meta = Meta {
        signer: key(50).public().did(),
        swarm: "test".to_owned(),
        epoch: 1,
        sent_at: start(),
    };
    let message = Message::Certificate(sign.clone());
    attached.push(Arc::new(Signed::seal(meta, message, Vec::new(), &key(50))));
    let word = Word::Bundle { step: Step::Commit, value: final_value.clone() };
    let bundle = room.seal(0, Certificate { subject, view: 0, word }, attached);
    let proven = proven(&bundle, Step::Commit, &final_value, &room.dids).unwrap();
    let signers: BTreeSet<Did> = proven.signatures.iter().map(|kept| kept.meta.signer).collect();
    assert_eq!((proven.signatures.len(), signers.len()), (5, 5));
    assert!(signers.iter().all(|did| room.dids.contains(did)));
}

/// Whoever signs again makes its leader say nothing to all the others.
#[test]
fn what_is_signed_again_is_signed_once() {
    let mut room = Room::new(4, BTreeSet::new(), 2, 0);
    let subject = room.accords[0].setting().subject.clone();
    room.perform(0, vec![Act::Wanted]);
    let hash = room.proposed("p0", 0).0.hash();
    let word = Word::Sign { step: Step::Prepare, hash };
    let mut signs = |by: usize| {
        let said = Certificate { subject: subject.clone(), view: 0, word: word.clone() };
        let kept = room.seal(by, said, Vec::new());
        room.accords[0].take(room.now, &kept, &is_whole).len()
    };
    assert_eq!([1, 2, 3].map(&mut signs), [0, 0, 1], "the third makes it prepared");
    assert_eq!([1, 2, 3].map(&mut signs), [0, 0, 0]);
}

/// A decision is long and a question short: whoever asks all the time is answered now and then.
#[test]
fn who_asks_over_and_over_is_answered_once_in_a_while() {
    let mut room = Room::new(4, BTreeSet::new(), 2, 0);
    room.perform(0, vec![Act::Wanted]);
    while let Some((to, kept)) = room.line.pop() {
        let acts = room.accords[to].take(room.now, &kept, &|_, _| Verdict::Valid);
        room.perform(to, acts);
    }
    assert!(room.is_over());
    let subject = room.accords[0].setting().subject.clone();
    let asks = |room: &mut Room, by: usize, view: u32| -> usize {
        let word = Word::NextView { prepared: None };
        let kept = room.seal(by, Certificate { subject: subject.clone(), view, word }, Vec::new());
        room.accords[0].take(room.now, &kept, &|_, _| Verdict::Invalid).len()
    };
    room.now = plus(room.now, 1_000);
    let answers: usize = (0..50).map(|view| asks(&mut room, 1, view)).sum();
    assert_eq!(answers, 1);
    assert_eq!(asks(&mut room, 2, 1), 1, "another one's question is another");
    room.now = plus(room.now, 199);
    assert_eq!(asks(&mut room, 1, 1), 0);
    room.now = plus(room.now, 1);
    assert_eq!(asks(&mut room, 1, 1), 1);
    assert_eq!(room.accords[0].told.len(), 1, "those of long ago are forgotten");
}

#[test]
fn nothing_that_came_along_with_a_word_is_kept() {
    let mut room = Room::new(4, BTreeSet::new(), 2, 0);
    let subject = room.accords[0].setting().subject.clone();
    room.perform(0, vec![Act::Wanted]);
    room.line.clear();
    let said = |word, view| Certificate { subject: subject.clone(), view, word };
    let junk = room.seal(1, said(Word::NextView { prepared: None }, 9), Vec::new()).0;
    let hash = room.proposed("p0", 0).0.hash();
    let sign = said(Word::Sign { step: Step::Prepare, hash }, 0);
    let sign = room.seal(1, sign, vec![junk.clone(); 50]);
    room.accords[0].take(room.now, &sign, &|_, _| Verdict::Valid);
    let left = room.seal(2, said(Word::NextView { prepared: None }, 1), vec![junk; 50]);
    room.accords[0].take(room.now, &left, &|_, _| Verdict::Valid);
    let accord = &room.accords[0];
    let proposal = accord.proposal.as_ref().expect("it leads");
    let kept: Vec<&Kept> = proposal.prepare.values().chain(accord.moved_on.values()).collect();
    assert_eq!(kept.len(), 2);
    assert!(kept.iter().all(|kept| kept.attached.is_empty()));
}
