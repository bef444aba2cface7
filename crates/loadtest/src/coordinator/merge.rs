//! What the workers told, put together: the whole run, and each of its seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::measures::{Count, Measures, Timing};
use crate::process::Usage;
use crate::report::{
    Brief, CONNECTING, Distribution, Ending, Footprint, OPEN, PLANNED, PhaseSpan, REPORT_VERSION,
    Report, Second,
};
use crate::wire::SecondOfWorker;

/// A second that a worker has not told of by then is told without it.
pub(super) const SECONDS_BEHIND_MAX: u32 = 10;

/// Everything that was heard so far.
pub(super) struct Merge {
    pub(super) whole: Measures,
    workers: Vec<Member>,
    /// Seconds that not all workers have told of.
    pending: BTreeMap<u32, Pending>,
    timeline: Vec<Second>,
    /// At the end of the last second of the timeline, those of workers who are lost included.
    open: u64,
    /// The most that were open at the end of a second, and the resident bytes then.
    most_open: (u64, u64),
    /// The most resident bytes at the end of a second.
    rss_peak: u64,
    times_ms: (u64, u64),
}

/// What a run is, beside what it measured.
pub(super) struct About {
    pub(super) name: String,
    pub(super) scenario: String,
    pub(super) started_at_ms: u64,
    pub(super) seconds: f64,
    pub(super) ending: Ending,
    pub(super) urls: Vec<String>,
    pub(super) workers: u32,
    pub(super) phases: Vec<PhaseSpan>,
    pub(super) planned: u64,
}

struct Member {
    before: Usage,
    last: Usage,
    /// Connections that are there, on their way, or to come back; none known before it told.
    alive: Option<u64>,
    open: u64,
    connecting: u64,
    /// The last second that it told of.
    last_s: u32,
    is_lost: bool,
}

#[derive(Default)]
struct Pending {
    measures: Measures,
    told: usize,
    rss: u64,
}

impl Merge {
    pub(super) fn new(usages_before: Vec<Usage>) -> Self {
        let member = |before| Member {
            before,
            last: before,
            alive: None,
            open: 0,
            connecting: 0,
            last_s: 0,
            is_lost: false,
        };
        Self {
            whole: Measures::default(),
            workers: usages_before.into_iter().map(member).collect(),
            pending: BTreeMap::new(),
            timeline: Vec::new(),
            open: 0,
            most_open: (0, 0),
            rss_peak: 0,
            times_ms: (0, 0),
        }
    }

    /// Takes in what a worker told of a second.
    pub(super) fn take(&mut self, worker: usize, second: &SecondOfWorker) {
        self.whole.merge(&second.growth);
        let member = &mut self.workers[worker];
        member.last = second.usage;
        member.alive = Some(second.alive);
        member.last_s = second.at_s;
        (member.open, member.connecting) = (second.open, second.connecting);
        if second.ttl_ms > 0 {
            self.times_ms = (second.ttl_ms, second.grace_ms);
        }
        // What comes after its second was told is added to the next.
        let next_s = self.timeline.last().map_or(0, |last| last.at_s + 1);
        let pending = self.pending.entry(second.at_s.max(next_s)).or_default();
        pending.measures.merge(&second.growth);
        if second.at_s >= next_s {
            pending.rss += second.usage.rss;
            pending.told += 1;
        }
        self.close_seconds(second.at_s.saturating_sub(SECONDS_BEHIND_MAX));
    }

    /// A worker tells nothing more, and its connections ended with it.
    pub(super) fn lose(&mut self, worker: usize) {
        self.workers[worker].is_lost = true;
        self.close_seconds(0);
    }

    /// What workers who are lost had.
    fn lost(&self, what: fn(&Member) -> u64) -> u64 {
        self.workers.iter().filter(|worker| worker.is_lost).map(what).sum()
    }

    /// Whether nobody is connected or will be.
    pub(super) fn is_nobody_left(&self) -> bool {
        self.workers.iter().all(|worker| worker.alive == Some(0))
    }

    /// Whether anybody left, so that watchers may have to be told yet.
    pub(super) fn is_disturbed(&self) -> bool {
        let disturbances = [
            Count::Failed,
            Count::Dropped,
            Count::SentAway,
            Count::ClosedOnPurpose,
            Count::SignedOut,
            Count::FellSilent,
            Count::Froze,
        ];
        disturbances.into_iter().any(|count| self.whole.get(count) > 0)
    }

    /// The gateway's own, as far as a worker has heard of them.
    pub(super) fn ttl_and_grace(&self) -> Duration {
        Duration::from_millis(self.times_ms.0 + self.times_ms.1)
    }

    /// The last second that is complete.
    pub(super) fn last_second(&self) -> Option<&Second> {
        self.timeline.last()
    }

