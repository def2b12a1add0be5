//! What a site asks of visitors that are not people (RFC 9309).

use std::time::Duration;

/// What we are called in a robots.txt.
const TOKEN: &str = "skep";
/// The most rules that are looked at.
const RULES_MAX: usize = 1000;
/// The longest pattern, in bytes.
const PATTERN_LEN_MAX: usize = 500;
/// The most wildcards in a pattern.
const STARS_MAX: usize = 8;
/// The longest pause that is kept; a site that asks for more gets this.
const DELAY_MAX: Duration = Duration::from_secs(5);

/// The rules that are meant for us.
#[derive(Debug, Default)]
pub(super) struct Robots {
    /// A pattern, and whether it allows.
    rules: Vec<(String, bool)>,
    pub(super) delay: Option<Duration>,
}

impl Robots {
    /// A site that cannot say what it wants is left alone.
    pub(super) fn closed() -> Robots {
        Robots { rules: vec![("/".to_owned(), false)], delay: None }
    }

    pub(super) fn parse(text: &str) -> Robots {
        let (mut ours, mut anyones) = (Robots::default(), Robots::default());
        let (mut named_us, mut for_us, mut for_all, mut in_names) = (false, false, false, false);
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((name, value)) = line.split_once(':') else { continue };
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            if name == "user-agent" {
                if !in_names {
                    (for_us, for_all) = (false, false);
                }
                in_names = true;
                for_us |= value.eq_ignore_ascii_case(TOKEN);
                for_all |= value == "*";
                named_us |= for_us;
                continue;
            }
            in_names = false;
            for (meant, robots) in [(for_us, &mut ours), (for_all, &mut anyones)] {
                if meant {
                    robots.add(&name, value);
                }
            }
        }
        if named_us { ours } else { anyones }
    }

    fn add(&mut self, name: &str, value: &str) {
        match name {
            "allow" | "disallow" => {
                let readable = !value.is_empty()
                    && value.len() <= PATTERN_LEN_MAX
                    && value.matches('*').count() <= STARS_MAX;
                if readable && self.rules.len() < RULES_MAX {
                    self.rules.push((value.to_owned(), name == "allow"));
                }
            }
            "crawl-delay" => {
                let seconds = value.parse::<f64>().ok().filter(|delay| *delay >= 0.0);
                let longest = DELAY_MAX.as_secs_f64();
                self.delay = seconds.map(|delay| Duration::from_secs_f64(delay.min(longest)));
            }
            _ => {}
        }
    }

    /// The longest pattern that fits decides, and of two the one that allows.
    pub(super) fn allows(&self, path: &str) -> bool {
        let fitting = self.rules.iter().filter(|(pattern, _)| fits(pattern, path));
        fitting.max_by_key(|(pattern, allows)| (pattern.len(), *allows)).is_none_or(|rule| rule.1)
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, whole) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut pieces = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, between)) = pieces.split_last() else { return !whole || rest.is_empty() };
    for piece in between {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    if whole { rest.ends_with(last) } else { rest.contains(last) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_that_names_us_counts_and_the_longest_rule_in_it() {
        let robots = Robots::parse(
            "User-agent: *\nDisallow: /\n\nUser-agent: other\nUser-agent: Skep # us\n\
             Disallow: /private\nAllow: /private/open\nDisallow: /*.pdf$\nCrawl-delay: 99\n",
        );
        for (path, good) in [
            ("/", true),
            ("/private", false),
            ("/private/x", false),
            ("/private/open/x", true),
            ("/a/b.pdf", false),
            ("/a/b.pdf?x", true),
        ] {
            assert_eq!(robots.allows(path), good, "{path}");
        }
        assert_eq!(robots.delay, Some(DELAY_MAX));
        assert!(!Robots::parse("User-agent: *\nDisallow: /").allows("/x"));
        assert!(Robots::parse("User-agent: *\nDisallow:").allows("/x"));
        assert!(Robots::parse("nonsense").allows("/x"));
        assert!(!Robots::closed().allows("/"));
    }
}
