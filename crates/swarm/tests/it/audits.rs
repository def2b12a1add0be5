//! Everybody signs what does not follow: whoever reads the transcript sees it all the same.

use std::sync::Arc;

use skep_base::{Did, Timestamp};
use skep_swarm::{aggregate::verify_place, epoch::Epoch, succession, transcript::Transcript};
use skep_wire::swarm::{
    Certificate, Chosen, End, Message, Outcome, Signed, Step, Subject, Succession, Value,
    Verification, Word,
};

use super::room::{Room, id, secret};

/// What a certificate is made of.
struct Decided {
    view: u32,
    subject: Subject,
    outcome: Outcome,
    record: Vec<Arc<Signed>>,
}

/// A room in which a task was done and an election held, and what was decided.
fn held() -> (Room, Vec<Decided>) {
    let mut room = Room::new(7);
    let client = secret(100);
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.deliver(&chair, message);
    let timing = &room.genesis.timing;
    room.run(u32::try_from(timing.epoch_ms / 1_000).expect("an epoch is short") + 30);
    let mut decided: Vec<Decided> = Vec::new();
    for sent in &room.sent {
        if let Message::Certificate(certificate) = &sent.message
            && let Word::Bundle { step: Step::Commit, value } = &certificate.word
            && decided.iter().all(|known| known.subject != certificate.subject)
        {
            let of_record = |kept: &&Arc<Signed>| value.record.contains(&kept.hash());
            decided.push(Decided {
                view: certificate.view,
                subject: certificate.subject.clone(),
                outcome: value.outcome.clone(),
                record: sent.attached.iter().filter(of_record).cloned().collect(),
            });
        }
    }
    (room, decided)
}

/// The certificate, signed by everybody.
fn certify(room: &Room, decided: &Decided) -> Arc<Signed> {
    let Decided { view, subject, outcome, record } = decided;
    let hashes = record.iter().map(|kept| kept.hash()).collect();
    let value = Value { outcome: outcome.clone(), record: hashes };
    let said = |word: Word| {
        Message::Certificate(Certificate { subject: subject.clone(), view: *view, word })
    };
    let sign = Word::Sign { step: Step::Commit, hash: value.hash() };
    let signatures = room.keys.values().map(|key| room.seal(key, said(sign.clone())));
    let attached = signatures.chain(record.iter().cloned()).collect();
    let leader = room.keys.values().next().expect("a room has nodes");
    room.seal_with(leader, said(Word::Bundle { step: Step::Commit, value }), attached)
}

/// Why a transcript of these certificates does not hold; nothing if it does.
fn audit(room: &Room, decided: &[Decided]) -> Vec<String> {
    let certificates: Vec<Arc<Signed>> = decided.iter().map(|one| certify(room, one)).collect();
    read(room, &certificates)
}

fn read(room: &Room, certificates: &[Arc<Signed>]) -> Vec<String> {
    let mut keys = room.known_keys();
    keys.learn(secret(100).public());
    let written = Transcript::write(&room.genesis, &keys, certificates);
    let read = Transcript::read(written.to_string().as_bytes()).expect("all signatures hold");
    read.verify().differences.into_iter().map(|difference| difference.why).collect()
}

/// What comes along and is not signed over says nothing: whoever passes a certificate on may put
/// another task's order before its own.
#[test]
fn what_was_put_before_the_record_changes_nothing() {
    let (room, decided) = held();
    let client = secret(100);
    let other = room.seal(&client, room.inject(&client, room.task("other")));
    let padded: Vec<Arc<Signed>> = decided
        .iter()
        .map(|one| {
            let certificate = certify(&room, one);
            let attached = [vec![other.clone()], certificate.attached.clone()].concat();
            let leader = room.keys.values().next().expect("a room has nodes");
            room.seal_with(leader, certificate.message.clone(), attached)
        })
        .collect();
    assert_eq!(read(&room, &padded), Vec::<String>::new());
}

