//! What lies between the nodes: distance, loss, repetition, disorder, and cuts that heal.

use skep_wire::swarm::{Location, Share};

use crate::rng::Rng;

/// Clusters of nodes that lie close together.
const REGIONS: u64 = 4;
/// How far regions lie apart, as a round trip in seconds along each axis.
const REGION_SPREAD_S: f64 = 0.15;
/// How far the nodes of one region lie apart.
const CLUSTER_SPREAD_S: f64 = 0.01;
/// What every message takes, however near.
const DELAY_MIN_MS: i64 = 1;
const JITTER_MS: u64 = 20;
/// So many percent of the messages are held up, and come after later ones.
const HELD_UP_PERCENT: u32 = 3;
const HELD_UP_MS: u64 = 1_500;

/// For a while, those on one side do not hear those on the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub from_ms: i64,
    pub until_ms: i64,
    /// By the number of the endpoint: nodes first, then clients.
    pub side: Vec<bool>,
}

/// How bad the network is, and until when.
#[derive(Clone, Debug)]
pub struct Weather {
    pub loss: Share,
    pub duplication: Share,
    pub cuts: Vec<Cut>,
    /// After this nothing is lost or doubled any more.
    pub faults_until_ms: i64,
}

pub struct Network {
    places: Vec<Location>,
    weather: Weather,
    rng: Rng,
}

/// Where `count` endpoints lie.
pub fn scatter(rng: &mut Rng, count: usize) -> Vec<Location> {
    let point = |rng: &mut Rng, size: f64| Location {
        x: rng.unit() * size,
        y: rng.unit() * size,
        z: rng.unit() * size,
    };
    let centres: Vec<Location> = (0..REGIONS).map(|_| point(rng, REGION_SPREAD_S)).collect();
    let place = |rng: &mut Rng| {
        let centre = centres[rng.index(centres.len())];
        let near = point(rng, CLUSTER_SPREAD_S);
        // Whole microseconds: what is signed and stored reads back as the same number.
        let whole = |s: f64| (s * 1e6).round() / 1e6;
        Location {
            x: whole(centre.x + near.x),
            y: whole(centre.y + near.y),
            z: whole(centre.z + near.z),
        }
    };
    (0..count).map(|_| place(rng)).collect()
}

impl Network {
    pub fn new(places: Vec<Location>, weather: Weather, rng: Rng) -> Network {
        Network { places, weather, rng }
    }

    /// Where the endpoints lie.
    pub fn places(&self) -> &[Location] {
        &self.places
    }

    /// When a message sent now arrives: not at all, once or twice.
    pub fn carry(&mut self, now_ms: i64, from: usize, to: usize) -> [Option<i64>; 2] {
        let faulty = now_ms < self.weather.faults_until_ms;
        let apart = |cut: &Cut| {
            (cut.from_ms..cut.until_ms).contains(&now_ms) && cut.side[from] != cut.side[to]
        };
        if self.weather.cuts.iter().any(apart) || faulty && self.rng.chance(self.weather.loss) {
            return [None, None];
        }
        let twice = faulty && self.rng.chance(self.weather.duplication);
        let first = now_ms + self.delay(from, to, faulty);
        [Some(first), twice.then(|| now_ms + self.delay(from, to, faulty))]
    }

    fn delay(&mut self, from: usize, to: usize, faulty: bool) -> i64 {
        let (a, b) = (self.places[from], self.places[to]);
        let square = (a.x - b.x).powi(2) + (a.y - b.y).powi(2) + (a.z - b.z).powi(2);
        let one_way_ms = (square.sqrt() * 500.0) as i64;
        let held_up = faulty && self.rng.percent(HELD_UP_PERCENT);
        let extra = self.rng.below(if held_up { HELD_UP_MS } else { JITTER_MS });
        DELAY_MIN_MS + one_way_ms + extra as i64
    }
}
