//! Network coordinates (Vivaldi): points whose distances foretell round trips.
//!
//! Who is near whom is decided by coordinates that are rounded to microseconds, so that all nodes
//! decide alike.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{Did, hash::sha256_parts};
use skep_wire::swarm::{Location, Share};

#[cfg(test)]
mod tests;

/// A longer round trip tells more about a busy node than about the network.
pub const RTT_MAX: Duration = Duration::from_millis(500);
/// A shorter one is below what clocks of strangers can be trusted with.
const RTT_MIN_S: f64 = 1e-6;
/// How much one sample moves a point and its error: Vivaldi's cc and ce.
const STEP: f64 = 0.25;
/// The error of a node that knows nothing, and the least one.
const ERROR_MAX: f64 = 1.0;
const ERROR_MIN: f64 = 1e-3;
/// How far one sample moves a point at most: a liar that says it is at the end of the world pulls
/// no harder than others.
const MOVE_MAX_S: f64 = 0.02;
/// Points are kept within so many seconds of the origin.
const AXIS_MAX_S: f64 = 10.0;

/// A point, and how far its distances are off, as a share. Both are rounded to millionths, so that
/// what is sent or stored is read back as the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coordinate {
    pub at: Location,
    pub error: f64,
}

impl Default for Coordinate {
    fn default() -> Self {
        Coordinate { at: Location::default(), error: ERROR_MAX }
    }
}

impl Coordinate {
    /// As others tell it.
    pub fn told(at: Location, error: Share) -> Coordinate {
        Coordinate { at, error: error.to_f64() }
    }

    pub fn error_share(&self) -> Share {
        Share::from_e6((clamp_error(self.error) * 1e6).round() as u32)
    }

    /// Moves towards or away from another node by a measured round trip.
    pub fn update(&mut self, mine: &Did, other: &Coordinate, other_did: &Did, rtt: Duration) {
        if rtt > RTT_MAX || !is_sane(&other.at) || !is_sane(&self.at) {
            return;
        }
        let rtt = rtt.as_secs_f64().max(RTT_MIN_S);
        let away = [self.at.x - other.at.x, self.at.y - other.at.y, self.at.z - other.at.z];
        let distance = length(&away);
        let (own, others) = (clamp_error(self.error), clamp_error(other.error));
        let trust = own / (own + others);
        let off = ((distance - rtt).abs() / rtt).min(ERROR_MAX);
        self.error = whole_e6(clamp_error(off * STEP * trust + own * (1.0 - STEP * trust)));
        let direction = match distance > 0.0 {
            true => away.map(|axis| axis / distance),
            false => any_direction(mine, other_did),
        };
        let force = (STEP * trust * (rtt - distance)).clamp(-MOVE_MAX_S, MOVE_MAX_S);
        let moved =
            |axis: f64, part: f64| whole_e6((axis + force * part).clamp(-AXIS_MAX_S, AXIS_MAX_S));
        self.at = Location {
            x: moved(self.at.x, direction[0]),
            y: moved(self.at.y, direction[1]),
            z: moved(self.at.z, direction[2]),
        };
    }
}

fn whole_e6(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

fn is_sane(at: &Location) -> bool {
    [at.x, at.y, at.z].iter().all(|axis| axis.abs() <= AXIS_MAX_S)
}

fn clamp_error(error: f64) -> f64 {
    // What is not a number knows nothing.
    if error.is_nan() { ERROR_MAX } else { error.clamp(ERROR_MIN, ERROR_MAX) }
}

fn length(vector: &[f64; 3]) -> f64 {
    vector.iter().map(|axis| axis * axis).sum::<f64>().sqrt()
}

/// Two nodes at one point part in directions that both DIDs give: without that they would stay
/// there for ever.
fn any_direction(mine: &Did, other: &Did) -> [f64; 3] {
    let hash = sha256_parts(&[mine.to_string().as_bytes(), other.to_string().as_bytes()]).0;
    let axis = |at: usize| f64::from(i16::from_be_bytes([hash[at], hash[at + 1]]));
    let vector = [axis(0), axis(2), axis(4)];
    let length = length(&vector);
    if length > 0.0 { vector.map(|axis| axis / length) } else { [1.0, 0.0, 0.0] }
}

/// The round trip that two places foretell, in whole microseconds.
pub fn distance_us(a: &Location, b: &Location) -> u64 {
    square_us(&micros(a), &micros(b)).isqrt()
}

/// A place in whole microseconds; what lies outside is put on the border.
pub(crate) fn micros(at: &Location) -> [i64; 3] {
    [at.x, at.y, at.z]
        .map(|axis| (axis.clamp(-AXIS_MAX_S, AXIS_MAX_S) * 1_000_000.0).round() as i64)
}

/// The square of a distance. The border keeps it far below what 64 bits hold.
pub(crate) fn square_us(a: &[i64; 3], b: &[i64; 3]) -> u64 {
    a.iter().zip(b).map(|(a, b)| a.abs_diff(*b).pow(2)).sum()
}
