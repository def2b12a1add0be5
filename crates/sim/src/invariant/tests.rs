use skep_base::Timestamp;
use skep_wire::swarm::{Artifact, End, Meta, PlanVote};

use super::*;
use crate::seal::{Key, Signatures};

fn did(number: u8) -> Did {
    Did::from_fingerprint(Hash32([number; 32]))
}

fn plan(name: &str, record: Vec<Hash32>) -> Event {
    let chosen = Chosen::Plan { plan_id: name.to_owned(), proposer: did(1) };
    let value = Value { outcome: Outcome::Plan(chosen), record };
    Event::PlanDecided { task_id: "t".to_owned(), value }
}

/// A part and the message that its producer has sent.
fn delivered(task_id: &str) -> (Option<Artifact>, Arc<Signed>) {
    let (key, content) = (Key::derive(Signatures::Fast, 1, 2), format!("content of {task_id}"));
    let artifact = Artifact {
        artifact_id: format!("artifact of {task_id}"),
        task_id: task_id.to_owned(),
        producer: key.did,
        content_cid: aggregate::cid(content.as_bytes()),
        merkle_hash: aggregate::content_root(content.as_bytes()),
        content_type: "text/plain".to_owned(),
        size_bytes: content.len() as u64,
        created_at: Timestamp::from_ms(1),
    };
    let result = SubmitResult {
        task_id: task_id.to_owned(),
        agent_id: key.did,
        artifact: artifact.clone(),
        merkle_proof: Vec::new(),
        content: Some(content),
        parts: Vec::new(),
    };
    let sent_at = Timestamp::from_ms(1);
    let meta = Meta { signer: key.did, swarm: "s".to_owned(), epoch: 1, sent_at };
    let sent = Signed::seal(meta, Message::SubmitResult(result), Vec::new(), &key);
    (Some(artifact), Arc::new(sent))
}

fn part(task_id: &str) -> Option<Artifact> {
    delivered(task_id).0
}

fn end(end: End, parts: Vec<Option<Artifact>>) -> Event {
    let ended = Ended { end, root: aggregate::root(&parts), parts };
    Event::Ended { task_id: "t".to_owned(), ended }
}

/// What the events, by node, break.
fn broken(events: &[(usize, Event)]) -> Vec<Invariant> {
    let mut watch = Watch::new("replay".to_owned());
    ["t-st-1", "t-st-3"].iter().for_each(|id| watch.see(&delivered(id).1));
    events.iter().for_each(|(node, event)| watch.observe(5, *node, event, Some(10)));
    watch.pass_time(10);
    watch.into_violations().into_iter().map(|violation| violation.invariant).collect()
}

#[test]
fn nodes_that_agree_break_nothing() {
    let all = vec![part("t-st-1"), None, part("t-st-3")];
    let ended = end(End::SucceededPartially, all);
    let story = [(0, plan("p", vec![])), (1, plan("p", vec![])), (0, ended.clone()), (1, ended)];
    assert_eq!(broken(&story), []);
}

#[test]
fn each_contradiction_is_named() {
    let two_plans = [(0, plan("p", vec![])), (1, plan("q", vec![]))];
    assert_eq!(broken(&two_plans), [Invariant::OnePlan]);

    let twice = plan("p", vec![Hash32([1; 32]), Hash32([2; 32]), Hash32([1; 32])]);
    assert_eq!(broken(&[(0, twice)]), [Invariant::BallotOnce]);

    let done = vec![part("t-st-1")];
    let two_ends = [(0, end(End::Succeeded, done.clone())), (1, end(End::Failed, done.clone()))];
    assert_eq!(broken(&two_ends), [Invariant::TaskOnce]);
    let done_twice = end(End::Succeeded, vec![part("t-st-1"), part("t-st-1")]);
    assert_eq!(broken(&[(0, done_twice)])[0], Invariant::TaskOnce);

    let Event::Ended { task_id, mut ended } = end(End::Succeeded, done) else { panic!() };
    ended.root = Hash32::ZERO;
    assert_eq!(broken(&[(0, Event::Ended { task_id, ended })]), [Invariant::RootMatches]);

    let undelivered = end(End::Succeeded, vec![None, part("t-st-2")]);
    assert_eq!(broken(&[(0, undelivered)]), [Invariant::RootMatches]);
    let misplaced = end(End::Succeeded, vec![part("t-st-3")]);
    assert_eq!(broken(&[(0, misplaced)]), [Invariant::RootMatches]);

    let follows = |number| Event::Succession { epoch: 1, leader: did(1), successor: did(number) };
    assert_eq!(broken(&[(0, follows(2)), (1, follows(3))]), [Invariant::OneSuccessor]);
    let elected = |number| Event::Elected { epoch: 2, hash: Hash32([number; 32]) };
    assert_eq!(broken(&[(0, elected(2)), (1, elected(3))]), [Invariant::OneSuccessor]);
}

#[test]
fn what_was_begun_is_overdue_until_it_ends() {
    let mut watch = Watch::new(String::new());
    watch.observe(5, 3, &plan("p", vec![]), Some(10));
    watch.pass_time(10);
    assert!(watch.has_open());
    watch.pass_time(11);
    assert!(!watch.has_open());
    let found = watch.into_violations();
    assert_eq!((found[0].invariant, found[0].node), (Invariant::EndsInTime, Some(3)));
}

#[test]
fn a_ballot_of_another_task_does_not_count() {
    let key = Key::derive(Signatures::Fast, 1, 1);
    let vote = PlanVote {
        task_id: "another".to_owned(),
        epoch: 1,
        voter: key.did,
        rankings: Vec::new(),
        critic_scores: BTreeMap::new(),
    };
    let sent_at = Timestamp::from_ms(1);
    let meta = Meta { signer: key.did, swarm: "s".to_owned(), epoch: 1, sent_at };
    let ballot = Arc::new(Signed::seal(meta, Message::PlanVote(vote), Vec::new(), &key));
    let mut watch = Watch::new(String::new());
    watch.see(&ballot);
    watch.observe(5, 0, &plan("p", vec![ballot.hash()]), Some(10));
    assert_eq!(watch.into_violations()[0].invariant, Invariant::BallotOnce);
}

#[test]
fn a_client_knows_what_the_nodes_know() {
    let mut watch = Watch::new(String::new());
    let event = end(End::Failed, vec![None]);
    watch.observe(5, 0, &event, Some(10));
    let Event::Ended { ended, .. } = event else { panic!("an end") };
    watch.compare(6, "t", &Known::Ended(ended.clone()));
    assert_eq!(watch.violations, []);
    watch.compare(6, "t", &Known::Ended(Ended { end: End::Succeeded, ..ended }));
    assert_eq!(watch.into_violations()[0].invariant, Invariant::TaskOnce);
}
