//! Lists of what waits for somebody, oldest first.

use std::collections::BTreeMap;

use skep_base::Timestamp;

/// A member of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub member: String,
    /// When it was put on the list.
    pub at: Timestamp,
}

/// What becomes of one member: it is taken off first, then put on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Change {
    off: bool,
    on: bool,
}

/// What a turn, or a whole group, does to lists. The last word about a member counts; one that is
/// taken off and put on again gets a new place, so that it does not overtake others.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListChanges(BTreeMap<(String, String), Change>);

impl ListChanges {
    pub(crate) fn enlist(&mut self, list: &str, member: String) {
        self.0.entry((list.to_owned(), member)).or_default().on = true;
    }

    pub(crate) fn delist(&mut self, list: &str, member: String) {
        self.0.insert((list.to_owned(), member), Change { off: true, on: false });
    }

    /// Adds what came after.
    pub(crate) fn extend(&mut self, later: ListChanges) {
        for (key, change) in later.0 {
            let earlier = self.0.entry(key).or_default();
            let on = change.on || (earlier.on && !change.off);
            *earlier = Change { off: earlier.off || change.off, on };
        }
    }

    /// (list, member) pairs to be taken off, in one order for all writers.
    pub(crate) fn off(&self) -> Vec<&(String, String)> {
        self.0.iter().filter(|(_, change)| change.off).map(|(key, _)| key).collect()
    }

    /// (list, member) pairs to be put on afterwards.
    pub(crate) fn on(&self) -> Vec<&(String, String)> {
        self.0.iter().filter(|(_, change)| change.on).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The changes of a turn: `+` puts a member on, `-` takes it off.
    fn turn(words: &str) -> ListChanges {
        let mut changes = ListChanges::default();
        for word in words.chars() {
            match word {
                '+' => changes.enlist("list", "a".to_owned()),
                _ => changes.delist("list", "a".to_owned()),
            }
        }
        changes
    }

    #[test]
    fn turns_add_up_to_what_one_turn_would_do() {
        for words in ["", "+", "-", "+-", "-+", "++", "--", "+-+", "-+-", "-++", "+--", "--+"] {
            let whole = turn(words);
            for place in 0..=words.len() {
                let mut added = turn(&words[..place]);
                added.extend(turn(&words[place..]));
                assert_eq!((added.off(), added.on()), (whole.off(), whole.on()), "{words}");
            }
        }
    }

    #[test]
    fn whoever_was_off_in_between_gets_a_new_place() {
        let done = |words| {
            let changes = turn(words);
            (changes.off().len(), changes.on().len())
        };
        assert_eq!(
            [done("+"), done("-"), done("-+"), done("+-")],
            [(0, 1), (1, 0), (1, 1), (1, 0)]
        );
    }
}
