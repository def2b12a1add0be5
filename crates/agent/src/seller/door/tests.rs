use super::*;

#[test]
fn a_whole_network_is_one_caller() {
    let gate = Gate::new(false, "", 1);
    let of = |host: u128| IpAddr::V6(((0x2001_0db8 << 96) | host).into());
    for host in 0..CONNECTIONS_PER_ADDRESS as u128 {
        assert!(gate.connect(of(host)));
    }
    assert!(!gate.connect(of(1 << 40)), "another address of the same /64");
    assert!(gate.connect(of(1 << 64)), "the /64 beside it");
    gate.disconnect(of(7));
    assert!(gate.connect(of(8)));
}

#[tokio::test]
async fn one_caller_cannot_take_all_places_for_long_bodies() {
    let gate = Gate::new(false, "", 1);
    let (greedy, other) = (IpAddr::from([203, 0, 113, 1]), IpAddr::from([203, 0, 113, 2]));
    let mut rooms = Vec::new();
    for _ in 0..BODIES_PER_ADDRESS {
        rooms.push(gate.place(greedy).await.unwrap());
    }
    assert_eq!(gate.place(greedy).await.err().unwrap().code, "busy");
    assert!(gate.place(other).await.is_ok());
    rooms.pop();
    assert!(gate.place(greedy).await.is_ok(), "a place that was left is free again");
}
