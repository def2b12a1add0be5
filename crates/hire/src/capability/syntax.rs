//! Code, read by the grammar of its language where there is one here.

use std::{collections::BTreeSet, ops::ControlFlow};

use tree_sitter::{Language, Node, ParseOptions, ParseState, Parser, Tree};

/// Languages that code can be asked for in.
pub(super) const LANGUAGES: &[&str] = &[
    "python",
    "javascript",
    "typescript",
    "go",
    "rust",
    "java",
    "ruby",
    "php",
    "csharp",
    "swift",
    "kotlin",
    "bash",
    "c",
];
/// Languages that code is run in.
pub(super) const RUNTIMES: &[&str] = &["python", "javascript", "bash"];
/// Languages of braces and double quotes, whose brackets can be counted without a grammar.
const BRACED: &[&str] = &["typescript", "java", "csharp", "swift", "kotlin"];

/// A parser asks this often, every few hundred steps of its work, whether to go on: code that is
/// made to tangle it is given up, after the same number of steps everywhere.
const LOOKS_MAX: u32 = 2000;

fn grammar(language: &str) -> Option<Language> {
    Some(match language {
        "python" => tree_sitter_python::LANGUAGE.into(),
        "javascript" => tree_sitter_javascript::LANGUAGE.into(),
        "go" => tree_sitter_go::LANGUAGE.into(),
        "rust" => tree_sitter_rust::LANGUAGE.into(),
        "bash" => tree_sitter_bash::LANGUAGE.into(),
        "c" => tree_sitter_c::LANGUAGE.into(),
        _ => return None,
    })
}

/// Code of a language.
pub(super) struct Code<'a> {
    text: &'a str,
    language: &'a str,
    tree: Option<Tree>,
    has_grammar: bool,
}

impl<'a> Code<'a> {
    pub fn read(text: &'a str, language: &'a str) -> Code<'a> {
        let grammar = grammar(language);
        let has_grammar = grammar.is_some();
        let tree = grammar.and_then(|grammar| {
            let mut parser = Parser::new();
            parser.set_language(&grammar).ok()?;
            let mut looks = 0_u32;
            let mut patience = |_: &ParseState| {
                looks += 1;
                if looks < LOOKS_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let options = ParseOptions::new().progress_callback(&mut patience);
            let mut from = |at: usize, _| text.as_bytes().get(at..).unwrap_or(&[]);
            parser.parse_with_options(&mut from, None, Some(options))
        });
        Code { text, language, tree, has_grammar }
    }

    /// Nothing if there is no grammar here; else whether the code is in it, and where not.
    pub fn parses(&self) -> Option<Result<(), String>> {
        let Some(tree) = &self.tree else {
            let tangled = || Err("it is too tangled to be read".to_owned());
            return self.has_grammar.then(tangled);
        };
        let root = tree.root_node();
        if !root.has_error() {
            return Some(Ok(()));
        }
        let line = self.find(root, |node| {
            (node.is_error() || node.is_missing()).then(|| node.start_position().row + 1)
        });
        let line = line.map_or_else(String::new, |line| format!(", first in line {line}"));
        Some(Err(format!("it is not {}{line}", self.language)))
    }

    /// What can be seen without a grammar.
    pub fn brackets_match(&self) -> bool {
        !BRACED.contains(&self.language) || brackets_match(self.text)
    }

