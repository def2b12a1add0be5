//! 7.2: hires on the seller's own time.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use skep_wire::hire::{JobAccepted, JobCallback, JobStatus, WalletSigned};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use super::{MEAN, PRICE, World, cost};

/// How long a job, and the word of its end, are waited for.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);
/// The longest message, in bytes.
const MESSAGE_LEN_MAX: usize = 1024 * 1024;

pub(super) async fn a_job_is_called_back_and_can_be_asked_for(w: &World) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/done", listener.local_addr()?);
    let called = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        posted(stream).await
    });
    let before = w.free().await?;
    let params = json!({"data": [8, 10]});
    let hire = w.hand.hire(&w.means, MEAN, params, |hire| hire.callback_url = Some(url))?;
    let (_, answer) = w.hand.bought(&w.means, &hire).await?;
    ensure!(answer.status == 202, "expected 202, not {}: {}", answer.status, answer.body);
    let JobAccepted { job_id, .. } = serde_json::from_value(answer.body)?;

    let body = timeout(PATIENCE, called).await.context("nobody called back")???;
    let callback: JobCallback = serde_json::from_slice(&body)?;
    callback.check_signature().context("the callback is not signed")?;
    ensure!(callback.seller_id == w.means.id(), "somebody else called back");
    let JobStatus::Complete { job_id: told, response } = callback.job else {
        anyhow::bail!("the job did not end well: {:?}", callback.job);
    };
    ensure!(told == job_id && response.result == json!({"result": 9.0}), "another job's end");

    let asked = timeout(PATIENCE, asked_for(w, &job_id)).await.context("the job never ends")??;
    ensure!(asked == response.result, "the job and its callback differ");
    cost(before, w.free().await?, PRICE)?;
    let unknown = w.hand.get(&format!("{}/jobs/job_0", w.means.url)).await?;
    unknown.refused(404, "job_unknown")?;
    Ok(format!("{job_id}: 202, then a callback signed by the seller, and the same by GET"))
}

async fn asked_for(w: &World, job_id: &str) -> Result<serde_json::Value> {
    loop {
        let answer = w.hand.get(&format!("{}/jobs/{job_id}", w.means.url)).await?;
        match serde_json::from_value(answer.body)? {
            JobStatus::Complete { response, .. } => return Ok(response.result),
            JobStatus::Pending { .. } => sleep(PAUSE).await,
            failed @ JobStatus::Failed { .. } => anyhow::bail!("{failed:?}"),
        }
    }
}

/// The body of one POST, which is answered with 200.
async fn posted(mut stream: TcpStream) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await?;
        ensure!(count > 0 && bytes.len() < MESSAGE_LEN_MAX, "a callback broke off");
        bytes.extend_from_slice(&piece[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.context("a callback without a length")?.trim().parse()?;
        if bytes.len() >= end + 4 + length {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
            return Ok(bytes[end + 4..].to_vec());
        }
    }
}
