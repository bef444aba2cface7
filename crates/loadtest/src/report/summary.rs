//! Distributions in a few numbers, as reports tell them.

use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;

use super::{Brief, Distribution};
use crate::measures::Timing;

/// So many points for each halving of the rest of a distribution.
const CURVE_TICKS: u32 = 4;

fn ms(us: u64) -> f64 {
    us as f64 / 1_000.0
}

impl Brief {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            count: histogram.len(),
            p50_ms: ms(histogram.value_at_quantile(0.5)),
            p99_ms: ms(histogram.value_at_quantile(0.99)),
            max_ms: ms(histogram.max()),
        }
    }
}

impl Distribution {
    pub(crate) fn of(timing: Timing, histogram: &Histogram<u64>) -> Self {
        let at = |quantile| ms(histogram.value_at_quantile(quantile));
        let points = histogram.iter_quantiles(CURVE_TICKS);
        let point = |point: IterationValue<u64>| {
            (point.quantile_iterated_to() * 100.0, ms(point.value_iterated_to()))
        };
        Self {
            name: timing.name().to_owned(),
            meaning: timing.meaning().to_owned(),
            count: histogram.len(),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: ms(histogram.max()),
            curve: points.map(point).collect(),
        }
    }
}