    /// Puts the seconds in the timeline that all have told of, and those before `late`.
    fn close_seconds(&mut self, late: u32) {
        let telling = self.workers.iter().filter(|worker| !worker.is_lost).count();
        while let Some(first) = self.pending.first_entry() {
            if first.get().told < telling && *first.key() >= late {
                break;
            }
            let (at_s, pending) = first.remove_entry();
            self.close(at_s, &pending);
        }
    }

    fn close(&mut self, at_s: u32, pending: &Pending) {
        let measures = &pending.measures;
        self.open = (self.open + measures.get(Count::Connected)).saturating_sub(measures.ended());
        let open = self.open.saturating_sub(self.lost(|worker| worker.open));
        // What only some have told of is less than there was.
        if pending.told == self.workers.len() {
            self.rss_peak = self.rss_peak.max(pending.rss);
            if open >= self.most_open.0 {
                self.most_open = (open, pending.rss);
            }
        }
        let grew = counts(measures).filter(|(_, count)| *count > 0);
        let timings = Timing::ALL.iter().filter(|timing| !measures.timing(**timing).is_empty());
        let brief =
            |timing: &Timing| (timing.name().to_owned(), Brief::of(measures.timing(*timing)));
        self.timeline.push(Second {
            at_s,
            open,
            grew: grew.collect(),
            timings: timings.map(brief).collect(),
        });
    }

    pub(super) fn into_report(mut self, about: About) -> Report {
        self.close_seconds(u32::MAX);
        let mut counts: BTreeMap<String, u64> = counts(&self.whole).collect();
        counts.insert(PLANNED.to_owned(), about.planned);
        let without_lost = |all: u64, lost: fn(&Member) -> u64| all.saturating_sub(self.lost(lost));
        let open = without_lost(self.whole.open(), |worker| worker.open);
        let connecting = without_lost(self.whole.connecting(), |worker| worker.connecting);
        counts.insert(OPEN.to_owned(), open);
        counts.insert(CONNECTING.to_owned(), connecting);
        if self.workers.iter().any(|worker| worker.is_lost) {
            // What is true of the users of a worker who is lost, nobody knows; what was found before stays.
            let found = self.whole.get(Count::OfflineUntold) > 0;
            let views = [Count::Views, Count::ViewsOnline].into_iter();
            for views in views.chain((!found).then_some(Count::LostChanges)) {
                counts.remove(views.name());
            }
            // Since it told nothing any more, its users may well have been offline.
            for count in [Count::FalseOffline, Count::FlapsShown] {
                counts.insert(count.name().to_owned(), self.known(count));
            }
        }
        let distribution = |timing: &Timing| Distribution::of(*timing, self.whole.timing(*timing));
        Report {
            version: REPORT_VERSION,
            name: about.name,
            scenario: about.scenario,
            started_at_ms: about.started_at_ms,
            seconds: about.seconds,
            ending: about.ending,
            urls: about.urls,
            workers: about.workers,
            phases: about.phases,
            counts,
            timings: Timing::ALL.iter().map(distribution).collect(),
            tester: self.footprint(),
            errors: self.whole.errors,
            closes: self.whole.closes,
            timeline: self.timeline,
            servers: Vec::new(),
        }
    }

    /// How often something was counted while every worker told of itself.
    fn known(&self, count: Count) -> u64 {
        let lost = self.workers.iter().filter(|worker| worker.is_lost);
        let known_s = lost.map(|worker| worker.last_s).min().unwrap_or(u32::MAX);
        let known = self.timeline.iter().filter(|second| second.at_s <= known_s);
        known.filter_map(|second| second.grew.get(count.name())).sum()
    }

    fn footprint(&self) -> Footprint {
        let sum = |of: fn(&Member) -> u64| self.workers.iter().map(of).sum::<u64>();
        let rss_before = sum(|member| member.before.rss);
        let (open, rss_then) = self.most_open;
        let cpu = |member: &Member| member.last.cpu_secs - member.before.cpu_secs;
        let grown = rss_then.cast_signed() - rss_before.cast_signed();
        Footprint {
            rss_before,
            rss_peak: self.rss_peak.max(rss_before),
            rss_after: sum(|member| if member.is_lost { 0 } else { member.last.rss }),
            bytes_per_connection: grown.checked_div(open.cast_signed()),
            cpu_secs: self.workers.iter().map(cpu).sum(),
        }
    }
}

