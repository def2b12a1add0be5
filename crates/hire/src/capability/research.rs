//! research.linkedin.profile.enrich

use super::{findings::Job, lookup};

pub(super) fn profile(job: &mut Job<'_>) {
    let profile = &job.result["profile"];
    let text = |field: &str| profile[field].as_str().unwrap_or("").trim();
    let (url, name, source) = (text("url"), text("name"), text("source"));
    job.check("has_name", !name.is_empty(), || "the name is empty".to_owned());
    job.check("has_url", lookup::is_web_url(url), || format!("{url:?} is no address"));
    job.check("has_source", !source.is_empty(), || "nobody says where it is from".to_owned());
    if job.strict {
        let (found, asked) = (slug(url), slug(job.param("profile_url")));
        let why = || format!("it is about {found:?}, and {asked:?} was asked for");
        job.check("same_profile", found.is_some() && found == asked, why);
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
        let why = || format!("{source:?} names no source in lower-case letters");
        job.check("source_is_a_name", source.chars().all(word), why);
        let more = ["headline", "location", "current_position", "company", "summary", "skills"];
        let some = more.iter().any(|field| !profile[*field].is_null());
        job.check("has_more_than_a_name", some, || "it holds nothing more".to_owned());
    }
}

/// The person's word in an address.
fn slug(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("/in/")?;
    let slug = rest.split(['/', '?', '#']).next()?;
    (!slug.is_empty()).then(|| slug.to_lowercase())
}