/// Each part is told of: who was given it, what was said of the work, where it is under the root.
/// A coordinator that refuses afterwards what it has accepted is told of, and changes nothing.
#[test]
fn a_part_that_was_refused_afterwards_stays_in_the_result() {
    let (room, _) = held();
    let mut keys = room.known_keys();
    keys.learn(secret(100).public());
    let report = |messages: &[Arc<Signed>]| {
        let written = Transcript::write(&room.genesis, &keys, messages);
        Transcript::read(written.to_string().as_bytes()).unwrap().verify()
    };
    let good = report(&room.sent);
    assert_eq!(good.differences, Vec::new());
    let task = &good.tasks[0];
    let ended = task.ended.as_ref().unwrap();
    assert_eq!(task.parts.len(), ended.parts.len());
    for (part, artifact) in task.parts.iter().zip(ended.parts.iter().flatten()) {
        assert!(verify_place(artifact, part.place.as_ref().unwrap(), &ended.root));
        let [order] = &part.tries[..] else { panic!("{part:?}") };
        assert_eq!((Some(order.assignee), order.verdicts.len()), (part.producer, 1));
        assert!(order.verdicts[0].accepted);
    }
    // The coordinator says otherwise afterwards.
    let is_accepted = |sent: &&Arc<Signed>| match &sent.message {
        Message::Verification(m) => m.accepted && m.content_cid.is_some(),
        _ => false,
    };
    let verdict = room.sent.iter().find(is_accepted).unwrap();
    let Message::Verification(m) = &verdict.message else { panic!() };
    let refusal = Message::Verification(Verification { accepted: false, ..m.clone() });
    let by = |did| room.seal(&room.keys[&did], refusal.clone());
    let with = |word| report(&[room.sent.clone(), vec![word]].concat());
    let told = with(by(verdict.meta.signer));
    assert_eq!((told.differences, &told.tasks[0].caught), (Vec::new(), &vec![verdict.meta.signer]));
    let tries = told.tasks[0].parts.iter().flat_map(|part| &part.tries);
    let said = tries.map(|order| order.verdicts.len());
    assert_eq!(said.sum::<usize>(), ended.parts.len() + 1, "what was said is told");
    // Nobody else's word counts.
    let other = room.keys.keys().find(|did| **did != verdict.meta.signer).unwrap();
    let told = with(by(*other));
    assert_eq!((told.differences, &told.tasks[0].caught), (Vec::new(), &Vec::new()));
}

/// Changes what was decided about one thing, has everybody sign it, and says what an auditor sees.
#[track_caller]
fn seen(about: fn(&Subject) -> bool, change: impl FnOnce(&Room, &mut Decided)) -> String {
    let (room, mut decided) = held();
    let one = decided.iter_mut().find(|one| about(&one.subject)).expect("it was decided");
    change(&room, one);
    let mut why = audit(&room, &decided);
    assert!(!why.is_empty(), "nobody has noticed");
    why.swap_remove(0)
}

fn is_plan(subject: &Subject) -> bool {
    matches!(subject, Subject::Plan { task_id } if *task_id == id("t"))
}

fn is_result(subject: &Subject) -> bool {
    matches!(subject, Subject::Result { .. })
}

fn is_election(subject: &Subject) -> bool {
    matches!(subject, Subject::Election { .. })
}

/// Signs a message of the record anew, changed.
fn change_message(room: &Room, decided: &mut Decided, change: impl Fn(&mut Message) -> bool) {
    let found = decided.record.iter_mut().find_map(|kept| {
        let mut message = kept.message.clone();
        change(&mut message).then_some((kept, message))
    });
    let (kept, message) = found.expect("there is such a message");
    *kept = room.seal(&room.keys[&kept.meta.signer], message);
}

fn drop_message(decided: &mut Decided, which: impl Fn(&Message) -> bool) {
    let at = decided.record.iter().position(|kept| which(&kept.message));
    decided.record.remove(at.expect("there is such a message"));
}

#[test]
fn what_was_decided_rightly_holds_when_signed_anew() {
    let (room, decided) = held();
    assert_eq!(audit(&room, &decided), Vec::<String>::new());
    for about in [is_plan, is_result, is_election] {
        assert_eq!(decided.iter().filter(|one| about(&one.subject)).count(), 1);
    }
}

