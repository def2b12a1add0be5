//! A summary made of the text's own sentences.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Words this short say little about what a text is about.
const SHORT_WORD: usize = 3;

/// The sentences whose words the text uses most, in their order, up to so many words as the length
/// allows.
pub(super) fn of(length: &str, text: &str) -> Value {
    let percent = match length {
        "medium" => 28,
        "long" => 55,
        _ => 19,
    };
    let sentences: Vec<&str> = text
        .split_inclusive(['.', '!', '?'])
        .map(str::trim)
        .filter(|sentence| !sentence.is_empty())
        .collect();
    let room = (text.split_whitespace().count() * percent / 100).max(1);
    let mut weight: BTreeMap<String, usize> = BTreeMap::new();
    for word in text.split_whitespace().map(plain).filter(|word| word.len() > SHORT_WORD) {
        *weight.entry(word).or_default() += 1;
    }
    let worth = |sentence: &str| {
        let words: BTreeSet<String> = sentence.split_whitespace().map(plain).collect();
        let sum: usize = words.iter().filter_map(|word| weight.get(word)).sum();
        sum * 100 / sentence.split_whitespace().count().max(1)
    };
    let mut best: Vec<usize> = (0..sentences.len()).collect();
    best.sort_by_key(|at| (std::cmp::Reverse(worth(sentences[*at])), *at));
    let mut chosen = BTreeSet::new();
    let mut left = room;
    for at in best {
        let words = sentences[at].split_whitespace().count();
        if words <= left {
            chosen.insert(at);
            left -= words;
        }
    }
    let summary = match chosen.is_empty() {
        false => chosen.iter().map(|at| sentences[*at]).collect::<Vec<_>>().join(" "),
        // Even the shortest sentence is too long: its beginning.
        true => text.split_whitespace().take(room).collect::<Vec<_>>().join(" "),
    };
    json!({ "summary": summary })
}

fn plain(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
