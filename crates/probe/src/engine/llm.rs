//! The engine `llm`: a language model holds the work to a rubric from the terms.
//!
//! What a stranger wrote reaches the model as data and in one place only: as JSON on one line,
//! between two lines that hold a random marker. The answer counts only if it is exactly what was
//! asked for and repeats a challenge that no page can know; whatever else comes is an error, and
//! no money moves.

mod model;
mod prompt;

use std::sync::Arc;

use serde_json::json;
use skep_base::hash::{json_sha256, sha256};
use skep_wire::settle::{Artifact, VerificationSpec, criteria::Rubric};

pub(super) use self::model::Llm;
pub use self::model::{ApiKey, LlmConfig, LlmStyle};
use self::prompt::{Piece, Prompt, Verdict};
use super::{
    Bench, artifact,
    check::{self, Extract, Material},
    criteria::{Criteria, bad_custom},
    http, media,
    record::{Record, Stop, cut},
};

/// All that the model is shown of the work, in bytes.
const MATERIAL_LEN_MAX: usize = 48 * 1024;

pub(super) async fn examine(
    bench: &Bench,
    record: &mut Record<'_>,
    spec: &VerificationSpec,
    artifacts: &[Artifact],
) -> Result<(), Stop> {
    let rubric = Rubric::read(spec.custom.as_ref()).map_err(bad_custom)?;
    let Some(llm) = &bench.llm else {
        return Err(Stop::error("no_llm", "this verifier has no language model set up (llm_url)"));
    };
    let mut desk = Desk { pieces: Vec::new(), room: MATERIAL_LEN_MAX };
    if spec.url.is_some() {
        let extract = http::examine_page(bench, record, spec).await?;
        let source = format!("page {}", spec.url.as_deref().unwrap_or_default());
        desk.put(source, &extract, "");
        for (at, artifact) in artifacts.iter().enumerate() {
            let material = artifact::take(bench, record, at, artifact).await?.0;
            desk.put_material(bench, at, material).await?;
        }
    } else {
        gather(bench, record, spec, artifacts, &mut desk).await?;
    }
    evaluate(llm, record, &rubric, desk.pieces).await
}

/// The delivered pieces, the checked one as the criteria take it.
async fn gather(
    bench: &Bench,
    record: &mut Record<'_>,
    spec: &VerificationSpec,
    artifacts: &[Artifact],
    desk: &mut Desk,
) -> Result<(), Stop> {
    let criteria = bench.prepare(spec).await?;
    let wanted = criteria.custom.index.unwrap_or(0);
    if wanted >= artifacts.len() {
        return Err(Stop::failed(format!("there is no artifact {wanted} to judge")));
    }
    for (at, artifact) in artifacts.iter().enumerate() {
        let material = artifact::take(bench, record, at, artifact).await?.0;
        if at != wanted || !(criteria.has_checks() || criteria.selection.is_some()) {
            desk.put_material(bench, at, material).await?;
            continue;
        }
        let kind = media::sniff(&material.bytes);
        let extract = bench.extract(record, spec, &criteria, material).await?;
        bench.check(record, spec, &criteria, &extract).await?;
        desk.put(format!("artifact {at}"), &extract, kind);
    }
    Ok(())
}

/// What the model will be shown, as long as there is room.
struct Desk {
    pieces: Vec<Piece>,
    room: usize,
}

impl Desk {
    fn put(&mut self, source: String, extract: &Extract, kind: &str) {
        let text = extract.text.as_deref();
        let shown = cut(text.unwrap_or_default(), self.room);
        self.room -= shown.len();
        self.pieces.push(match text {
            Some(text) => Piece { source, text: shown.to_owned(), cut: shown.len() < text.len() },
            None => Piece { source, text: format!("({kind}, not text)"), cut: true },
        });
    }

    async fn put_material(
        &mut self,
        bench: &Bench,
        at: usize,
        material: Material,
    ) -> Result<(), Stop> {
        let (deadline, kind) = (bench.deadline, media::sniff(&material.bytes));
        let whole = Criteria::default();
        let extract = bench.work(move || check::extract(&material, &whole, deadline)).await?;
        self.put(format!("artifact {at}"), &extract, kind);
        Ok(())
    }
}

async fn evaluate(
    llm: &Arc<Llm>,
    record: &mut Record<'_>,
    rubric: &Rubric,
    pieces: Vec<Piece>,
) -> Result<(), Stop> {
    record.start("LLM_EVALUATE", None, None);
    let prompt = Prompt::new(rubric, &pieces)?;
    let prompt_sha256 = sha256(format!("{}\n{}", prompt.system, prompt.user).as_bytes());
    // Whoever has the work can compute this one again.
    let material_sha256 = json_sha256(&pieces).ok();
    let config = llm.config();
    record.note(json!({
        "model": config.model, "style": config.style.as_str(), "prompt_sha256": prompt_sha256,
        "material_sha256": material_sha256,
    }));
    let answered = match llm.ask(&prompt).await {
        Ok(raw) => {
            let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&raw).is_ok();
            let media_type = if is_json { "application/json" } else { "text/plain" };
            let hash = record.attach(&raw, media_type, "llm-answer.json");
            if let Some(step) = record.step() {
                step.data_sha256 = Some(hash);
            }
            llm.read(&raw).and_then(|text| prompt.verdict(&text))
        }
        Err(stop) => Err(stop),
    };
    let answered = answered.and_then(|Verdict { passed, reason }| match passed {
        true => Ok(reason),
        false => Err(Stop::failed(format!("the rubric is not met: {reason}"))),
    });
    record.finish(answered, |reason| format!("pass: {reason}")).map(|_| ())
}
