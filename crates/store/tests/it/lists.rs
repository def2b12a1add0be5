use std::time::Duration;

use skep_store::{Decision, Listed, Options, Outcome, Store, Turn};

use crate::{
    fixture::{Fixture, START_MS, call},
    on_both_engines,
};

const SECOND: Duration = Duration::from_secs(1);

/// One call that does to lists what the words say: `+a` puts `a` on, `-a` takes it off.
async fn change(store: &Store, list: &'static str, words: &'static str) {
    let done = store.call(changing(list, words)).await.unwrap();
    assert!(matches!(done, Outcome::Done(_)));
}

fn changing(list: &'static str, words: &'static str) -> skep_store::Call {
    let mut call = call(vec![]);
    call.step = Box::new(move |turn: &mut Turn| {
        for word in words.split(' ') {
            match word.split_at(1) {
                ("+", member) => turn.enlist(list, member),
                ("-", member) => turn.delist(list, member),
                _ => panic!("{word}"),
            }
        }
        Ok(Decision::Commit("done".to_owned()))
    });
    call
}

/// `member@seconds` of a whole list.
async fn shown(store: &Store, list: &str) -> String {
    show(&store.listed(list, None, 100).await.unwrap())
}

fn show(listed: &[Listed]) -> String {
    let line = |l: &Listed| format!("{}@{}", l.member, (l.at.as_ms() - START_MS) / 1000);
    listed.iter().map(line).collect::<Vec<_>>().join(" ")
}

/// Calls that wait together are one group: what they write is one write set.
async fn the_last_word_of_a_group_counts(s: Store) {
    for round in 0..50 {
        let words = ["+a +b", "-a", "-b", "+b", "+a", "-a +c", "-c +c"];
        let (groups, _) = s.commits();
        let sent = words.map(|words| s.call(changing("wait", words)));
        for done in futures_util::future::join_all(sent).await {
            done.unwrap();
        }
        assert_eq!(shown(&s, "wait").await, "b@0 c@0", "round {round}");
        if s.commits().0 - groups == 1 {
            return;
        }
    }
    panic!("the calls never met in one group");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_word_of_a_group_counts_on_sqlite() {
    the_last_word_of_a_group_counts(Fixture::sqlite().await.store).await;
}

/// One lane: two may commit their groups in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_word_of_a_group_counts_on_postgres() {
    let f = Fixture::postgres().await;
    let options = Options { clock: Some(f.clock.clone()), lanes: 1, ..Options::default() };
    the_last_word_of_a_group_counts(Store::open(&f.url, options).await.unwrap()).await;
}

on_both_engines! {
    async fn a_list_is_read_oldest_first_and_each_member_once(f: Fixture) {
        let s = &f.store;
        change(s, "wait", "+b +a").await;
        f.clock.advance(SECOND);
        change(s, "wait", "+Z +c +a").await;
        change(s, "other", "+x").await;
        f.clock.advance(SECOND);
        change(s, "wait", "+b").await;
        assert_eq!(shown(s, "wait").await, "a@0 b@0 Z@1 c@1", "who waits keeps its place");
        assert_eq!(shown(s, "other").await, "x@1");
        assert_eq!(shown(s, "none").await, "");
        let (count, oldest) = s.list_len("wait").await.unwrap();
        assert_eq!((count, oldest.unwrap().as_ms()), (4, START_MS));
        assert_eq!(s.list_len("none").await.unwrap(), (0, None));
    }

    async fn pages_of_a_list_show_every_member_once(f: Fixture) {
        let s = &f.store;
        change(s, "wait", "+a +b +c").await;
        f.clock.advance(SECOND);
        change(s, "wait", "+aa +d").await;
        for limit in 1..=6 {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let page = s.listed("wait", after, limit).await.unwrap();
                assert!(page.len() <= limit);
                let Some(last) = page.last() else { break };
                after = Some((last.at.as_ms(), last.member.clone()));
                seen.extend(page);
            }
            assert_eq!(show(&seen), "a@0 b@0 c@0 aa@1 d@1", "{limit} at a time");
        }
    }

    async fn who_is_taken_off_is_gone_and_comes_back_as_the_youngest(f: Fixture) {
        let s = &f.store;
        change(s, "wait", "+a +b").await;
        change(s, "wait", "-a -nobody").await;
        assert_eq!(shown(s, "wait").await, "b@0");
        f.clock.advance(SECOND);
        change(s, "wait", "+a").await;
        assert_eq!(shown(s, "wait").await, "b@0 a@1");
        f.clock.advance(SECOND);
        change(s, "wait", "-b +b").await;
        assert_eq!(shown(s, "wait").await, "a@1 b@2");
    }

    async fn the_last_word_of_a_turn_counts(f: Fixture) {
        let s = &f.store;
        change(s, "wait", "+old").await;
        f.clock.advance(SECOND);
        change(s, "wait", "+a -a +b -b +b -old +old -old").await;
        assert_eq!(shown(s, "wait").await, "b@1");
    }

    async fn a_refusal_changes_no_list(f: Fixture) {
        let s = &f.store;
        let mut refused = changing("wait", "+a");
        let mut step = refused.step;
        refused.step = Box::new(move |turn| {
            step(turn)?;
            Ok(Decision::Refuse("no".to_owned()))
        });
        s.call(refused).await.unwrap();
        assert_eq!(shown(s, "wait").await, "");
    }
}
