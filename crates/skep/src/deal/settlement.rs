//! The marketplace's receipt for how a deal ended.

use std::io::Write;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use skep_base::{ed25519::PublicKey, id::DealId};
use skep_wire::{identity::Statement, settle::SettlementReceipt};

use super::{
    status::show,
    words::{Told, print_json},
};
use crate::{
    client::{NodeArgs, connect},
    settings::Settings,
};

/// Show the signed receipt of a settled deal, and check its signature
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep deal settlement ID
  skep deal settlement ID --marketplace-key BASE64URL

No keyring is needed. Without --marketplace-key the node's own word says which key is its; a key
that you noted before shows that the receipt is from the same marketplace.")]
pub struct Settlement {
    #[command(flatten)]
    pub node: NodeArgs,
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
    /// The key that must have signed
    #[arg(long, value_name = "BASE64URL", allow_hyphen_values = true)]
    marketplace_key: Option<PublicKey>,
}

#[derive(Serialize)]
struct Checked<'a> {
    #[serde(flatten)]
    receipt: &'a SettlementReceipt,
    signature_ok: bool,
    /// `pinned`, or `node` if the node itself says that this is its key.
    key_from: &'static str,
}

impl Settlement {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let client = connect(settings)?;
        let receipt = client.settlement(self.id).await.told()?;
        let (key, key_from) = match self.marketplace_key {
            Some(key) => (key, "pinned"),
            None => (client.node_keys().await.told()?.settlement, "node"),
        };
        let signature_ok = receipt.settlement.negotiation_id == self.id
            && receipt.settlement.verify(&key, &receipt.signature).is_ok();
        if json {
            print_json(out, &Checked { receipt: &receipt, signature_ok, key_from })?;
        } else {
            show::line(out, "deal", receipt.settlement.negotiation_id)?;
            show::line(out, "requester", receipt.settlement.requester)?;
            show::line(out, "provider", receipt.settlement.provider)?;
            show::of_settlement(&receipt.settlement, out)?;
            let origin = match key_from {
                "pinned" => "pinned by --marketplace-key",
                _ => "as the node says",
            };
            let fingerprint = &key.fingerprint().to_string()[..16];
            let mark = if signature_ok { "ok" } else { "FAIL" };
            show::line(out, "signature", format!("{mark}, key {fingerprint}, {origin}"))?;
        }
        match signature_ok {
            true => Ok(()),
            false => bail!("the receipt is not signed by the key {key}: do not rely on it"),
        }
    }
}
