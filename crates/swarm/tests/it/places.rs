//! Which echoes move a node.

use std::time::Duration;

use skep_wire::swarm::{Echo, Keepalive, Location, Message, Share};

use super::room::{Room, start};

#[test]
fn only_echoes_that_can_be_true_move_a_node() {
    let mut room = Room::new(4);
    // The first one spoke before it heard the last one, and has not echoed it yet.
    let [first, .., me] = room.nodes.keys().copied().collect::<Vec<_>>()[..] else { panic!() };
    let other = room.keys[&first].clone();
    // This node's keepalive left a second ago.
    assert_eq!(room.now, start().plus(Duration::from_secs(1)));
    let before = *room.nodes[&me].place();
    let mut hears = |timestamp, held_ms, about| {
        room.now = room.now.plus(Duration::from_millis(1));
        let echoes = vec![Echo { agent_id: about, timestamp, held_ms }];
        let said = Keepalive {
            location_vector: Some(Location::default()),
            location_error: Share::ONE,
            echoes,
            ..Keepalive::new(other.public().did(), 1, room.now)
        };
        let sealed = room.seal(&other, Message::Keepalive(said));
        room.deliver(&me, sealed);
        *room.nodes[&me].place()
    };
    let (sent, never) = (start(), start().plus(Duration::from_millis(500)));
    assert_eq!(hears(never, 440, me), before, "it sent nothing then");
    assert_eq!(hears(sent, 1_003, me), before, "kept longer than it was away");
    assert_eq!(hears(sent, 0, me), before, "longer than any round trip");
    assert_eq!(hears(sent, 940, other.public().did()), before, "meant for another");
    let moved = hears(sent, 945, me);
    assert_ne!(moved.at, before.at);
    assert!(moved.error <= before.error);
    assert_eq!(hears(sent, 946, me), moved, "one keepalive is measured once");
}
