//! When and how often a call is sent again.

use std::time::Duration;

use crate::Error;

/// How a client retries. Only what may work later is sent again, and always as the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Tries in all; 1 means no retry.
    pub attempts: u32,
    /// Before the second try; it doubles each time.
    pub first_pause: Duration,
    pub longest_pause: Duration,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries {
            attempts: 5,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
        }
    }
}

impl Retries {
    pub const NONE: Retries =
        Retries { attempts: 1, first_pause: Duration::ZERO, longest_pause: Duration::ZERO };

    /// How long to wait after the `attempt`th try, or `None` if that was the last. `jitter` is
    /// random, so that many clients do not come back together.
    pub(crate) fn pause(&self, attempt: u32, error: &Error, jitter: u8) -> Option<Duration> {
        if attempt >= self.attempts || !error.is_retryable() {
            return None;
        }
        let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
        let backoff = self.first_pause.saturating_mul(doubled).min(self.longest_pause);
        // Half of it is certain, half is chance.
        let pause = backoff / 2 + backoff * u32::from(jitter) / (2 * u32::from(u8::MAX));
        Some(pause.max(error.retry_after().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let retries = Retries::default();
        let error = Error::Answer { status: 503, reason: String::new() };
        let ms =
            |attempt, jitter| retries.pause(attempt, &error, jitter).map(|pause| pause.as_millis());
        assert_eq!([ms(1, 0), ms(1, 255)], [Some(50), Some(100)]);
        assert_eq!([ms(2, 255), ms(3, 255), ms(4, 255)], [Some(200), Some(400), Some(800)]);
        assert_eq!(ms(5, 255), None);
        let long = Retries { attempts: 100, ..retries };
        assert_eq!(long.pause(60, &error, 255), Some(Duration::from_secs(5)));
        let final_error = Error::Answer { status: 400, reason: String::new() };
        assert_eq!(retries.pause(1, &final_error, 0), None);
        assert_eq!(Retries::NONE.pause(1, &error, 0), None);
    }
}
