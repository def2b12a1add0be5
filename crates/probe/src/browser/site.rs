//! MAP and CRAWL: the pages of one site, one after the other, in a tab of their own.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use serde_json::{Value, json};
use skep_wire::conduit::Act;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use url::Url;

use super::{
    Tab, navigate,
    page::{Fault, Page},
    read,
    robots::Robots,
};
use crate::{egress::Request, engine::record::first_chars};

/// How far from the first page, at most and if nothing is said.
const DEPTH_MAX: u8 = 3;
/// How many pages MAP finds at most.
const MAP_PAGES_MAX: u16 = 50;
/// How many pages CRAWL visits at most.
const CRAWL_PAGES_MAX: u16 = 20;
/// Between two pages, at least.
const PAUSE: Duration = Duration::from_millis(250);
/// How long one page may take.
const PAGE_TIME_MAX: Duration = Duration::from_secs(15);
/// What is kept back of the time of an action, to end in order.
const RESERVE: Duration = Duration::from_secs(3);
/// The longest text of a page that CRAWL gives, in characters.
const TEXT_LEN_MAX: usize = 2000;
/// The longest robots.txt that is read, in bytes.
const ROBOTS_LEN_MAX: usize = 512 * 1024;
/// Addresses that are remembered as not yet visited.
const QUEUE_MAX: usize = 5000;

/// One walk through a site.
struct Walk {
    depth: u8,
    pages: usize,
    first: Url,
    robots: Robots,
    until: Instant,
}

/// A page that was visited.
struct Visited {
    url: String,
    status: Option<u16>,
    title: String,
    depth: u8,
    details: Value,
}

impl Tab {
    pub(super) async fn map(&mut self, act: &Act) -> Result<Value, Fault> {
        let (visited, skipped) = self.walk(act, MAP_PAGES_MAX, false).await?;
        let pages: Vec<Value> = visited
            .into_iter()
            .map(|page| json!({"url": page.url, "title": page.title, "depth": page.depth}))
            .collect();
        Ok(json!({"pages": pages, "skipped": skipped}))
    }

    pub(super) async fn crawl(&mut self, act: &Act) -> Result<Value, Fault> {
        let (visited, skipped) = self.walk(act, CRAWL_PAGES_MAX, true).await?;
        let pages: Vec<Value> = visited
            .into_iter()
            .map(|page| {
                let mut listed = page.details;
                listed["url"] = page.url.into();
                listed["status"] = page.status.into();
                listed["title"] = page.title.into();
                listed["depth"] = page.depth.into();
                listed
            })
            .collect();
        Ok(json!({"pages": pages, "skipped": skipped}))
    }

    /// Breadth first. The tab itself stays where it is.
    async fn walk(
        &mut self,
        act: &Act,
        pages_max: u16,
        details: bool,
    ) -> Result<(Vec<Visited>, Value), Fault> {
        let walk = self.prepare(act, pages_max).await?;
        let page = Page::open(&self.link, &self.stage, &self.opening).await?;
        let origin = walk.first.origin();
        let mut queue = VecDeque::from([(walk.first.clone(), 0)]);
        let mut known = BTreeSet::from([walk.first.to_string()]);
        let mut visited: Vec<Visited> = Vec::new();
        let (mut forbidden, mut failed) = (0u32, 0u32);
        let mut next_at = Instant::now();
        while let Some((url, depth)) = queue.pop_front() {
            if visited.len() >= walk.pages || Instant::now() >= walk.until {
                break;
            }
            if !walk.robots.allows(&url[url::Position::BeforePath..]) {
                forbidden += 1;
                continue;
            }
            sleep_until(next_at).await;
            next_at = Instant::now() + walk.robots.delay.unwrap_or(PAUSE).max(PAUSE);
            let left = walk.until.saturating_duration_since(Instant::now()).min(PAGE_TIME_MAX);
            let went = timeout(left, self.visit(&page, &url, depth, details)).await;
            let Ok(Ok((found, links))) = went else {
                page.tell("Page.stopLoading", &json!({}));
                if self.process.ended.get().is_some() {
                    return Err(self.process.why().into());
                }
                failed += 1;
                if visited.is_empty() && queue.is_empty() {
                    let late = || Fault::new("timeout", "the first page took too long");
                    return Err(went.map_or_else(|_| late(), |it| it.err().unwrap_or_else(late)));
                }
                continue;
            };
            for link in links.iter().filter(|link| depth < walk.depth && link.origin() == origin) {
                if known.len() < QUEUE_MAX && known.insert(link.to_string()) {
                    queue.push_back((link.clone(), depth + 1));
                }
            }
            visited.push(found);
        }
        let skipped = json!({"robots": forbidden, "failed": failed, "left": queue.len()});
        Ok((visited, skipped))
    }

