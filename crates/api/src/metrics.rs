//! Counters and histograms, one registry for the process.

use std::{sync::OnceLock, time::Duration};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Upper bounds in seconds, from a cached read to a request that is about to be given up.
const LATENCY_BUCKETS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
/// How often samples are folded into their buckets, whether anybody asks for them or not.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

static REGISTRY: OnceLock<PrometheusHandle> = OnceLock::new();

/// Makes the registry the process's own; twice does no harm.
pub fn install() {
    handle();
}

fn handle() -> &'static PrometheusHandle {
    REGISTRY.get_or_init(|| {
        let latency = Matcher::Suffix("_seconds".to_owned());
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(latency, &LATENCY_BUCKETS)
            .expect("the list of buckets is not empty")
            .build_recorder();
        let handle = recorder.handle();
        // Somebody else's recorder may be there first: then ours stays empty, which is theirs to
        // choose.
        let _ = metrics::set_global_recorder(recorder);
        handle
    })
}

pub(crate) fn render() -> String {
    handle().render()
}

/// Keeps samples from piling up. Never ends.
pub(crate) async fn upkeep() {
    let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
    loop {
        ticks.tick().await;
        handle().run_upkeep();
    }
}
