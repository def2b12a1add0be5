//! Elections at their edges: of one, of two, of equals, and of nobody.

use skep_base::{Did, hash::json_sha256};
use skep_swarm::{
    draw::quorum,
    election::{MISSED_MAX, elect},
    epoch::Epoch,
    kept::Kept,
    node::Event,
    score::WEIGHT_MIN,
};
use skep_wire::swarm::{
    Candidacy, Elected, ElectionVote, End, Evidence, Keepalive, Location, Message, Observed, Share,
};

use super::room::{Room, id, score, secret};

/// Lets so many epochs pass, and a little more.
fn live(room: &mut Room, epochs: u64) {
    let seconds = room.genesis.timing.epoch_ms * epochs / 1_000 + 30;
    room.run(u32::try_from(seconds).expect("some hours"));
}

#[test]
fn however_few_there_are_they_elect_themselves_again_and_again() {
    for n in [1, 2, 3] {
        let mut room = Room::new(n);
        live(&mut room, 3);
        for node in room.nodes.values() {
            let epoch = node.epoch();
            assert_eq!(epoch.number(), room.genesis.epoch_at(room.now), "{n} nodes");
            assert_eq!((epoch.members().len(), epoch.tier1().len()), (n.into(), n.into()));
        }
        // And they still work.
        let client = secret(100);
        let message = room.seal(&client, room.inject(&client, room.task("late")));
        let chair = room.tier1()[0];
        room.deliver(&chair, message);
        room.run(60);
        let succeeded = |event: &Event| {
            matches!(event, Event::Ended { task_id, ended }
                if *task_id == id("late") && ended.end == End::Succeeded)
        };
        assert!(room.events.iter().any(|(_, event)| succeeded(event)), "{n} nodes");
    }
}

#[test]
fn where_nobody_stands_or_votes_those_in_office_stay() {
    let room = Room::new(9);
    let founding = Epoch::founding(&room.genesis);
    let elected = elect(&founding, &room.genesis, 2, &[]);
    assert_eq!(elected.tier1, founding.tier1());
    assert!(elected.members.iter().all(|member| member.missed == 1), "{elected:?}");
    // Whoever misses election after election is no member in the end, and so nobody is left.
    let next = |elected: Elected| Epoch::shared(elected.clone(), json_sha256(&elected).unwrap());
    let mut epoch = next(elected);
    for number in 3..3 + u64::from(MISSED_MAX) {
        epoch = next(elect(&epoch, &room.genesis, number, &[]));
    }
    assert_eq!((epoch.members().len(), epoch.tier1().len()), (0, 0));
}

#[test]
fn where_nobody_may_stand_those_who_vote_stay_members() {
    let mut room = Room::new(5);
    // Nobody does the work that a candidate must have done.
    room.idle = room.keys.keys().copied().collect();
    let before = room.tier1();
    live(&mut room, 2);
    let epoch = room.any().epoch();
    assert_eq!(epoch.number(), 3);
    assert_eq!(epoch.members().len(), 5);
    assert_eq!(epoch.tier1().len(), before.len());
}

/// The record of an election in which one stands, and everybody says what it has seen of it.
fn seen_by(room: &Room, did: &Did, seen: impl Fn(&Did) -> Observed) -> Vec<Kept> {
    let candidacy = Message::Candidacy(Candidacy {
        agent_id: *did,
        epoch: 2,
        score: score(*did),
        location_vector: Location::default(),
        evidence: Evidence::default(),
        published: Vec::new(),
    });
    let mut record = vec![Kept(room.seal(&room.keys[did], candidacy))];
    for (voter, key) in &room.keys {
        let vote = Message::ElectionVote(ElectionVote {
            voter: *voter,
            epoch: 2,
            candidate_rankings: vec![*did],
            observed: [(*did, seen(voter))].into(),
            location_vector: None,
        });
        record.push(Kept(room.seal(key, vote)));
    }
    record
}

/// As many as may lie say that they have never seen a member: it stands all the same, whoever they
/// are.
#[test]
fn a_third_that_lies_about_a_member_cuts_nothing() {
    let room = Room::new(10);
    let founding = Epoch::founding(&room.genesis);
    for did in founding.members() {
        let liars = &founding.attesters(did)[..3];
        let seen = |voter: &Did| match liars.contains(voter) {
            true => Observed { uptime: Share::ZERO, proof_of_compute: Share::ZERO },
            false => Observed { uptime: Share::ONE, proof_of_compute: Share::ONE },
        };
        let elected = elect(&founding, &room.genesis, 2, &seen_by(&room, did, seen));
        assert_eq!(elected.tier1.first(), Some(did));
        let member = elected.members.iter().find(|member| member.did == *did).unwrap();
        assert_eq!(member.weight, Share::percent(45));
    }
}

/// What a leader that lies can have signed: all stand, as many ballots as possible are missing, and
/// liars have seen their friends only.
fn few_ballots(room: &Room, liars: &[Did], missing: &[Did]) -> Vec<Kept> {
    let candidacy = |did: &Did| {
        Message::Candidacy(Candidacy {
            agent_id: *did,
            epoch: 2,
            score: score(*did),
            location_vector: Location::default(),
            evidence: Evidence::default(),
            published: Vec::new(),
        })
    };
    let share = |is: bool| if is { Share::ONE } else { Share::ZERO };
    let vote = |voter: &Did| {
        let seen = |did: &Did| share(!liars.contains(voter) || liars.contains(did));
        let observed =
            |did: &Did| (*did, Observed { uptime: seen(did), proof_of_compute: seen(did) });
        Message::ElectionVote(ElectionVote {
            voter: *voter,
            epoch: 2,
            candidate_rankings: Vec::new(),
            observed: room.keys.keys().filter(|did| *did != voter).map(observed).collect(),
            location_vector: None,
        })
    };
    let all = room.keys.iter();
    let stand = all.clone().map(|(did, key)| Kept(room.seal(key, candidacy(did))));
    let voters = all.filter(|(did, _)| !missing.contains(did));
    stand.chain(voters.map(|(did, key)| Kept(room.seal(key, vote(did))))).collect()
}

