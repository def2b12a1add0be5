//! SVG: parsed as XML, and nothing in it is run or fetched.

use roxmltree::{Document, Node, ParsingOptions};

use super::DRAWING_LEN_MAX;

/// Elements, texts and comments of one drawing.
const NODES_MAX: u32 = 200_000;
/// How deep elements may stand in one another.
const DEPTH_MAX: usize = 256;
const NAMESPACE: &str = "http://www.w3.org/2000/svg";
/// Elements that draw by themselves.
const SHAPES: &[&str] =
    &["circle", "ellipse", "image", "line", "path", "polygon", "polyline", "rect", "text", "use"];

/// What a drawing holds.
#[derive(Debug, Default)]
pub(crate) struct Drawing {
    pub paths: usize,
    /// Paths whose data does not begin as a path's data must.
    pub bad_paths: usize,
    pub shapes: usize,
    /// The first thing that would run: an element or an attribute.
    pub script: Option<String>,
    /// The first address that leads out of the drawing.
    pub outside: Option<String>,
    pub width: Option<f64>,
    pub height: Option<f64>,
}

impl Drawing {
    pub fn read(text: &str) -> Result<Drawing, String> {
        if text.len() > DRAWING_LEN_MAX {
            return Err(format!("it is longer than {DRAWING_LEN_MAX} bytes"));
        }
        check_depth(text)?;
        let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
        let document =
            Document::parse_with_options(text, options).map_err(|error| error.to_string())?;
        let root = document.root_element();
        if root.tag_name().name() != "svg" || !is_ours(root) {
            return Err("its outermost element is not svg".to_owned());
        }
        let mut drawing = Drawing { width: length(root, "width"), ..Drawing::default() };
        drawing.height = length(root, "height");
        for node in document.descendants().filter(Node::is_element) {
            drawing.note(node);
        }
        Ok(drawing)
    }

    fn note(&mut self, node: Node<'_, '_>) {
        let name = node.tag_name().name();
        if name == "path" {
            self.paths += 1;
            self.bad_paths += usize::from(!is_path_data(node.attribute("d").unwrap_or("")));
        }
        self.shapes += usize::from(SHAPES.contains(&name));
        if matches!(name, "script" | "foreignObject" | "handler" | "iframe") {
            self.script.get_or_insert_with(|| name.to_owned());
        }
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value().trim_start());
            let lower = value.get(..11).map(str::to_ascii_lowercase);
            if name.starts_with("on") || lower.as_deref() == Some("javascript:") {
                self.script.get_or_insert_with(|| name.to_owned());
            }
            // Within the drawing, and pictures that it carries along.
            let inside = value.is_empty() || value.starts_with('#') || value.starts_with("data:");
            if matches!(name, "href" | "src") && !inside {
                self.outside.get_or_insert_with(|| value.chars().take(80).collect());
            }
        }
    }
}

/// Counts open elements roughly, so that no parser meets a tower of them.
fn check_depth(text: &str) -> Result<(), String> {
    let (mut depth, bytes) = (0_usize, text.as_bytes());
    for (at, _) in text.match_indices('<') {
        match bytes.get(at + 1) {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'!' | b'?') | None => {}
            Some(_) => {
                let end = text[at..].find('>').map_or(bytes.len(), |end| at + end);
                let closes_itself = end > 0 && bytes[end - 1] == b'/';
                depth += usize::from(!closes_itself);
            }
        }
        if depth > DEPTH_MAX {
            return Err(format!("its elements are nested deeper than {DEPTH_MAX}"));
        }
    }
    Ok(())
}

fn is_ours(node: Node<'_, '_>) -> bool {
    node.tag_name().namespace().is_none_or(|namespace| namespace == NAMESPACE)
}

/// A number of pixels; percentages and other units say nothing about a picture's size.
fn length(node: Node<'_, '_>, name: &str) -> Option<f64> {
    let text = node.attribute(name)?.trim();
    text.strip_suffix("px").unwrap_or(text).parse().ok()
}

/// Path data begins by moving somewhere, and has the alphabet of commands and numbers.
fn is_path_data(data: &str) -> bool {
    let data = data.trim_start();
    let alphabet = |c: char| {
        c.is_ascii_digit() || c.is_ascii_whitespace() || "MmZzLlHhVvCcSsQqTtAaeE+-.,".contains(c)
    };
    data.starts_with(['M', 'm'])
        && data.chars().all(alphabet)
        && data.contains(|c: char| c.is_ascii_digit())
}