    async fn prepare(&self, act: &Act, pages_max: u16) -> Result<Walk, Fault> {
        let until = Instant::now() + self.limits.crawl.saturating_sub(RESERVE);
        let depth = act.depth.unwrap_or(DEPTH_MAX);
        let pages = act.pages.unwrap_or(pages_max);
        if depth > DEPTH_MAX || pages > pages_max || pages == 0 {
            let detail = format!("depth is at most {DEPTH_MAX}, and pages 1 to {pages_max}");
            return Err(Fault::new("bad_action", detail));
        }
        let text = match &act.url {
            Some(url) => url.clone(),
            None => self.page.place().await?.0,
        };
        if text == "about:blank" {
            return Err(Fault::new("bad_action", "there is no page yet: name a url"));
        }
        let mut first = navigate::judge(&text, self.egress.policy())?;
        first.set_fragment(None);
        let robots = self.robots(&first).await;
        Ok(Walk { depth, pages: usize::from(pages), first, robots, until })
    }

    async fn robots(&self, first: &Url) -> Robots {
        let Ok(url) = first.join("/robots.txt") else { return Robots::closed() };
        let asked = Request { body_max: Some(ROBOTS_LEN_MAX), ..Request::get(url) };
        match self.egress.send(asked).await {
            Ok(answer) if answer.is_success() => {
                Robots::parse(&String::from_utf8_lossy(&answer.body))
            }
            // There is none; in trouble the whole site is closed (RFC 9309, 2.3.1.4).
            Ok(answer) if (400..500).contains(&answer.status) => Robots::default(),
            _ => Robots::closed(),
        }
    }

    async fn visit(
        &self,
        page: &Page,
        url: &Url,
        depth: u8,
        details: bool,
    ) -> Result<(Visited, Vec<Url>), Fault> {
        let arrival = navigate::go(page, &self.proxy, url).await?;
        if arrival.dialog.is_some() {
            // Nobody is there to answer.
            page.board.look(|seen| seen.dialog = None);
            page.call("Page.handleJavaScriptDialog", json!({"accept": false})).await?;
            sleep(PAUSE).await;
        }
        let shown = page.place().await?.0;
        // A redirect may have led away from the site.
        let at = Url::parse(&shown).unwrap_or_else(|_| url.clone());
        let found = page.script("links", json!([])).await?;
        let links = found["links"].as_array().map(Vec::as_slice).unwrap_or_default();
        let parsed = links.iter().filter_map(|link| Url::parse(link.as_str()?).ok());
        let links = parsed
            .map(|mut link| {
                link.set_fragment(None);
                link
            })
            .filter(|_| at.origin() == url.origin())
            .collect();
        let details = if details {
            let text = page.script("text", json!([null])).await?;
            let text = text["text"].as_str().unwrap_or_default();
            let looked = read::look(page, None, self.limits.action).await.ok();
            json!({
                "text": first_chars(text, TEXT_LEN_MAX),
                "fingerprint": looked.map(|looked| looked.fingerprint),
            })
        } else {
            Value::Null
        };
        let title = found["title"].as_str().unwrap_or_default().to_owned();
        Ok((Visited { url: shown, status: arrival.status, title, depth, details }, links))
    }
}
