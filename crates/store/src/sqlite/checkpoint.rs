//! Copies the write-ahead log into the database beside the writer, not in its way.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::mpsc::WeakSender;

use super::{Settings, connect, writer::Command};

/// How often the log's length is looked at.
const PAUSE: Duration = Duration::from_millis(100);
/// A log shorter than this is left alone.
const LOG_BYTES_MIN: u64 = 4 << 20;
/// A log longer than this is started over by the writer, which waits for no reader longer than
/// its busy time-out.
const LOG_BYTES_RESTART: u64 = 32 << 20;

/// A reader that stays makes the writer wait each time it is asked: not too often.
const RESTART_PAUSE: Duration = Duration::from_secs(2);

/// Ends its thread when dropped.
#[derive(Debug)]
pub(super) struct Checkpointer {
    stop: Option<Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpointer ended in a panic");
        }
    }
}

pub(super) fn start(
    settings: Settings,
    writer: WeakSender<Command>,
) -> std::io::Result<Checkpointer> {
    let (stop, stopped) = channel();
    let thread = std::thread::Builder::new()
        .name("skep-checkpoint".into())
        .spawn(move || run(&settings, &writer, &stopped))?;
    Ok(Checkpointer { stop: Some(stop), thread: Some(thread) })
}

fn run(settings: &Settings, writer: &WeakSender<Command>, stopped: &Receiver<()>) {
    let mut log = settings.path.clone().into_os_string();
    log.push("-wal");
    let mut conn: Option<Connection> = None;
    let mut asked = Instant::now();
    while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
        let bytes = std::fs::metadata(&log).map_or(0, |m| m.len());
        if bytes < LOG_BYTES_MIN {
            continue;
        }
        match passive(settings, &mut conn) {
            // Everything is copied: the writer starts over by itself.
            Ok(true) => {}
            Ok(false) if bytes > LOG_BYTES_RESTART && asked.elapsed() > RESTART_PAUSE => {
                asked = Instant::now();
                if let Some(writer) = writer.upgrade() {
                    // A full queue means that the writer is busy; the next round asks again.
                    let _ = writer.try_send(Command::RestartLog);
                }
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "a checkpoint failed");
                conn = None;
            }
        }
    }
}

/// Whether the whole log is in the database now.
fn passive(settings: &Settings, conn: &mut Option<Connection>) -> rusqlite::Result<bool> {
    let conn = match conn {
        Some(conn) => conn,
        None => conn.insert(connect(settings)?),
    };
    conn.query_row("pragma wal_checkpoint(passive)", [], |row| {
        let (log, copied): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(log == copied)
    })
}
