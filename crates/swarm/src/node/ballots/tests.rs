use skep_base::hash::sha256;

use super::*;

fn said(n: u8, count: usize, len: usize) -> Said {
    Said { did: Did::from_fingerprint(sha256(&[n])), count, len }
}

#[test]
fn who_writes_too_much_is_left_out_and_nobody_else() {
    let names = |said: &[Said], count_max, len_max| -> Vec<bool> {
        let chosen = with_room(said, count_max, len_max);
        said.iter().map(|said| chosen.contains(&said.did)).collect()
    };
    let all = [said(1, 2, 10), said(2, 2, 10), said(3, 2, 90), said(4, 2, 10)];
    assert_eq!(names(&all, 100, 1_000), [true, true, true, true]);
    assert_eq!(names(&all, 100, 120), [true, true, true, true]);
    assert_eq!(names(&all, 100, 119), [true, true, true, false]);
    assert_eq!(names(&all, 100, 109), [true, true, false, true]);
    assert_eq!(names(&all, 4, 1_000), [true, true, false, false]);
}
