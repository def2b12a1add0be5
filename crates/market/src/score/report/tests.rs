use skep_score::benchmark::Benchmark;
use skep_wire::score::BenchmarkStatus;

use super::*;

#[test]
fn who_qualifies_is_one_of_the_verified() {
    for (tier, held, belongs) in [
        (Tier::Basic, BenchmarkTier::Standard, [false, false, false]),
        (Tier::Basic, BenchmarkTier::Elite, [false, false, false]),
        (Tier::Verified, BenchmarkTier::None, [true, false, false]),
        (Tier::Verified, BenchmarkTier::Standard, [true, true, false]),
        (Tier::Trusted, BenchmarkTier::Elite, [true, true, true]),
    ] {
        let status = BenchmarkStatus::Active;
        let benchmark = Benchmark { status, tier: held, ..Benchmark::default() };
        let track = Track { tier, benchmark, ..Track::default() };
        assert_eq!(lists(&track).map(|(_, belongs)| belongs), belongs, "{tier:?} {held:?}");
    }
}
