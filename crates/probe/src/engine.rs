//! The engines of this program: each looks at work and says what it found (VCAP 6).
//!
//! An examination ends in VERIFIED, in FAILED where the criteria are not met, or in ERROR where
//! nothing could be found out: an outage, a criterion that makes no sense, a time limit. Money
//! moves on the first two only.

mod artifact;
mod browser;
pub(crate) mod check;
mod composite;
pub(crate) mod criteria;
mod html;
mod http;
pub(crate) mod json;
mod llm;
mod media;
mod offers;
pub(crate) mod record;
mod schema;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use skep_base::{Clock, Hash32};
use skep_wire::settle::{
    Action, Artifact, Attachment, EXTRACT_LEN_MAX, EngineOffer, ErrorReport, Fingerprints, Hints,
    Outcome, VerificationRequest, VerificationSpec, engine,
};
use tokio::sync::Semaphore;

use self::{
    check::{Extract, Material},
    criteria::{Criteria, Selection},
    llm::Llm,
    record::{Deadline, Record, Stop, cut},
};
pub use self::{
    llm::{ApiKey, LlmConfig, LlmStyle},
    offers::known_offers,
};
use crate::{
    browser::Browsers,
    egress::{Egress, EgressError},
};

/// The longest that an examination takes, whatever the request allows.
const EXAMINATION_MAX: Duration = Duration::from_secs(120);
/// The longest that a baseline takes.
const BASELINE_MAX: Duration = Duration::from_secs(30);
/// The same with a browser, which has to start and may have to wait for the page.
const BROWSER_BASELINE_MAX: Duration = Duration::from_secs(60);
/// How many documents are worked on at once. One that cannot be stopped takes a place for good
/// until it is done, and no more than that.
const WORK_AT_ONCE: usize = 4;

/// What was found, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    pub outcome: Outcome,
    /// At most [`EXTRACT_LEN_MAX`] bytes.
    pub extracted_content: Option<String>,
    /// Unless it was verified.
    pub failure_reason: Option<String>,
    /// If nothing could be found out.
    pub error: Option<ErrorReport>,
    pub actions: Vec<Action>,
    pub fingerprints: Fingerprints,
    /// SHA-256 of each artifact that was looked at, in order.
    pub artifact_hashes: Vec<Hash32>,
    /// What actions name by hash: at most [`ATTACHMENTS_MAX`], together at most
    /// [`ATTACHMENTS_LEN_MAX`] bytes of base64.
    ///
    /// [`ATTACHMENTS_MAX`]: skep_wire::settle::ATTACHMENTS_MAX
    /// [`ATTACHMENTS_LEN_MAX`]: skep_wire::settle::ATTACHMENTS_LEN_MAX
    pub attachments: Vec<Attachment>,
}

/// The engines `http` (also `url`), `api`, `artifact` and `composite`, and where they are set up
/// `llm` and `browser`.
#[derive(Clone, Debug)]
pub struct Engines {
    egress: Egress,
    clock: Arc<dyn Clock>,
    places: Arc<Semaphore>,
    llm: Option<Arc<Llm>>,
    browsers: Option<Browsers>,
}

impl Engines {
    pub fn new(egress: Egress, clock: Arc<dyn Clock>) -> Engines {
        let places = Arc::new(Semaphore::new(WORK_AT_ONCE));
        Engines { egress, clock, places, llm: None, browsers: None }
    }

    /// The same with a language model.
    pub fn with_llm(self, config: LlmConfig) -> Result<Engines, EgressError> {
        Ok(Engines { llm: Some(Arc::new(Llm::new(config)?)), ..self })
    }

    /// The same with browsers, which reach what their own client reaches.
    pub fn with_browsers(self, browsers: Browsers) -> Engines {
        Engines { browsers: Some(browsers), ..self }
    }

    /// What a verifier with these engines registers (11.2): only those that can run here.
    pub fn offers(&self) -> Vec<EngineOffer> {
        let mut offers = known_offers();
        offers.retain(|offer| match offer.kind.as_str() {
            engine::LLM => self.llm.is_some(),
            engine::BROWSER => self.browsers.is_some(),
            _ => true,
        });
        offers
    }

    /// Looks at what the request names. Takes no longer than `timeout_seconds` or two minutes.
    pub async fn examine(&self, request: &VerificationRequest) -> Examination {
        let spec = &request.spec;
        let limit = Duration::from_secs(spec.timeout_seconds).min(EXAMINATION_MAX);
        let bench = self.bench(limit);
        let mut record = Record::new(&*self.clock);
        record.fingerprints.baseline = spec.baseline_fingerprint;
        let examined = bench.look(&mut record, spec, &request.artifacts);
        let result = tokio::time::timeout(limit, examined).await;
        record.close(result.unwrap_or_else(|_| Err(Stop::timeout())))
    }

    /// The fingerprint of the page that the criteria name, before the work and as an examination
    /// will take it afterwards. What is not there yet (the page, or what the selector names) is
    /// taken as an empty text.
    pub async fn fingerprint(&self, criteria: &Hints) -> Result<Hash32, ErrorReport> {
        let limit = match criteria.kind.as_deref() {
            Some(engine::BROWSER) => BROWSER_BASELINE_MAX,
            _ => BASELINE_MAX,
        };
        let bench = self.bench(limit);
        let taken = tokio::time::timeout(limit, bench.baseline(criteria)).await;
        taken.unwrap_or_else(|_| Err(Stop::timeout())).map_err(|stop| match stop {
            Stop::Error(report) => report,
            Stop::Failed(detail) => ErrorReport { code: "bad_content".to_owned(), detail },
        })
    }

