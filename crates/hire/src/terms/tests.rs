use super::*;

#[test]
fn words_are_folded_and_each_is_there_once() {
    assert_eq!(words("Émile's é-mile, E\u{301}MILE; 東京 a 42"), ["émile", "mile", "東京", "42"]);
    assert_eq!(words(&"x".repeat(41)), Vec::<String>::new());
    assert_eq!(words(&"x".repeat(40)).len(), 1);
}

#[test]
fn a_listing_is_found_by_its_name_its_beginnings_and_its_words() {
    let text = (0..100).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    let listing: Listing = serde_json::from_value(serde_json::json!({
        "agent_id": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
        "capability": "text.translate.en.it.fluent", "price_usdc": "0.01",
        "max_latency_ms": 1000, "endpoint": "https://a.example", "description": text,
    }))
    .unwrap();
    let found = terms(&listing, BenchmarkTier::Standard);
    for term in [
        "*",
        "a:0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
        "c:text.translate.en.it.fluent",
        "p:text",
        "p:text.translate",
        "p:text.translate.en.it.fluent",
        "w:translate",
        "w:word0",
        "b:standard",
    ] {
        assert!(found.contains(term), "{term}");
    }
    assert!(
        !found.contains("b:elite")
            && !found.contains("p:text.trans")
            && !found.contains("w:word99")
    );
    assert_eq!(found.iter().filter(|term| term.starts_with("w:")).count(), WORDS_MAX);
    let many = "a.b.c.d.e.f.g.h.i.j";
    let deep = Listing { capability: many.to_owned(), ..listing };
    assert!(terms(&deep, BenchmarkTier::None).contains(&prefix_term(many)));
}