/// Whoever passes a certificate on may leave out what proves it; another has it all.
#[test]
fn a_stripped_copy_hides_nothing() {
    let (room, decided) = held();
    let liar = room.keys.values().next_back().expect("a room has nodes");
    let mut certificates = Vec::new();
    for one in &decided {
        let whole = certify(&room, one);
        let is_record = |kept: &&Arc<Signed>| !matches!(kept.message, Message::Certificate(_));
        let (record, signatures): (Vec<_>, Vec<_>) =
            whole.attached.iter().cloned().partition(|kept| is_record(&kept));
        for stripped in [Vec::new(), signatures, record] {
            certificates.push(room.seal_with(liar, whole.message.clone(), stripped));
        }
        certificates.push(whole);
    }
    assert_eq!(read(&room, &certificates), Vec::<String>::new());
}

/// One liar says that there was no plan, and shows nothing: that is not so, and the result holds.
#[test]
fn what_nobody_has_signed_spoils_no_result() {
    let (room, decided) = held();
    let liar = room.keys.values().next_back().expect("a room has nodes");
    let subject = decided.iter().map(|one| &one.subject).find(|about| is_plan(about)).unwrap();
    let value = Value { outcome: Outcome::Plan(Chosen::NoPlan), record: Vec::new() };
    let word = Word::Bundle { step: Step::Commit, value };
    let said = Certificate { subject: subject.clone(), view: 0, word };
    let mut certificates = vec![room.seal(liar, Message::Certificate(said))];
    certificates.extend(decided.iter().map(|one| certify(&room, one)));
    assert_eq!(read(&room, &certificates), ["the record has no task that anybody wanted"]);
}

/// Of old elections nodes keep the signatures: they can be followed, and are not counted again.
/// What has lost some of its ballots only does not hold.
#[test]
fn an_election_without_its_ballots_is_followed() {
    let (room, decided) = held();
    let one = decided.iter().find(|one| is_election(&one.subject)).unwrap();
    let whole = certify(&room, one);
    let report = |attached: Vec<Arc<Signed>>| {
        let leader = room.keys.values().next().expect("a room has nodes");
        let sent = room.seal_with(leader, whole.message.clone(), attached);
        let written = Transcript::write(&room.genesis, &room.known_keys(), &[sent]);
        Transcript::read(written.to_string().as_bytes()).unwrap().verify()
    };
    let is_signature = |kept: &&Arc<Signed>| matches!(kept.message, Message::Certificate(_));
    let signatures: Vec<_> = whole.attached.iter().filter(is_signature).cloned().collect();
    let followed = report(signatures.clone());
    assert_eq!((followed.elections, followed.followed), (Vec::new(), vec![2]));
    assert_eq!(followed.differences, Vec::new());
    let mut fewer = whole.attached.clone();
    fewer.pop();
    let partly = report(fewer);
    assert_eq!((partly.followed.len(), partly.differences.len()), (0, 1));
    let too_few = report(signatures[..4].to_vec());
    assert_eq!((too_few.followed.len(), too_few.differences.len()), (0, 1));
}

#[test]
fn an_election_of_others_is_seen() {
    let others = "other agents are elected by these votes";
    let swapped = seen(is_election, |_, one| {
        let Outcome::Election(elected) = &mut one.outcome else { panic!("no election") };
        elected.tier1.reverse();
    });
    assert_eq!(swapped, others);
    let shut_out = seen(is_election, |_, one| {
        let Outcome::Election(elected) = &mut one.outcome else { panic!("no election") };
        elected.members.pop();
    });
    assert_eq!(shut_out, others);
    let fewer_votes = seen(is_election, |_, one| {
        one.record.retain(|kept| !matches!(kept.message, Message::ElectionVote(_)));
    });
    assert_eq!(fewer_votes, others);
    let skipped = seen(is_election, |_, one| {
        let Outcome::Election(elected) = &mut one.outcome else { panic!("no election") };
        elected.previous += 1;
    });
    assert_eq!(skipped, "it is not what was asked");
}