    fn bench(&self, limit: Duration) -> Bench {
        Bench {
            egress: self.egress.clone(),
            places: Arc::clone(&self.places),
            deadline: Deadline(Instant::now() + limit),
            llm: self.llm.clone(),
            browsers: self.browsers.clone(),
        }
    }
}

/// Where one examination does its work.
struct Bench {
    egress: Egress,
    places: Arc<Semaphore>,
    deadline: Deadline,
    llm: Option<Arc<Llm>>,
    browsers: Option<Browsers>,
}

impl Bench {
    /// Looks with the engine that the criteria name.
    async fn look(
        &self,
        record: &mut Record<'_>,
        spec: &VerificationSpec,
        artifacts: &[Artifact],
    ) -> Result<(), Stop> {
        match spec.kind.as_str() {
            engine::HTTP | "url" => http::examine_page(self, record, spec).await.map(|_| ()),
            engine::API => http::examine_api(self, record, spec).await,
            engine::ARTIFACT => artifact::examine(self, record, spec, artifacts).await,
            engine::BROWSER => browser::examine(self, record, spec).await,
            engine::LLM => llm::examine(self, record, spec, artifacts).await,
            engine::COMPOSITE => composite::examine(self, record, spec, artifacts).await,
            other => {
                let detail = format!("there is no engine {other:?} here");
                Err(Stop::error("unsupported_engine", detail))
            }
        }
    }

    /// Does what needs the processor on a thread of its own. A panic there, in whatever crate a
    /// stranger's document found it, is an error like any other.
    async fn work<T, F>(&self, work: F) -> Result<T, Stop>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, Stop> + Send + 'static,
    {
        let lost = || Stop::error("engine_failed", "the engine broke down over this document");
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| lost())?;
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.unwrap_or_else(|_| Err(lost()))
    }

    async fn prepare(&self, spec: &VerificationSpec) -> Result<Arc<Criteria>, Stop> {
        let spec = spec.clone();
        self.work(move || Criteria::prepare(&spec).map(Arc::new)).await
    }

    async fn extract(
        &self,
        record: &mut Record<'_>,
        spec: &VerificationSpec,
        criteria: &Arc<Criteria>,
        material: Material,
    ) -> Result<Arc<Extract>, Stop> {
        record.start("EXTRACT", None, spec.selector.as_deref());
        let (criteria, deadline) = (Arc::clone(criteria), self.deadline);
        let extracted = self.work(move || check::extract(&material, &criteria, deadline)).await;
        let extracted = extracted.and_then(|extract| match extract.found {
            0 => Err(Stop::failed("the selector matches nothing")),
            _ => Ok(extract),
        });
        let extract =
            record.finish(extracted, |extract| extract.text.clone().unwrap_or_default())?;
        record.extracted_content =
            extract.text.as_deref().map(|text| cut(text, EXTRACT_LEN_MAX).to_owned());
        Ok(Arc::new(extract))
    }

    fn fingerprint(&self, record: &mut Record<'_>, fingerprint: Hash32) {
        record.start("FINGERPRINT", None, None);
        record.fingerprints.current = Some(fingerprint);
        let _ = record.finish(Ok(()), |()| fingerprint.to_string());
    }

    /// Everything that is asked of what was extracted, its fingerprint included.
    async fn check(
        &self,
        record: &mut Record<'_>,
        spec: &VerificationSpec,
        criteria: &Arc<Criteria>,
        extract: &Arc<Extract>,
    ) -> Result<(), Stop> {
        let fingerprint = extract.fingerprint;
        if criteria.has_checks() {
            record.start("CHECK", None, None);
            let (criteria, extract) = (Arc::clone(criteria), Arc::clone(extract));
            let checked = self.work(move || check::check(&extract, &criteria)).await;
            record.finish(checked, |()| String::new())?;
        }
        if spec.fingerprint_delta {
            record.start("CHECK_CHANGED", None, None);
            let changed = match spec.baseline_fingerprint {
                None => Err(Stop::error("no_baseline", "no fingerprint was taken before the work")),
                Some(before) if before == fingerprint => {
                    Err(Stop::failed("the content has not changed since the deal was closed"))
                }
                Some(_) => Ok(()),
            };
            record.finish(changed, |()| String::new())?;
        }
        Ok(())
    }

    async fn baseline(&self, hints: &Hints) -> Result<Hash32, Stop> {
        let selector = hints.selector.clone();
        let selection =
            self.work(move || selector.as_deref().map(Selection::parse).transpose()).await?;
        let url = hints.url.as_deref();
        let url = url.ok_or_else(|| Stop::error("no_url", "the criteria name no address"))?;
        if hints.kind.as_deref() == Some(engine::BROWSER) {
            return browser::baseline(self, hints, url).await;
        }
        let fetched = self.egress.get(url).await?;
        let content_type = fetched.content_type().map(str::to_owned);
        let bytes = match fetched.status {
            200..300 => fetched.body,
            404 | 410 => return Ok(skep_base::hash::sha256(b"")),
            status => return Err(Stop::error("http_status", format!("HTTP status {status}"))),
        };
        let material = Material { bytes, content_type };
        let criteria = Criteria { selection, ..Criteria::default() };
        let deadline = self.deadline;
        let extract = self.work(move || check::extract(&material, &criteria, deadline)).await?;
        Ok(extract.fingerprint)
    }
}
