//! Tells code from strings and comments, so that a brace in a string is not counted as one.

/// Rust source with its strings and comments taken out, line by line as before.
pub(super) struct Lexed {
    pub(super) code: String,
    /// The string literals as they are written, with the lines they begin on.
    pub(super) strings: Vec<(usize, String)>,
}

pub(super) fn lex(text: &str) -> Lexed {
    let mut lexed = Lexed { code: String::with_capacity(text.len()), strings: Vec::new() };
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let token = Token::at(rest, lexed.code.chars().next_back());
        let (taken, after) = rest.split_at(match token {
            Token::Code => first.len_utf8(),
            Token::Comment(len) | Token::Char(len) | Token::String { len, .. } => len,
        });
        match token {
            Token::Code => lexed.code.push(first),
            Token::Comment(_) | Token::Char(_) => keep_lines(taken, &mut lexed.code),
            Token::String { open, close, .. } => {
                let inner = taken.get(open..taken.len().saturating_sub(close)).unwrap_or_default();
                lexed.strings.push((line, inner.to_owned()));
                lexed.code.push('"');
                keep_lines(taken, &mut lexed.code);
                lexed.code.push('"');
            }
        }
        line += taken.matches('\n').count();
        rest = after;
    }
    lexed
}

enum Token {
    Code,
    Comment(usize),
    Char(usize),
    String { len: usize, open: usize, close: usize },
}

impl Token {
    /// What `rest` begins with, after the character `before`.
    fn at(rest: &str, before: Option<char>) -> Self {
        let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if rest.starts_with("//") {
            Self::Comment(rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            Self::Comment(block_comment_len(rest))
        } else if rest.starts_with('"') {
            let len = quoted_len(rest);
            Self::String { len, open: 1, close: 1 }
        } else if rest.starts_with('\'') {
            char_len(rest).map_or(Self::Code, Self::Char)
        } else if !in_word && let Some(token) = Self::raw_string(rest) {
            token
        } else {
            Self::Code
        }
    }

    /// `r"…"`, `r#"…"#`, `br"…"` and so on; the `b` of a plain byte string is code to us.
    fn raw_string(rest: &str) -> Option<Self> {
        let after = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('r')?;
        let hashes = after.len() - after.trim_start_matches('#').len();
        let body = after[hashes..].strip_prefix('"')?;
        let open = rest.len() - body.len();
        let end = format!("\"{}", "#".repeat(hashes));
        let len = open + body.find(&end).map_or(body.len(), |at| at + end.len());
        Some(Self::String { len, open, close: end.len() })
    }
}

fn keep_lines(taken: &str, code: &mut String) {
    code.extend(taken.chars().filter(|&c| c == '\n'));
}

fn quoted_len(rest: &str) -> usize {
    let mut escaped = false;
    for (index, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return index + 1,
            _ => {}
        }
    }
    rest.len()
}

fn block_comment_len(rest: &str) -> usize {
    let (mut depth, mut index) = (0, 0);
    while index < rest.len() {
        let here = &rest.as_bytes()[index..];
        if here.starts_with(b"/*") {
            depth += 1;
            index += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            index += 2;
            if depth == 0 {
                return index;
            }
        } else {
            index += 1;
        }
    }
    rest.len()
}

/// The length of a character literal; `None` for a lifetime.
fn char_len(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next()?;
        return chars.find(|(_, c)| *c == '\'').map(|(index, _)| index + 1);
    }
    match chars.next()? {
        (index, '\'') => Some(index + 1),
        _ => None,
    }
}
