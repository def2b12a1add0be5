//! What a listing is found by.

use std::collections::BTreeSet;

use skep_base::AgentId;
use skep_wire::{hire::Listing, score::BenchmarkTier};
use unicode_normalization::UnicodeNormalization;

#[cfg(test)]
mod tests;

/// Words that a listing is found by, at most.
pub const WORDS_MAX: usize = 40;
/// The shortest word, in characters: shorter ones tell nothing apart.
pub const WORD_LEN_MIN: usize = 2;
/// The longest, in bytes.
pub const WORD_BYTES_MAX: usize = 40;
/// Words of one question.
pub const QUERY_WORDS_MAX: usize = 8;
/// Words of a capability that have a term of their own as a beginning.
pub const PREFIXES_MAX: usize = 8;

/// All listings have it.
pub const ALL: &str = "*";
/// What the terms of capabilities begin with.
pub const CAPABILITY: &str = "c:";

pub fn capability_term(capability: &str) -> String {
    format!("{CAPABILITY}{capability}")
}

/// For a capability's first words. Those that are very many are told apart by the row itself.
pub fn prefix_term(prefix: &str) -> String {
    let words: Vec<&str> = prefix.split('.').take(PREFIXES_MAX).collect();
    format!("p:{}", words.join("."))
}

pub fn word_term(word: &str) -> String {
    format!("w:{word}")
}

pub fn agent_term(agent: &AgentId) -> String {
    format!("a:{agent}")
}

/// Who holds this benchmark, or a higher one.
pub fn benchmark_term(least: BenchmarkTier) -> Option<&'static str> {
    match least {
        BenchmarkTier::None => None,
        BenchmarkTier::Standard => Some("b:standard"),
        BenchmarkTier::Elite => Some("b:elite"),
    }
}

/// The different words of a text, in its order.
pub fn words(text: &str) -> Vec<String> {
    let folded: String = text.to_lowercase().nfc().collect();
    let mut seen = BTreeSet::new();
    let is_word =
        |word: &&str| word.len() <= WORD_BYTES_MAX && word.chars().nth(WORD_LEN_MIN - 1).is_some();
    let words = folded.split(|c: char| !c.is_alphanumeric()).filter(is_word);
    words.filter(|word| seen.insert(*word)).map(str::to_owned).collect()
}

/// Everything that a listing is found by, whose seller holds this benchmark.
pub fn terms(listing: &Listing, benchmark: BenchmarkTier) -> BTreeSet<String> {
    let capability = listing.capability.as_str();
    let mut terms = BTreeSet::from([
        ALL.to_owned(),
        agent_term(&listing.agent_id),
        capability_term(capability),
    ]);
    let ends = capability.match_indices('.').map(|(at, _)| at).chain([capability.len()]);
    terms.extend(ends.take(PREFIXES_MAX).map(|end| prefix_term(&capability[..end])));
    let text = format!("{capability} {}", listing.description.as_deref().unwrap_or_default());
    terms.extend(words(&text).iter().take(WORDS_MAX).map(|word| word_term(word)));
    let held =
        [BenchmarkTier::Standard, BenchmarkTier::Elite].map(|tier| (tier <= benchmark, tier));
    let held = held.into_iter().filter(|(holds, _)| *holds);
    terms.extend(held.filter_map(|(_, tier)| benchmark_term(tier)).map(str::to_owned));
    terms
}
