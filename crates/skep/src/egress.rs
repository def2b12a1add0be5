//! The market's way to strangers' addresses, through the one guarded client.

use std::time::Duration;

use skep_market::{Egress, EgressFailure, Sending};
use skep_probe::{EgressError, Policy, Request};

/// How long a notice may take to be delivered, or a proof to be fetched.
const TIME_MAX: Duration = Duration::from_secs(15);

/// What nodes and verifiers may reach: `--dev` allows loopback.
pub fn policy(dev: bool) -> Policy {
    Policy { allow_loopback: dev, ..Policy::default() }
}

/// The guarded client as the market knows it.
#[derive(Debug)]
pub struct Guarded(skep_probe::Egress);

impl Guarded {
    pub fn new(dev: bool) -> Result<Guarded, EgressError> {
        let policy = Policy { timeout: TIME_MAX, ..policy(dev) };
        Ok(Guarded(skep_probe::Egress::new(policy)?))
    }
}

impl Egress for Guarded {
    fn post(&self, url: String, headers: Vec<(String, String)>, body: Vec<u8>) -> Sending<'_, u16> {
        Box::pin(async move {
            let request = Request { headers, follow_redirects: false, ..Request::post(url, body) };
            let answer = self.0.send(request).await.map_err(failure)?;
            Ok(answer.status)
        })
    }

    fn get_here(&self, url: String, body_max: usize) -> Sending<'_, Vec<u8>> {
        let request = Request { follow_redirects: false, ..Request::get(url) };
        Box::pin(self.fetch(Request { body_max: Some(body_max), ..request }))
    }

    fn get(&self, url: String, body_max: usize) -> Sending<'_, Vec<u8>> {
        Box::pin(self.fetch(Request { body_max: Some(body_max), ..Request::get(url) }))
    }
}

impl Guarded {
    async fn fetch(&self, request: Request) -> Result<Vec<u8>, EgressFailure> {
        let answer = self.0.send(request).await.map_err(failure)?;
        match answer.is_success() {
            true => Ok(answer.body),
            false => {
                let detail = format!("the address answered {}", answer.status);
                Err(EgressFailure { code: "bad_status".to_owned(), detail })
            }
        }
    }
}

fn failure(error: EgressError) -> EgressFailure {
    EgressFailure { code: error.code().to_owned(), detail: error.to_string() }
}