#[test]
fn a_plan_that_did_not_win_is_seen() {
    let wrong = "the outcome does not follow from the record";
    let other = seen(is_plan, |_, one| {
        let Outcome::Plan(Chosen::Plan { plan_id, proposer }) = &mut one.outcome else {
            panic!("no plan")
        };
        let plans = one.record.iter().filter_map(|kept| match &kept.message {
            Message::Reveal(reveal) if reveal.plan.plan_id != *plan_id => Some(&reveal.plan),
            _ => None,
        });
        let loser = plans.into_iter().next().expect("there was another plan").clone();
        (*plan_id, *proposer) = (loser.plan_id, loser.proposer);
    });
    assert_eq!(other, wrong);
    assert_eq!(seen(is_plan, |_, one| one.outcome = Outcome::Plan(Chosen::NoPlan)), wrong);
    assert_eq!(seen(is_plan, |_, one| one.outcome = Outcome::Plan(Chosen::Cancelled)), wrong);
    let turned = seen(is_plan, |room, one| {
        let Outcome::Plan(Chosen::Plan { plan_id, .. }) = &one.outcome else { panic!("no plan") };
        for kept in &mut one.record {
            let mut message = kept.message.clone();
            if let Message::PlanVote(vote) = &mut message {
                vote.rankings.sort_by_key(|ranked| ranked == plan_id);
                *kept = room.seal(&room.keys[&kept.meta.signer], message);
            }
        }
    });
    assert_eq!(turned, wrong);
}

#[test]
fn a_board_against_the_rules_is_seen() {
    let critic = seen(is_plan, |room, one| {
        change_message(room, one, |message| match message {
            Message::Ready(ready) => {
                let chair = ready.chair_id;
                let critic = ready.adversarial_critic;
                let is_other = |did: &&_| **did != chair && Some(**did) != critic;
                ready.adversarial_critic = ready.members.iter().find(is_other).copied();
                true
            }
            _ => false,
        });
    });
    assert_eq!(critic, "the critic or the Senate is not the one that was drawn");
    let senate = seen(is_plan, |room, one| {
        let stranger = secret(100).public().did();
        change_message(room, one, |message| match message {
            Message::Ready(ready) => {
                ready.senate.push(stranger);
                true
            }
            _ => false,
        });
    });
    assert_eq!(senate, "the critic or the Senate is not the one that was drawn");
    let pressed = seen(is_plan, |_, one| {
        drop_message(one, |message| matches!(message, Message::Accept(_)));
    });
    assert!(pressed.ends_with("or never agreed to sit there"), "{pressed}");
    let none = seen(is_plan, |_, one| {
        drop_message(one, |message| matches!(message, Message::Ready(_)));
    });
    assert_eq!(none, "the record has no board");
}

#[test]
fn a_result_that_nobody_delivered_is_seen() {
    let root = seen(is_result, |_, one| {
        let Outcome::Result(ended) = &mut one.outcome else { panic!("no result") };
        ended.root = skep_base::hash::sha256(b"another");
    });
    assert_eq!(root, "the root is not the one over the parts");
    let unsubmitted = seen(is_result, |_, one| {
        drop_message(one, |message| matches!(message, Message::SubmitResult(_)));
    });
    assert!(unsubmitted.ends_with("was never submitted by its producer"), "{unsubmitted}");
    let empty = seen(is_result, |room, one| {
        change_message(room, one, |message| match message {
            Message::SubmitResult(result) => {
                result.content = Some("something else".to_owned());
                true
            }
            _ => false,
        });
    });
    assert!(empty.ends_with("was never submitted by its producer"), "{empty}");
    for end in [End::Failed, End::SucceededPartially, End::Cancelled, End::Rejected] {
        let wrong = seen(is_result, |_, one| {
            let Outcome::Result(ended) = &mut one.outcome else { panic!("no result") };
            ended.end = end;
        });
        assert_eq!(wrong, "the outcome does not follow from the record", "{end:?}");
    }
}

