//! Who takes part and who leads: handshakes, elections, tiers, keepalives, succession.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use skep_base::{Did, ed25519::SecretKey};
use skep_swarm::{layout, node::Event, pow, score as scores, tally};
use skep_wire::swarm::{
    ErrorCode, Evidence, Handshake, Location, Message, PROTOCOL_VERSION, ProofOfWork, Resources,
    Score, Share,
};

use super::{
    World,
    room::{Room, score, secret},
};

pub fn hello(key: &SecretKey, proof_of_work: ProofOfWork) -> Message {
    Message::Handshake(Handshake {
        agent_id: key.public().did(),
        pub_key: key.public(),
        key_chain: Vec::new(),
        capabilities: Vec::new(),
        resources: Resources::default(),
        location_vector: Location::default(),
        proof_of_work,
        protocol_version: PROTOCOL_VERSION.to_owned(),
        evidence: Evidence::default(),
    })
}

pub async fn a_handshake_shows_work_and_a_version(_: &World) -> Result<String> {
    let stranger = secret(100);
    let did = stranger.public().did();
    let good = pow::solve(&did, pow::DIFFICULTY_MIN);
    ensure!(pow::DIFFICULTY_MIN == 16, "{} bits are asked for", pow::DIFFICULTY_MIN);
    ensure!(good.hash.0.starts_with(&[0, 0]), "{} does not begin with 16 zero bits", good.hash);
    ensure!(pow::check(&did, &good, 16), "a good proof is refused");
    let others = secret(101).public().did();
    ensure!(!pow::check(&others, &good, 16), "a proof counts for another agent");
    let mut room = Room::new(4);
    let to = room.leader()?;
    let first = room.seal(&stranger, hello(&stranger, good.clone()));
    ensure!(room.give(&to, first).is_none(), "a good handshake is refused");
    let Message::Handshake(mut other) = hello(&stranger, good) else { unreachable!() };
    other.protocol_version = "/openswarm/2.0.0".to_owned();
    let other = room.seal(&stranger, Message::Handshake(other));
    let code = room.give(&to, other);
    ensure!(code == Some(ErrorCode::InvalidRequest), "another major version: {code:?}");
    Ok("16 zero bits, for one agent; another major version is refused".to_owned())
}

pub async fn the_composite_score_is_the_formula(_: &World) -> Result<String> {
    let said = Score {
        proof_of_compute: Share::percent(85),
        reputation: Share::percent(92),
        uptime: Share::percent(99),
        stake: Share::percent(50),
        ..score(secret(0).public().did())
    };
    // 0.25 * 0.85 + 0.40 * 0.92 + 0.20 * 0.99 + 0.15 * 0.50
    let composite = scores::composite(&said);
    ensure!(composite.e6() == 853_500, "the specification's example is {composite}");
    let low = Share::from_e6(499_999);
    ensure!(scores::may_stand(&said), "a good score may not stand");
    ensure!(!scores::may_stand(&Score { uptime: low, ..said.clone() }), "half away may stand");
    let zero = Share::ZERO;
    let weak = Score { proof_of_compute: zero, reputation: zero, stake: zero, ..said };
    ensure!(!scores::may_stand(&weak), "{} may stand", scores::composite(&weak));
    Ok(format!("{composite} for the specification's example; minima of 0.3 and 0.5"))
}

pub async fn leaders_are_elected_by_weighted_borda(_: &World) -> Result<String> {
    let dids: Vec<Did> = (0..4).map(|n| secret(n).public().did()).collect();
    let candidates: BTreeMap<Did, Share> =
        dids[..3].iter().map(|did| (*did, Share::percent(50))).collect();
    let (half, whole) = (Share::percent(50), Share::ONE);
    let votes = vec![
        (dids[3], whole, vec![dids[1], dids[0], dids[2]]),
        (dids[0], half, vec![dids[2], dids[1]]),
    ];
    let won = tally::borda(&candidates, &votes, 3);
    // Of three the first gets 2 points and the second 1; of two the first 1, with half the weight.
    let expected = BTreeMap::from([(dids[1], 2_000_000), (dids[0], 1_000_000), (dids[2], 500_000)]);
    ensure!(won.iter().copied().collect::<BTreeMap<_, _>>() == expected, "{won:?}");
    ensure!(won.first().map(|first| first.0) == Some(dids[1]), "{won:?}");
    Ok("(C-1), (C-2), … times the voter's own score".to_owned())
}

pub async fn every_epoch_has_its_election_and_tiers(world: &World) -> Result<String> {
    let room = &world.elected;
    let epoch = room.epoch();
    ensure!(epoch.number() == 2, "the newest election is that of epoch {}", epoch.number());
    let beacons: BTreeSet<_> = room.nodes.values().map(|node| node.epoch().beacon).collect();
    ensure!(beacons.len() == 1, "{} different outcomes", beacons.len());
    let spec = layout::tier_sizes(850, 10);
    ensure!(spec == [10, 100, 740], "850 agents are {spec:?}");
    let placed = room.said(|said| match said {
        Message::AssignTier(place) => Some(place),
        _ => None,
    });
    ensure!(placed.len() == 9, "{} of nine were told their place", placed.len());
    for (signer, place) in placed {
        ensure!(signer == place.parent_id, "somebody else than the parent told it");
        let layout = epoch.layout();
        ensure!(layout.tier_of(&place.assigned_agent) == Some(place.tier), "another tier");
    }
    let report = room.audit()?;
    ensure!(report.elections == [2] && report.differences.is_empty(), "{report:?}");
    let leaders = epoch.tier1().len();
    Ok(format!(
        "{leaders} leaders, others told their tier by their parents; auditors elect the same"
    ))
}

pub async fn keepalives_come_every_ten_seconds(_: &World) -> Result<String> {
    let mut room = Room::new(4);
    room.sent.clear();
    room.run(60);
    let alive = room.said(|said| matches!(said, Message::Keepalive(_)).then_some(()));
    ensure!(alive.len() == 4 * 6, "{} in a minute of four members", alive.len());
    let timing = &room.genesis.timing;
    ensure!(timing.silence_ms == 3 * timing.keepalive_ms, "{} ms of silence", timing.silence_ms);
    Ok("six in a minute from each member; three missed ones are silence".to_owned())
}

pub async fn a_silent_leader_has_one_successor(_: &World) -> Result<String> {
    let mut room = Room::new(12);
    let epoch = room.epoch();
    let leads = |did: &&Did| !epoch.layout().children_of(did).is_empty();
    let leader = *epoch.tier1().iter().find(leads).context("nobody has a branch")?;
    room.run(20);
    room.nodes.remove(&leader);
    let successor = |(_, event): &(Did, Event)| match event {
        Event::Succession { leader: of, successor, .. } if *of == leader => Some(*successor),
        _ => None,
    };
    room.run(25);
    let early = room.events.iter().filter_map(successor).count();
    ensure!(early == 0, "a successor before three keepalives were missed");
    room.run(120);
    let found: BTreeSet<Did> = room.events.iter().filter_map(successor).collect();
    ensure!(found.len() == 1, "{} successors", found.len());
    let one = found.first().context("no successor")?;
    ensure!(epoch.layout().children_of(&leader).contains(one), "it is not of the branch");
    let told = room.said(|said| matches!(said, Message::Succession(_)).then_some(()));
    ensure!(!told.is_empty(), "nobody was told");
    let audited = room.audit()?;
    ensure!(audited.successions == 1 && audited.differences.is_empty(), "{audited:?}");
    Ok("one of the branch, signed by two thirds, and by no sooner than 30 s".to_owned())
}
