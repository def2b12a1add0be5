//! Strangers' HTML: read within limits, asked with CSS selectors, turned into text.
//!
//! A page of a few kilobytes can be made to need hours or gigabytes (elements that nest without
//! end, formatting that is opened again in each paragraph), so the parser is fed in small pieces
//! with a look at the clock, the number of nodes and their depth after each. The depth matters
//! most: a selector with `:has()` is matched by recursion, and a stack that overflows takes the
//! whole process with it.

use html5ever::{
    driver::{ParseOpts, parse_document},
    tendril::TendrilSink,
};
use scraper::{ElementRef, Html, HtmlTreeSink, Node, Selector};

use super::record::{Deadline, Stop};

/// The most nodes of a page.
const NODES_MAX: usize = 500_000;
/// How deep elements may nest; browsers stop there too.
const DEPTH_MAX: usize = 512;
/// The longest text that is taken from a page, in bytes.
const TEXT_LEN_MAX: usize = 16 * 1024 * 1024;
/// How much the parser gets at once, in bytes.
const PIECE_LEN: usize = 64;

/// Elements that a reader does not see.
const UNSEEN: &[&str] = &["head", "script", "style", "template", "noscript"];

/// Elements whose text belongs to the line around them; all others begin a new one.
const INLINE: &[&str] = &[
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i",
    "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup",
    "time", "tt", "u", "var", "wbr",
];

/// A page, read.
pub(crate) struct Page(Html);

impl Page {
    pub(crate) fn parse(text: &str, deadline: Deadline) -> Result<Page, Stop> {
        let mut parser =
            parse_document(HtmlTreeSink::new(Html::new_document()), ParseOpts::default());
        let mut rest = text;
        while !rest.is_empty() {
            deadline.check()?;
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_LEN));
            parser.process(piece.into());
            rest = after;
            let html = parser.tokenizer.sink.sink.0.borrow();
            // The newest node is as deep as the page is where the parser stands.
            let newest = html.tree.nodes().next_back();
            let deep = newest.is_some_and(|node| node.ancestors().nth(DEPTH_MAX).is_some());
            if deep || html.tree.values().len() > NODES_MAX {
                return Err(too_large());
            }
        }
        let html = parser.finish();
        // Misnested tags make the parser move whole branches, so all of it is looked at again.
        if depth(&html) > DEPTH_MAX {
            return Err(too_large());
        }
        Ok(Page(html))
    }

    /// What somebody sees who opens the page, styles aside.
    pub(crate) fn visible_text(&self) -> Result<String, Stop> {
        let mut text = String::new();
        push_text(&mut text, self.0.root_element())?;
        Ok(text.trim().to_owned())
    }

    /// The text of each element that the selector finds, in document order.
    pub(crate) fn select(&self, css: &str, deadline: Deadline) -> Result<Vec<String>, Stop> {
        let selector = parse_selector(css)?;
        let mut found = Vec::new();
        let mut total = 0;
        for element in self.0.tree.root().descendants().filter_map(ElementRef::wrap) {
            deadline.check()?;
            if selector.matches(&element) {
                let mut text = String::new();
                push_text(&mut text, element)?;
                total += text.len();
                if total > TEXT_LEN_MAX {
                    return Err(too_large());
                }
                found.push(text.trim().to_owned());
            }
        }
        Ok(found)
    }
}

/// A CSS selector, read.
pub(crate) fn parse_selector(css: &str) -> Result<Selector, Stop> {
    Selector::parse(css)
        .map_err(|error| Stop::error("bad_selector", format!("no CSS selector: {error}")))
}

fn too_large() -> Stop {
    Stop::error("too_large", "the page has more parts than are looked at")
}

/// How many levels the page has below its root.
fn depth(html: &Html) -> usize {
    let (mut depth, mut deepest) = (0, 0);
    let mut node = html.tree.root();
    loop {
        if let Some(child) = node.first_child() {
            (node, depth) = (child, depth + 1);
            deepest = deepest.max(depth);
            continue;
        }
        loop {
            if let Some(next) = node.next_sibling() {
                node = next;
                break;
            }
            match node.parent() {
                Some(parent) => (node, depth) = (parent, depth - 1),
                None => return deepest,
            }
        }
    }
}

/// Adds the text below `element`. Unseen elements are left out, but for `element` itself: who
/// asks for a `title` gets it.
fn push_text(text: &mut String, element: ElementRef<'_>) -> Result<(), Stop> {
    let top = *element;
    let mut node = top;
    loop {
        if let Node::Text(piece) = node.value() {
            text.push_str(piece);
            if text.len() > TEXT_LEN_MAX {
                return Err(too_large());
            }
        }
        break_line(text, node.value());
        let unseen = node != top && is_unseen(node.value());
        if let Some(child) = node.first_child().filter(|_| !unseen) {
            node = child;
            continue;
        }
        loop {
            if node == top {
                return Ok(());
            }
            if let Some(next) = node.next_sibling() {
                node = next;
                break;
            }
            match node.parent() {
                Some(parent) => node = parent,
                None => return Ok(()),
            }
            break_line(text, node.value());
        }
    }
}