/// A leader that lies finds enough witnesses without as many ballots as there are liars. Nobody is
/// cut by that, whoever is left out, and nobody is a member no more.
#[test]
fn ballots_that_are_left_out_cut_nobody() {
    for n in [4, 5, 6, 7, 10, 31, 64] {
        let room = Room::new(n);
        let founding = Epoch::founding(&room.genesis);
        let members = founding.members();
        let spare = members.len() - quorum(members.len());
        let liars = &founding.members()[..(members.len() - 1) / 3];
        let honest = &founding.members()[liars.len()..];
        for missing in [&honest[..spare], &honest[honest.len() - spare..]] {
            let record = few_ballots(&room, liars, missing);
            let elected = elect(&founding, &room.genesis, 2, &record);
            for member in &elected.members {
                let expected = (Share::percent(45), 0);
                assert_eq!((member.weight, member.missed), expected, "{n}, {}", member.did);
            }
        }
    }
}

/// In a large swarm whoever leads can leave out every ballot but those of the witnesses and of its
/// friends: two of the five who watch a member neither cut nor expel it.
#[test]
fn two_of_five_cut_nobody_when_the_others_are_left_out() {
    let room = Room::new(70);
    let founding = Epoch::founding(&room.genesis);
    for did in founding.members() {
        let watch = founding.attesters(did);
        let missing: Vec<Did> =
            founding.members().iter().filter(|did| !watch[..2].contains(did)).copied().collect();
        let record = few_ballots(&room, &watch[..2], &missing);
        let elected = elect(&founding, &room.genesis, 2, &record);
        let member = elected.members.iter().find(|member| member.did == *did).unwrap();
        assert_eq!((member.weight, member.missed), (Share::percent(45), 0));
    }
}

/// Who is away is a member no more after some elections, however many liars have heard it.
#[test]
fn who_is_not_heard_leaves_in_the_end() {
    let room = Room::new(10);
    let founding = Epoch::founding(&room.genesis);
    let (gone, liars) = (founding.members()[9], &founding.members()[..3]);
    let vote = |voter: &Did| {
        let uptime = if liars.contains(voter) { Share::ONE } else { Share::ZERO };
        Message::ElectionVote(ElectionVote {
            voter: *voter,
            epoch: 2,
            candidate_rankings: Vec::new(),
            observed: [(gone, Observed { uptime, proof_of_compute: uptime })].into(),
            location_vector: None,
        })
    };
    // Two more ballots are left out: the least that a quorum signs.
    let voters = room.keys.iter().filter(|(did, _)| founding.members()[..7].contains(did));
    let record: Vec<Kept> = voters.map(|(did, key)| Kept(room.seal(key, vote(did)))).collect();
    let elected = elect(&founding, &room.genesis, 2, &record);
    let member = elected.members.iter().find(|member| member.did == gone).unwrap();
    assert_eq!(member.missed, 1);
}

/// Who was there for a moment and said so as often as for an hour was there for a moment.
#[test]
fn many_keepalives_at_once_are_one() {
    let mut room = Room::new(5);
    let [gone, watcher] = [0, 1].map(|at| room.any().epoch().members()[at]);
    room.nodes.remove(&gone);
    for ms in 1..=360 {
        let at = room.now.plus(std::time::Duration::from_millis(ms));
        let keepalive = Message::Keepalive(Keepalive::new(gone, 1, at));
        let keepalive = room.seal(&room.keys[&gone], keepalive);
        room.deliver(&watcher, keepalive);
    }
    live(&mut room, 1);
    let seen = room.sent.iter().find_map(|sent| match &sent.message {
        Message::ElectionVote(vote) if vote.voter == watcher => vote.observed.get(&gone),
        _ => None,
    });
    let uptime = seen.expect("it was heard").uptime;
    assert!(Share::ZERO < uptime && uptime < Share::percent(2), "{uptime:?}");
}

/// Decision 44a: who shows nothing weighs least, whatever it has shown in elections before.
#[test]
fn who_shows_nothing_any_more_weighs_least() {
    let room = Room::new(5);
    let mut before = Epoch::founding(&room.genesis).elected.clone();
    before.members.iter_mut().for_each(|member| member.weight = Share::ONE);
    let before = Epoch::shared(before.clone(), json_sha256(&before).unwrap());
    let did = before.members()[0];
    let seen = Observed { uptime: Share::ONE, proof_of_compute: Share::percent(60) };
    let record = seen_by(&room, &did, |_| seen);
    for member in elect(&before, &room.genesis, 2, &record).members {
        // A fifth for being there, a quarter of what it has computed.
        let expected = if member.did == did { Share::percent(35) } else { WEIGHT_MIN };
        assert_eq!(member.weight, expected);
    }
}

#[test]
fn equals_are_elected_alike_everywhere() {
    let mut room = Room::new(6);
    live(&mut room, 1);
    let mut winners = Vec::new();
    for node in room.nodes.values() {
        winners.push(node.epoch().tier1().to_vec());
    }
    winners.dedup();
    assert_eq!(winners.len(), 1, "all have elected the same");
    let weights: Vec<_> = room.any().epoch().elected.members.iter().map(|m| m.weight).collect();
    assert!(weights.iter().all(|weight| *weight == weights[0]), "{weights:?}");
    let voted = room.sent.iter().any(|sent| matches!(sent.message, Message::ElectionVote(_)));
    assert!(voted);
}