    /// Walks over all nodes, without recursion.
    fn find<T>(&self, root: Node<'_>, mut visit: impl FnMut(Node<'_>) -> Option<T>) -> Option<T> {
        let mut cursor = root.walk();
        loop {
            if let Some(found) = visit(cursor.node()) {
                return Some(found);
            }
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return None;
                }
            }
        }
    }

    fn text_of(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or("")
    }

    /// How many parameters a function of this name takes, if it is defined; without a grammar, if
    /// its name stands before a bracket.
    pub fn function(&self, name: &str) -> Option<usize> {
        let Some(tree) = &self.tree else { return called_with(self.text, name) };
        self.find(tree.root_node(), |node| {
            let field = |field: &str| node.child_by_field_name(field);
            let named = |field: &str| {
                node.child_by_field_name(field).is_some_and(|node| self.text_of(node) == name)
            };
            let kind = node.kind();
            let count = |parameters: Option<Node<'_>>| {
                parameters.map_or(0, |parameters| count(self.text_of(parameters)))
            };
            if kind == "function_declarator" && named("declarator") {
                return Some(count(field("parameters")));
            }
            if (kind.contains("function") || kind.contains("method")) && named("name") {
                return Some(count(field("parameters")));
            }
            // JavaScript: a name for a function without one.
            let value = field("value").or_else(|| field("right"))?;
            let is_function = matches!(value.kind(), "arrow_function" | "function_expression");
            if !is_function || !(named("name") || named("left")) {
                return None;
            }
            match value.child_by_field_name("parameter") {
                Some(_) => Some(1),
                None => Some(count(value.child_by_field_name("parameters"))),
            }
        })
    }

    /// The names of what is defined: functions, classes, types.
    pub fn definitions(&self) -> BTreeSet<&'a str> {
        let mut names = BTreeSet::new();
        let Some(tree) = &self.tree else {
            let words: Vec<&str> = words(self.text).collect();
            names.extend(words.windows(2).filter(|pair| is_definer(pair[0])).map(|pair| pair[1]));
            return names;
        };
        self.find(tree.root_node(), |node| {
            let kind = node.kind();
            let field = match kind {
                "function_declarator" => "declarator",
                "variable_declarator"
                | "class_definition"
                | "class_declaration"
                | "type_spec"
                | "struct_item"
                | "enum_item"
                | "trait_item"
                | "const_item" => "name",
                _ if kind.contains("function") || kind.contains("method") => "name",
                _ => return None::<()>,
            };
            let name = node.child_by_field_name(field)?;
            names.insert(self.text_of(name));
            None
        });
        names
    }

    pub fn mentions(&self, name: &str) -> bool {
        words(self.text).any(|word| word == name)
    }
}

fn is_definer(word: &str) -> bool {
    matches!(
        word,
        "def"
            | "fn"
            | "func"
            | "fun"
            | "function"
            | "class"
            | "struct"
            | "interface"
            | "object"
            | "void"
            | "int"
            | "string"
            | "String"
            | "bool"
            | "boolean"
            | "const"
            | "enum"
    )
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').filter(|w| !w.is_empty())
}

/// Without strings and comments, every bracket has its partner.
fn brackets_match(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut open = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text.as_bytes()[at..];
        match bytes[at] {
            b'/' if rest.starts_with(b"//") => {
                at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with(b"/*") => {
                let end = rest.windows(2).skip(2).position(|pair| pair == b"*/");
                at += end.map_or(rest.len(), |end| end + 4);
                continue;
            }
            quote @ (b'"' | b'\'' | b'`') => at = string_end(bytes, at, quote),
            b'(' => open.push(b')'),
            b'[' => open.push(b']'),
            b'{' => open.push(b'}'),
            close @ (b')' | b']' | b'}') if open.pop() != Some(close) => return false,
            _ => {}
        }
        at += 1;
    }
    open.is_empty()
}

fn string_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match *byte {
            b'\\' => at += 1,
            // A quote that is not closed on its line was an apostrophe.
            b'\n' if quote != b'`' => return at,
            found if found == quote => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// The name that a signature gives, and how many parameters it takes.
pub(super) fn signature(text: &str) -> Option<(&str, usize)> {
    let mut from = 0;
    while let Some(open) = text[from..].find('(').map(|at| from + at) {
        let before = text[..open].trim_end();
        // Type parameters stand between a name and its bracket.
        let before = before.split('<').next().unwrap_or(before).trim_end();
        let before = match before.strip_suffix('=') {
            Some(assigned) => assigned.split(':').next().unwrap_or(assigned).trim_end(),
            None => before,
        };
        let start = before
            .rfind(|c: char| !c.is_alphanumeric() && c != '_' && c != '$')
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let name = &before[start..];
        let end = matching(text, open)?;
        if !name.is_empty() && !matches!(name, "func" | "fn" | "def" | "function" | "async") {
            return Some((name, count(&text[open..=end])));
        }
        from = end + 1;
    }
    None
}

fn called_with(text: &str, name: &str) -> Option<usize> {
    let mut rest = text;
    loop {
        let at = rest.find(name)?;
        let after = &rest[at + name.len()..];
        if after.trim_start().starts_with('(') {
            let open = after.find('(')?;
            return Some(count(&after[open..=matching(after, open)?]));
        }
        rest = after;
    }
}

/// The place of the bracket that closes the one at `open`.
fn matching(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// How many parameters stand in brackets.
fn count(brackets: &str) -> usize {
    let inner = brackets.trim().trim_start_matches('(').trim_end_matches(')');
    let (mut depth, mut count, mut some, mut last) = (0_i32, 0, false, ' ');
    for c in inner.chars() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            // Not the head of an arrow.
            '>' if matches!(last, '-' | '=') => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth <= 0 => {
                count += usize::from(some);
                some = false;
                last = c;
                continue;
            }
            _ => {}
        }
        some |= !c.is_whitespace();
        last = c;
    }
    count + usize::from(some)
}