fn is_unseen(node: &Node) -> bool {
    node.as_element()
        .is_some_and(|element| UNSEEN.contains(&element.name()) || element.attr("hidden").is_some())
}

fn break_line(text: &mut String, node: &Node) {
    let breaks = node.as_element().is_some_and(|element| !INLINE.contains(&element.name()));
    if breaks && !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn soon() -> Deadline {
        Deadline(Instant::now() + Duration::from_secs(20))
    }

    fn page(text: &str) -> Page {
        Page::parse(text, soon()).unwrap()
    }

    #[test]
    fn only_what_a_reader_sees_is_text() {
        let page = page(
            "<!doctype html><head><title>Title</title><style>p{}</style></head>\
             <body><p>Hel<b>lo</b></p><p>World<br>again<script>alert('no')</script>\
             <!-- note --><div hidden>secret</div><template>t</template><noscript>n</noscript>",
        );
        assert_eq!(page.visible_text().unwrap(), "Hello\nWorld\nagain");
    }

    #[test]
    fn a_selector_finds_elements_in_document_order() {
        let page = page("<title>T</title><ul><li class=x>one<li>two<li class=x>th<i>ree</i></ul>");
        assert_eq!(page.select("li.x", soon()).unwrap(), ["one", "three"]);
        assert_eq!(page.select("title", soon()).unwrap(), ["T"]);
        assert_eq!(page.select("li:nth-child(2)", soon()).unwrap(), ["two"]);
        assert_eq!(page.select("ul:has(i) > li:first-child", soon()).unwrap(), ["one"]);
        assert!(page.select("table", soon()).unwrap().is_empty());
    }

    #[test]
    fn a_bad_selector_is_an_error() {
        for bad in ["", "li[", "::nothing", "a >", ":has(:has(a))", "123"] {
            assert!(matches!(parse_selector(bad), Err(Stop::Error(_))), "{bad}");
        }
    }

    #[test]
    fn text_in_many_bytes_is_not_torn_apart() {
        let text = "ä€𝄞".repeat(200);
        assert_eq!(page(&format!("<p>{text}")).visible_text().unwrap(), text);
    }

    #[test]
    fn a_page_made_to_grow_is_given_up() {
        // Each paragraph opens all formatting again: 2000 times 2000 elements.
        let opened: String = (0..2000).map(|at| format!("<b id={at}>")).collect();
        let page = Page::parse(&format!("<p>{opened}{}", "<p>x".repeat(2000)), soon());
        assert!(matches!(page, Err(Stop::Error(report)) if report.code == "too_large"));
    }

    #[test]
    fn a_page_that_nests_too_deep_is_given_up() {
        let page = Page::parse(&"<div>".repeat(400_000), soon());
        assert!(matches!(page, Err(Stop::Error(report)) if report.code == "too_large"));
        // Bold text that is closed too early is opened again below, deeper and deeper.
        let misnested = "<div><b><p></b>".repeat(2000);
        let page = Page::parse(&misnested, soon());
        assert!(matches!(page, Err(Stop::Error(report)) if report.code == "too_large"));
    }

    #[test]
    fn the_deepest_page_allowed_fits_the_stack_with_any_selector() {
        let page = page(&format!("{}<p>x", "<div class=a>".repeat(DEPTH_MAX - 4)));
        assert!(depth(&page.0) > DEPTH_MAX - 4);
        for css in ["div:has(q)", ":not(:has(p))", "div:has(> div > div p)", "div div p"] {
            page.select(css, soon()).unwrap();
        }
        for depth in [10, 30, 60, 100] {
            let nested = format!("{}p{}", ":not(:is(".repeat(depth), "))".repeat(depth));
            for css in [format!("div:has({nested})"), nested] {
                // Beyond some depth no selector is read any more.
                if parse_selector(&css).is_ok() {
                    page.select(&css, soon()).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_search_made_to_take_long_is_given_up() {
        let page = page(&"<li>".repeat(50_000));
        let deadline = Deadline(Instant::now() + Duration::from_millis(200));
        let found = page.select("li:nth-last-child(3)", deadline);
        assert!(matches!(found, Err(Stop::Error(report)) if report.code == "timeout"));
        assert!(Instant::now() < deadline.0 + Duration::from_secs(2));
    }
}
