//! The figures of a report that are compared, and when a change of one is more than noise. Pure.
//!
//! | figure | is worse, or better, when it changed by more than |
//! | --- | --- |
//! | p50, p90, p99 and p99.9 of a latency | 10 %, and 0.2 ms, with ten samples beyond it in both runs |
//! | the longest latency | never: it is one sample |
//! | what must not be: failures, lost connections, broken promises, errors | nothing: any change counts |
//! | memory a connection | 5 %, and 50 bytes |
//! | cores, on average over the run | 10 %, and 0.05 of a core |
//! | how much was done | never: the scenario says that |

use crate::report::promises::Outcome;
use crate::report::{Distribution, Footprint, Report, names, promises, written};

/// A figure of one run.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) value: f64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// How much was done.
    Load,
    /// What must not be.
    Fault,
    /// A latency in ms, with enough samples to be judged.
    Latency,
    /// A latency in ms that a few samples make.
    FewSamples,
    Memory,
    Cores,
}

/// How a figure changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Noise,
    Worse,
    Better,
}

impl Figure {
    pub(super) fn written(&self) -> String {
        match self.kind {
            Kind::Load | Kind::Fault => written::count(self.value as u64),
            Kind::Latency | Kind::FewSamples => written::ms(self.value),
            Kind::Memory => written::bytes(self.value),
            Kind::Cores => written::number(self.value),
        }
    }

    /// How it changed up to a later run's.
    pub(super) fn change(&self, later: &Self) -> Change {
        let noise = |share: f64, least: f64| least.max(self.value.abs() * share);
        let noise = match (self.kind, later.kind) {
            (Kind::Fault, Kind::Fault) => 0.0,
            (Kind::Latency, Kind::Latency) => noise(0.1, 0.2),
            (Kind::Memory, Kind::Memory) => noise(0.05, 50.0),
            (Kind::Cores, Kind::Cores) => noise(0.1, 0.05),
            _ => f64::INFINITY,
        };
        let grown = later.value - self.value;
        match () {
            () if grown > noise => Change::Worse,
            () if grown < -noise => Change::Better,
            () => Change::Noise,
        }
    }
}

/// All figures of a run, in the order in which they are read.
pub(super) fn of(report: &Report) -> Vec<Figure> {
    let load =
        [names::CONNECTED, names::SNAPSHOT_STATES, names::PUSHED_ONLINE, names::PUSHED_OFFLINE];
    let load = load.iter().chain(&names::SIGNS_OF_LIFE).filter(|name| report.count(name) > 0);
    let load = load.map(|name| figure(names::spoken(name), report.count(name) as f64, Kind::Load));
    let most = report.timeline.iter().map(|second| second.open).max().unwrap_or(0);
    let most = figure("most connections open".to_owned(), most as f64, Kind::Load);
    let latencies = report.timings.iter().filter(|timing| timing.count > 0).flat_map(latencies);
    let told =
        report.servers.iter().filter_map(|server| Some((server, server.footprint.as_ref()?)));
    let servers = told.flat_map(|(server, of)| footprint(&server.kind, of, report.seconds));
    let tester = footprint("this tester", &report.tester, report.seconds);
    [most]
        .into_iter()
        .chain(load)
        .chain(faults(report))
        .chain(latencies)
        .chain(servers)
        .chain(tester)
        .collect()
}

fn figure(name: String, value: f64, kind: Kind) -> Figure {
    Figure { name, value, kind }
}

fn faults(report: &Report) -> impl Iterator<Item = Figure> {
    let counted = [names::FAILED, names::DROPPED, names::LOST, names::UNANSWERED_PINGS].into_iter();
    let counted = counted.chain(promises::never());
    let counted = counted.map(|name| (names::spoken(name), report.count(name)));
    let broken = report.findings().into_iter().filter(|found| found.outcome == Outcome::Broken);
    let broken = ("promises broken".to_owned(), broken.count() as u64);
    let errors = ("errors".to_owned(), report.errors.values().sum());
    counted.chain([broken, errors]).map(|(name, count)| figure(name, count as f64, Kind::Fault))
}

/// A percentile is worth a comparison when ten samples lie beyond it.
fn latencies(timing: &Distribution) -> impl Iterator<Item = Figure> {
    let percentiles = [
        ("p50", timing.p50_ms, 20),
        ("p90", timing.p90_ms, 100),
        ("p99", timing.p99_ms, 1_000),
        ("p99.9", timing.p999_ms, 10_000),
        ("longest", timing.max_ms, u64::MAX),
    ];
    let name = names::spoken(&timing.name);
    percentiles.into_iter().map(move |(percentile, value, samples)| {
        let kind = if timing.count >= samples { Kind::Latency } else { Kind::FewSamples };
        figure(format!("{name}, {percentile}"), value, kind)
    })
}

fn footprint(whose: &str, footprint: &Footprint, seconds: f64) -> Vec<Figure> {
    let memory = footprint
        .bytes_per_connection
        .map(|bytes| figure(format!("memory a connection, {whose}"), bytes as f64, Kind::Memory));
    let cores = (seconds > 0.0)
        .then(|| figure(format!("cores, {whose}"), footprint.cpu_secs / seconds, Kind::Cores));
    memory.into_iter().chain(cores).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: Kind, before: f64, after: f64) -> Change {
        let figure = |value| figure(String::new(), value, kind);
        figure(before).change(&figure(after))
    }

    #[test]
    fn a_latency_changed_when_it_did_by_more_than_a_tenth_and_a_fifth_of_a_millisecond() {
        assert_eq!(change(Kind::Latency, 10.0, 10.9), Change::Noise);
        assert_eq!(change(Kind::Latency, 10.0, 11.1), Change::Worse);
        assert_eq!(change(Kind::Latency, 0.1, 0.29), Change::Noise);
        assert_eq!(change(Kind::Latency, 10.0, 8.0), Change::Better);
    }

    #[test]
    fn any_fault_more_is_worse_and_how_much_was_done_is_not_judged() {
        assert_eq!(change(Kind::Fault, 0.0, 1.0), Change::Worse);
        assert_eq!(change(Kind::Fault, 5.0, 1.0), Change::Better);
        assert_eq!(change(Kind::Load, 1000.0, 1.0), Change::Noise);
    }

    #[test]
    fn a_percentile_of_few_samples_is_not_judged() {
        let mut timing = crate::report::sample::report().timings.remove(0);
        timing.count = 999;
        let before: Vec<_> = latencies(&timing).collect();
        timing.p90_ms *= 2.0;
        timing.p99_ms *= 2.0;
        timing.max_ms *= 2.0;
        let after: Vec<_> = latencies(&timing).collect();
        let changes = before.iter().zip(&after).map(|(before, after)| before.change(after));
        let worse = [Change::Noise, Change::Worse, Change::Noise, Change::Noise, Change::Noise];
        assert!(changes.eq(worse));
    }

    #[test]
    fn memory_and_cores_have_their_own_bounds() {
        assert_eq!(change(Kind::Memory, 3000.0, 3140.0), Change::Noise);
        assert_eq!(change(Kind::Memory, 3000.0, 3160.0), Change::Worse);
        assert_eq!(change(Kind::Cores, 0.10, 0.14), Change::Noise);
        assert_eq!(change(Kind::Cores, 1.00, 1.11), Change::Worse);
    }
}
