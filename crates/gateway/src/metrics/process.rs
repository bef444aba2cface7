//! What this process takes of the machine, by the names that Prometheus has for it.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use rustix::time::{ClockId, clock_gettime};

use crate::admission::resident;

/// Looks when it is asked.
#[derive(Debug)]
pub(crate) struct ProcessUse;

impl Collector for ProcessUse {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        if let Some(bytes) = resident() {
            let gauge = ConstGauge::new(bytes.cast_signed());
            let (name, help) = ("process_resident_memory", "Resident memory of this process");
            let unit = Some(&Unit::Bytes);
            gauge.encode(encoder.encode_descriptor(name, help, unit, gauge.metric_type())?)?;
        }
        let counter = ConstCounter::new(cpu_secs());
        let (name, help) =
            ("process_cpu", "CPU time of this process, in the program and the kernel");
        let unit = Some(&Unit::Seconds);
        counter.encode(encoder.encode_descriptor(name, help, unit, counter.metric_type())?)
    }
}

fn cpu_secs() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