fn counts(measures: &Measures) -> impl Iterator<Item = (String, u64)> {
    Count::ALL.iter().map(|count| (count.name().to_owned(), measures.get(*count)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported::Reported;

    fn usage(rss: u64) -> Usage {
        Usage { rss, cpu_secs: 1.0 }
    }

    fn second(at_s: u32, connected: u64, rss: u64) -> SecondOfWorker {
        let mut measures = Measures::default();
        measures.add(Count::Started, connected);
        measures.add(Count::Connected, connected);
        measures.add(Count::CameUp, connected);
        measures.time(Timing::Connect, 1_000 * connected);
        SecondOfWorker {
            at_s,
            growth: measures.take(),
            usage: usage(rss),
            alive: 10,
            open: connected,
            connecting: 0,
            ttl_ms: 3_000,
            grace_ms: 500,
        }
    }

    fn about(ending: Ending) -> About {
        About {
            name: "test".to_owned(),
            scenario: String::new(),
            started_at_ms: 0,
            seconds: 2.0,
            ending,
            urls: Vec::new(),
            workers: 2,
            phases: Vec::new(),
            planned: 10,
        }
    }

    #[test]
    fn seconds_of_all_workers_are_told_as_one_and_add_up() {
        let mut merge = Merge::new(vec![usage(1_000), usage(1_000)]);
        merge.take(0, &second(1, 2, 2_000));
        assert!(merge.last_second().is_none());
        merge.take(1, &second(1, 3, 2_000));
        assert_eq!(merge.last_second().unwrap().open, 5);
        merge.take(1, &second(2, 4, 6_000));
        merge.take(0, &second(2, 1, 5_000));
        assert_eq!(merge.ttl_and_grace(), Duration::from_millis(3_500));
        let report = merge.into_report(about(Ending::Complete));
        assert_eq!(report.timeline.iter().map(|second| second.open).collect::<Vec<_>>(), [5, 10]);
        assert_eq!(report.timeline[1].grew["connected"], 5);
        assert_eq!(report.timeline[0].timings["connect"].count, 2);
        assert_eq!((report.count("connected"), report.count(OPEN)), (10, 10));
        assert_eq!(report.tester.rss_peak, 11_000);
        assert_eq!(report.tester.bytes_per_connection, Some(900));
        assert_eq!(report.timings[0].count, 4);
        assert!(report.timings[0].curve.last().unwrap().0 > 99.9);
        assert!(report.is_clean());
    }

    #[test]
    fn a_second_is_told_without_a_worker_that_is_gone() {
        let mut merge = Merge::new(vec![usage(0), usage(0)]);
        merge.take(0, &second(1, 2, 0));
        merge.lose(1);
        assert_eq!(merge.last_second().unwrap().open, 2);
        assert!(!merge.into_report(about(Ending::WorkerLost)).is_clean());
    }

    #[test]
    fn what_a_lost_worker_had_is_neither_open_nor_known() {
        let mut merge = Merge::new(vec![usage(1_000), usage(1_000)]);
        merge.take(0, &second(1, 2, 5_000));
        merge.take(1, &second(1, 3, 5_000));
        merge.lose(1);
        merge.take(0, &second(2, 0, 9_000));
        assert_eq!(merge.last_second().unwrap().open, 2);
        let report = merge.into_report(about(Ending::WorkerLost));
        assert_eq!((report.count("connected"), report.count(OPEN)), (5, 2));
        assert!(!report.counts.contains_key("views"));
        let tester = report.tester;
        assert_eq!((tester.rss_peak, tester.rss_after), (10_000, 9_000));
        assert_eq!(tester.bytes_per_connection, Some(1_600));
    }

    #[test]
    fn offlines_of_a_worker_that_hangs_are_no_fault_of_the_gateway() {
        let mut merge = Merge::new(vec![usage(0), usage(0)]);
        let shown_offline = |at_s, times| {
            let mut measures = Measures::default();
            measures.add(Count::FalseOffline, times);
            SecondOfWorker { growth: measures.take(), ..second(at_s, 0, 0) }
        };
        merge.take(1, &second(1, 2, 0));
        merge.take(0, &shown_offline(1, 3));
        for at_s in 2..=12 {
            merge.take(0, &shown_offline(at_s, 1));
        }
        merge.lose(1);
        assert_eq!(merge.into_report(about(Ending::WorkerLost)).count("false_offline"), 3);
    }

    #[test]
    fn the_peak_is_the_most_memory_whenever_that_was() {
        let mut merge = Merge::new(vec![usage(1_000)]);
        merge.take(0, &second(1, 4, 5_000));
        let mut later = second(2, 0, 9_000);
        later.growth = {
            let mut measures = Measures::default();
            measures.count(Count::Dropped);
            measures.take()
        };
        merge.take(0, &later);
        let tester = merge.into_report(about(Ending::Complete)).tester;
        assert_eq!((tester.rss_peak, tester.bytes_per_connection), (9_000, Some(1_000)));
    }
}
