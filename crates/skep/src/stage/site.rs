//! A page on this machine that a browser can look at.

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

/// The longest request that is read.
const REQUEST_LEN_MAX: usize = 8 * 1024;

/// Serves one page until it is dropped.
pub struct Site {
    pub url: String,
    serving: JoinHandle<()>,
}

impl Site {
    pub async fn open(html: &'static str) -> Result<Site> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = vec![0; REQUEST_LEN_MAX];
                    let read = stream.read(&mut request).await.unwrap_or_default();
                    let is_page = request[..read].starts_with(b"GET / ");
                    let (status, body) = if is_page { ("200 OK", html) } else { ("404 Gone", "") };
                    let answer = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\n\
                         content-length: {}\r\nconnection: close\r\n\r\n{body}",
                        body.len()
                    );
                    let _ = stream.write_all(answer.as_bytes()).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Ok(Site { url, serving })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
