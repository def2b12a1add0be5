//! What travels beside a proof: bound to it by hashes that its actions name.

use std::collections::BTreeSet;

use serde_json::Value;
use skep_wire::settle::{
    ATTACHMENT_NAME_LEN_MAX, ATTACHMENTS_LEN_MAX, ATTACHMENTS_MAX, Attachment,
};

use super::Fault;

/// The fields of an action that name an attachment.
const NAMING: [&str; 2] = ["data_sha256", "screenshot_sha256"];

/// The hashes that a log names.
pub(super) fn named(log: &[Value]) -> BTreeSet<&str> {
    let hashes = log.iter().flat_map(|action| NAMING.map(|field| action.get(field)));
    hashes.flatten().filter_map(Value::as_str).collect()
}

/// Each is what its hash says, is named by the log, and is there once.
pub(super) fn check_attachments(attachments: &[Attachment], log: &[Value]) -> Result<(), Fault> {
    let bad = |index: usize, problem: String| Fault::BadAttachment { index, problem };
    if attachments.len() > ATTACHMENTS_MAX {
        let problem = format!("a callback has at most {ATTACHMENTS_MAX}");
        return Err(bad(ATTACHMENTS_MAX, problem));
    }
    let mut open = named(log);
    let mut length = 0;
    for (index, attachment) in attachments.iter().enumerate() {
        length += attachment.data.len();
        if length > ATTACHMENTS_LEN_MAX {
            let problem = format!("all together have at most {ATTACHMENTS_LEN_MAX} bytes");
            return Err(bad(index, problem));
        }
        let name = attachment.name.as_deref().unwrap_or("-");
        for word in [name, &attachment.media_type] {
            if word.is_empty() || word.len() > ATTACHMENT_NAME_LEN_MAX {
                let most = ATTACHMENT_NAME_LEN_MAX;
                return Err(bad(index, format!("its name and type have 1 to {most} bytes")));
            }
        }
        if !open.remove(attachment.sha256.to_string().as_str()) {
            return Err(bad(index, "no action names it, or it is there twice".to_owned()));
        }
        if attachment.bytes().is_none() {
            return Err(bad(index, "its data is not what its hash is of".to_owned()));
        }
    }
    Ok(())
}
