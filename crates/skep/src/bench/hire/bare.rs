//! The same call for nothing: the work behind a socket, with no more HTTP than it takes. A server
//! that checks, limits and routes does more, so this peer flatters the unpaid side.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use skep_probe::{Egress, Request};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{Caller, params, place};
use crate::egress;

/// The longest request that is read.
const REQUEST_LEN_MAX: usize = 16 * 1024;

/// Answers until it is dropped.
pub(super) struct Bare {
    url: String,
    serving: JoinHandle<()>,
}

impl Bare {
    pub(super) async fn open() -> Result<Bare> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A caller that goes away is its own affair.
                tokio::spawn(async move { answer(stream).await.ok() });
            }
        });
        Ok(Bare { url, serving })
    }

    /// Calls as a buyer calls a seller: through the guarded client, on a connection of its own.
    pub(super) fn caller(&self) -> Caller {
        let url = self.url.clone();
        let egress = Egress::new(egress::policy(true)).map_err(|error| error.to_string());
        Arc::new(move |_| {
            let (egress, url) = (egress.clone(), url.clone());
            Box::pin(async move {
                let body = serde_json::to_vec(&params())?;
                let json = ("content-type".to_owned(), "application/json".to_owned());
                let request = Request { headers: vec![json], ..Request::post(url, body) };
                let answer = egress.map_err(anyhow::Error::msg)?.send(request).await?;
                ensure!(answer.is_success(), "the bare handler answered {}", answer.status);
                let result: Value = serde_json::from_slice(&answer.body)?;
                ensure!(result["result"].is_number(), "the bare handler answered {result}");
                Ok(())
            })
        })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let body = read_body(&mut stream).await?;
    let result = place::mean(&serde_json::from_slice(&body)?).context("no numbers")?;
    let body = serde_json::to_vec(&result)?;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).await?;
    Ok(stream.shutdown().await?)
}

/// Reads one message and gives its body.
pub(super) async fn read_body(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        if let Some(end) = message.windows(4).position(|part| part == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&message[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.context("no length")?.trim().parse()?;
            if message.len() >= end + 4 + length {
                return Ok(message[end + 4..end + 4 + length].to_vec());
            }
        }
        ensure!(message.len() < REQUEST_LEN_MAX, "the message is too long");
        ensure!(stream.read_buf(&mut message).await? > 0, "the connection ended");
    }
}