#[test]
fn a_time_that_is_not_over_is_seen() {
    let (mut room, mut decided) = held();
    let deadline = decided.iter().find_map(|one| {
        one.record.iter().find_map(|kept| match &kept.message {
            Message::Inject(inject) => Some(inject.task.deadline),
            _ => None,
        })
    });
    let deadline = deadline.expect("a task was decided about");
    let result = decided.iter_mut().find(|one| is_result(&one.subject)).unwrap();
    let Outcome::Result(ended) = &mut result.outcome else { panic!("no result") };
    ended.parts.iter_mut().for_each(|part| *part = None);
    (ended.end, ended.root) = (End::Failed, skep_swarm::aggregate::root(&ended.parts));
    room.now = deadline;
    assert_eq!(audit(&room, &decided), Vec::<String>::new());
    room.now = Timestamp::from_ms(deadline.as_ms() - 1);
    let early = format!("all have signed that the time is over before {deadline}, its end");
    assert_eq!(audit(&room, &decided), [early.as_str()]);
    let plan = decided.iter_mut().find(|one| is_plan(&one.subject)).unwrap();
    plan.outcome = Outcome::Plan(Chosen::TooLate);
    let found = audit(&room, &decided);
    assert!(found.contains(&early), "{found:?}");
}

#[test]
fn two_outcomes_of_one_thing_are_seen() {
    for about in [is_plan, is_result, is_election] {
        let (room, mut decided) = held();
        let one = decided.iter().find(|one| about(&one.subject)).unwrap();
        let (view, mut outcome) = (one.view + 1, one.outcome.clone());
        let (subject, record) = (one.subject.clone(), one.record.clone());
        match &mut outcome {
            Outcome::Plan(chosen) => *chosen = Chosen::TooLate,
            Outcome::Election(elected) => elected.epoch += 1,
            Outcome::Result(ended) => {
                ended.parts.iter_mut().for_each(|part| *part = None);
                (ended.end, ended.root) = (End::Failed, skep_swarm::aggregate::root(&ended.parts));
            }
            Outcome::Succession(_) => {}
        }
        decided.push(Decided { view, subject, outcome, record });
        assert_eq!(audit(&room, &decided), ["there are two outcomes"]);
    }
}

/// Two of a branch, each with everybody's signatures: as certificates, or one of them in the record
/// of a board.
#[test]
fn two_successors_of_one_leader_are_seen() {
    let (room, mut decided) = held();
    let founding = Epoch::founding(&room.genesis);
    let branch_of = |leader: &Did| succession::branch_of(&founding, leader);
    let leader = founding.tier1().iter().find(|leader| branch_of(leader).len() > 1);
    let leader = *leader.expect("somebody leads two");
    let branch = branch_of(&leader);
    let follows = |new_leader: Did| Succession {
        failed_leader: leader,
        new_leader,
        epoch: 1,
        branch_agents: branch.clone(),
    };
    let subject = Subject::Succession { epoch: 1, leader };
    let decide = |new_leader: Did| Decided {
        view: 0,
        subject: subject.clone(),
        outcome: Outcome::Succession(follows(new_leader)),
        record: Vec::new(),
    };
    let plan = decided.iter().position(|one| is_plan(&one.subject)).unwrap();
    decided.push(decide(branch[0]));
    assert_eq!(audit(&room, &decided), Vec::<String>::new());
    decided.push(decide(branch[1]));
    assert_eq!(audit(&room, &decided), ["there are two outcomes"]);
    decided.pop();

    let value = succession::value_of(&follows(branch[1]));
    let word = Word::Sign { step: Step::Commit, hash: value.hash() };
    let signed = Message::Certificate(Certificate { subject: subject.clone(), view: 0, word });
    let record = &mut decided[plan].record;
    record.extend(room.keys.values().map(|key| room.seal(key, signed.clone())));
    let said = Message::Succession(follows(branch[1]));
    record.push(room.seal(&room.keys[&branch[1]], said));
    assert_eq!(audit(&room, &decided), ["there are two outcomes"]);
}
