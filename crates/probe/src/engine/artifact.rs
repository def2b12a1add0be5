//! The engine `artifact`: the delivered pieces themselves, inline or fetched.
//!
//! Every artifact is looked at and held to the hash that its provider declared; the other checks
//! are for one of them, the first if `custom.index` names no other.

use std::sync::Arc;

use skep_base::{Hash32, hash::sha256};
use skep_wire::settle::{Artifact, VerificationSpec};

use super::{
    Bench,
    check::{self, Material},
    criteria::{Custom, bad_custom},
    http::describe,
    media,
    record::{Record, Stop},
};
use crate::egress::Request;

pub(super) async fn examine(
    bench: &Bench,
    record: &mut Record<'_>,
    spec: &VerificationSpec,
    artifacts: &[Artifact],
) -> Result<(), Stop> {
    let criteria = bench.prepare(spec).await?;
    let wanted = criteria.custom.index.unwrap_or(0);
    if artifacts.is_empty() {
        return Err(Stop::failed("no artifact was delivered"));
    }
    if wanted >= artifacts.len() {
        return Err(Stop::failed(format!("there is no artifact {wanted}")));
    }
    let mut chosen = None;
    for (at, artifact) in artifacts.iter().enumerate() {
        let (material, hash) = take(bench, record, at, artifact).await?;
        if at == wanted {
            chosen = Some((material, hash));
        }
    }
    let Some((mut material, hash)) = chosen else {
        return Err(Stop::failed(format!("there is no artifact {wanted}")));
    };
    if has_shape(&criteria.custom) {
        record.start("CHECK", None, None);
        let asked = Arc::clone(&criteria);
        let checked = bench.work(move || {
            let kind = shape(&asked.custom, &material.bytes, hash)?;
            Ok((kind, material))
        });
        material = record
            .finish(checked.await, |(kind, material)| {
                format!("{kind}, {} bytes", material.bytes.len())
            })?
            .1;
    }
    let extract = bench.extract(record, spec, &criteria, material).await?;
    if spec.fingerprint_delta {
        bench.fingerprint(record, extract.fingerprint);
    }
    bench.check(record, spec, &criteria, &extract).await
}

/// One artifact with its hash, which must be the declared one.
pub(super) async fn take(
    bench: &Bench,
    record: &mut Record<'_>,
    at: usize,
    artifact: &Artifact,
) -> Result<(Material, Hash32), Stop> {
    let material = read(bench, record, at, artifact).await?;
    record.start("HASH", artifact.uri.as_deref(), None);
    let hashed = bench.work(move || Ok((sha256(&material.bytes), material))).await;
    let (hash, material) = record.finish(hashed, |(hash, _)| hash.to_string())?;
    record.saw_artifact(at, hash);
    record.finish(declared(at, artifact, hash), |()| hash.to_string())?;
    Ok((material, hash))
}

/// What is inline is what counts; an address beside it only says where else it is.
async fn read(
    bench: &Bench,
    record: &mut Record<'_>,
    at: usize,
    artifact: &Artifact,
) -> Result<Material, Stop> {
    if let Some(content) = &artifact.content {
        record.start("READ", None, None);
        let material = Material { bytes: content.clone().into_bytes(), content_type: None };
        return record.finish(Ok(material), |material| {
            format!("artifact {at}: {} bytes", material.bytes.len())
        });
    }
    record.start("FETCH", artifact.uri.as_deref(), None);
    let Some(uri) = &artifact.uri else {
        let reason = format!("artifact {at} has neither content nor an address");
        return record.finish(Err(Stop::failed(reason)), |_: &Material| String::new());
    };
    let fetched = bench.egress.send(Request::get(uri)).await.map_err(Stop::from);
    let fetched = fetched.and_then(|fetched| check::status(fetched.status, None).map(|()| fetched));
    let fetched = record.finish(fetched, describe)?;
    let content_type = fetched.content_type().map(str::to_owned);
    Ok(Material { bytes: fetched.body, content_type })
}

fn declared(at: usize, artifact: &Artifact, hash: Hash32) -> Result<(), Stop> {
    match artifact.hash {
        Some(declared) if declared != hash => Err(Stop::failed(format!(
            "artifact_hash_mismatch: artifact {at} has the hash {hash}, not the declared {declared}"
        ))),
        _ => Ok(()),
    }
}

fn has_shape(custom: &Custom) -> bool {
    custom.sha256.is_some()
        || custom.size_min.is_some()
        || custom.size_max.is_some()
        || custom.media_type.is_some()
}

/// Checks of the bytes as such. Gives what they were taken for.
fn shape(custom: &Custom, bytes: &[u8], hash: Hash32) -> Result<&'static str, Stop> {
    let sniffed = media::sniff(bytes);
    // First, since it may be no criterion at all.
    if let Some(asked) = &custom.media_type
        && !media::is_asked(sniffed, asked).ok_or_else(|| {
            bad_custom(format!("the media type {asked:?} cannot be told from the bytes"))
        })?
    {
        return Err(Stop::failed(format!("media type {sniffed} instead of {asked}")));
    }
    if let Some(wanted) = custom.sha256.filter(|wanted| *wanted != hash) {
        return Err(Stop::failed(format!("the SHA-256 is {hash} instead of {wanted}")));
    }
    let size = bytes.len() as u64;
    if let Some(min) = custom.size_min.filter(|min| size < *min) {
        return Err(Stop::failed(format!("{size} bytes are less than {min}")));
    }
    if let Some(max) = custom.size_max.filter(|max| size > *max) {
        return Err(Stop::failed(format!("{size} bytes are more than {max}")));
    }
    Ok(sniffed)
}
