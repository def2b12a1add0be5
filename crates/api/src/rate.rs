//! How often one caller may call.

use std::{
    fmt::Write,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use skep_base::AgentId;

use crate::{
    code::Code,
    config::{Rate, Rates},
    generations::Generations,
    problem::ApiError,
};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Whose tokens are spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    Address(IpAddr),
    Signer(AgentId),
}

impl Caller {
    /// One subscriber holds a whole /64 of IPv6, so that is one caller.
    pub(crate) fn at(address: IpAddr) -> Caller {
        match address.to_canonical() {
            IpAddr::V6(v6) => {
                let network = u128::from(v6) >> 64 << 64;
                Caller::Address(IpAddr::V6(network.into()))
            }
            v4 => Caller::Address(v4),
        }
    }
}

/// What a request costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cost {
    Read,
    Write,
}

impl Cost {
    pub(crate) fn of(method: &Method) -> Cost {
        match method.is_safe() {
            true => Cost::Read,
            false => Cost::Write,
        }
    }
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled_at: Instant,
}

/// The buckets of everybody who called lately.
#[derive(Debug)]
pub(crate) struct Limiter {
    rates: Rates,
    buckets: Mutex<Generations<(Caller, Cost), Bucket>>,
}

/// What one bucket said to one request.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    policy: &'static str,
    rate: Rate,
    left: u32,
    /// Until the bucket is full, or until there is a token if there is none.
    wait: Duration,
}

/// What all buckets said to one request, for its answer's headers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdicts(Arc<Mutex<Vec<Verdict>>>);

impl Limiter {
    pub(crate) fn new(rates: Rates) -> Limiter {
        Limiter { rates, buckets: Mutex::new(Generations::new(rates.callers)) }
    }

    fn policy(&self, caller: Caller, cost: Cost) -> (&'static str, Rate) {
        match (caller, cost) {
            (Caller::Address(_), Cost::Read) => ("address-read", self.rates.address_read),
            (Caller::Address(_), Cost::Write) => ("address-write", self.rates.address_write),
            (Caller::Signer(_), Cost::Read) => ("signer-read", self.rates.signer_read),
            (Caller::Signer(_), Cost::Write) => ("signer-write", self.rates.signer_write),
        }
    }

    /// Takes a token, or says how long to wait for one.
    pub(crate) fn spend(
        &self,
        caller: Caller,
        cost: Cost,
        now: Instant,
        verdicts: &Verdicts,
    ) -> Result<(), ApiError> {
        let (policy, rate) = self.policy(caller, cost);
        let (burst, per_second) = (f64::from(rate.burst), f64::from(rate.per_second.max(1)));
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (caller, cost);
        if buckets.get(&key).is_none() {
            buckets.insert(key, Bucket { tokens: burst, filled_at: now });
        }
        let Some(bucket) = buckets.get(&key) else { return Ok(()) };
        let elapsed = now.saturating_duration_since(bucket.filled_at).as_secs_f64();
        bucket.tokens = (bucket.tokens + elapsed * per_second).min(burst);
        bucket.filled_at = now;
        let has_token = bucket.tokens >= 1.0;
        let missing = if has_token {
            bucket.tokens -= 1.0;
            burst - bucket.tokens
        } else {
            1.0 - bucket.tokens
        };
        let left = bucket.tokens as u32;
        drop(buckets);
        let wait = Duration::from_secs_f64(missing / per_second);
        verdicts.lock().push(Verdict { policy, rate, left, wait });
        if has_token {
            return Ok(());
        }
        let detail = format!(
            "the limit {policy} allows {} at once and {} a second: wait {} ms",
            rate.burst,
            rate.per_second,
            wait.as_millis().max(1)
        );
        let mut error = ApiError::new(Code::RateLimited, detail);
        error.retry_after = Some(wait);
        Err(error)
    }
}

impl Verdicts {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Verdict>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The header fields of the IETF's draft on rate limits.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        let (mut limit, mut policy) = (String::new(), String::new());
        for verdict in self.lock().iter() {
            let comma = if limit.is_empty() { "" } else { ", " };
            let Rate { burst, per_second } = verdict.rate;
            // The window in which the whole quota grows back.
            let window = burst.div_ceil(per_second.max(1)).max(1);
            let seconds = verdict.wait.as_secs_f64().ceil();
            let (name, left) = (verdict.policy, verdict.left);
            // Writing to a string cannot fail.
            let _ = write!(policy, "{comma}\"{name}\";q={burst};w={window}");
            let _ = write!(limit, "{comma}\"{name}\";r={left};t={seconds}");
        }
        for (name, value) in [(RATE_LIMIT, limit), (RATE_LIMIT_POLICY, policy)] {
            if let (false, Ok(value)) = (value.is_empty(), HeaderValue::try_from(value)) {
                headers.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_run_out_and_come_back() {
        let rate = Rate { burst: 3, per_second: 2 };
        let limiter = Limiter::new(Rates { address_write: rate, ..Rates::default() });
        let start = Instant::now();
        let caller = Caller::at("192.0.2.1".parse().unwrap());
        let spend = |ms: u64| {
            let verdicts = Verdicts::default();
            let now = start + Duration::from_millis(ms);
            limiter.spend(caller, Cost::Write, now, &verdicts).map_err(|error| error.retry_after)
        };
        assert_eq!([spend(0), spend(0), spend(0)], [Ok(()); 3]);
        assert_eq!(spend(0), Err(Some(Duration::from_millis(500))));
        assert_eq!(spend(499), Err(Some(Duration::from_millis(1))));
        assert_eq!(spend(500), Ok(()));
        assert!(spend(500).is_err());
        // Time that goes back gives nothing and takes nothing.
        assert!(spend(100).is_err());
        assert_eq!([spend(9000), spend(9000), spend(9000)], [Ok(()); 3]);
        assert!(spend(9000).is_err());
        // Reads have their own bucket, and so has everybody else.
        let other = Caller::at("192.0.2.2".parse().unwrap());
        let verdicts = Verdicts::default();
        limiter.spend(caller, Cost::Read, start, &verdicts).unwrap();
        limiter.spend(other, Cost::Write, start, &verdicts).unwrap();
        let mut headers = HeaderMap::new();
        verdicts.write(&mut headers);
        assert_eq!(
            headers[RATE_LIMIT_POLICY],
            "\"address-read\";q=600;w=3, \"address-write\";q=3;w=2"
        );
        assert_eq!(headers[RATE_LIMIT], "\"address-read\";r=599;t=1, \"address-write\";r=2;t=1");
    }

    #[test]
    fn a_network_is_one_caller() {
        let at = |text: &str| Caller::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:192.0.2.1"), at("192.0.2.1"));
    }
}
