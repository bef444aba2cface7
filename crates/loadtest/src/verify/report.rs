//! What is told of a check: a row for each promise, for programs as JSON. `table` is the same for
//! people.

mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

use serde::Serialize;
use table::{Paint, Table};

use crate::coordinator::INTERRUPTED;
use crate::reported::Reported;
use crate::verify::args::{Scenario, StoreArg, VerifyArgs, name_of};
use crate::verify::judge::{Extreme, Findings, Promise, Violation, Widened, secs};
use crate::verify::record::Us;
use crate::verify::truth::{Cause, Rules};

/// So often the history is told for each promise that was broken, of different users.
const STORIES_MAX: usize = 8;

/// What is broken within so long of what is told already has most likely the same cause.
const STORIES_APART: Us = 2_000_000;

/// The exit code of a check on a machine that was too busy for it.
const TOO_BUSY: u8 = 3;

/// What a check comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Kept,
    Broken,
    /// Nothing is known to be broken, but not all could be judged.
    TooBusy,
    /// Nothing was broken until somebody stopped it.
    Stopped,
}

/// All that a check found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Somebody stopped it: what is told is what was found so far.
    pub(crate) stopped: bool,
    pub(crate) seconds: f64,
    pub(crate) seed: u64,
    pub(crate) scenario: Scenario,
    pub(crate) store: StoreArg,
    /// The command that runs the same history again.
    pub(crate) replay: String,
    pub(crate) states: u64,
    pub(crate) presences: u64,
    pub(crate) absences: u64,
    pub(crate) returns: u64,
    /// Entries of views that were compared with the truth once all was quiet.
    pub(crate) views: u64,
    pub(crate) answers: u64,
    pub(crate) latest: BTreeMap<Cause, Extreme>,
    pub(crate) earliest: BTreeMap<Cause, Extreme>,
    pub(crate) after_deafness: Extreme,
    pub(crate) untold: Extreme,
    pub(crate) after_faults: Extreme,
    pub(crate) after_hangs: Extreme,
    pub(crate) keys_back: Extreme,
    pub(crate) online: Quantiles,
    /// How late this tool itself was, at worst.
    pub(crate) lag_ms: f64,
    /// The most that a process of the deployment waited for a CPU within a second.
    pub(crate) starved_ms: f64,
    /// Verdicts that hung on bounds that were widened, since the machine was busy.
    pub(crate) widened: Widened,
    pub(crate) broken: BTreeMap<Promise, u64>,
    pub(crate) stories: Vec<Story>,
    /// Sign-ins that failed and messages that were refused, by reason.
    pub(crate) refusals: BTreeMap<String, u64>,
    #[serde(skip)]
    pub(crate) rules: Rules,
    #[serde(skip)]
    online_us: Vec<u64>,
}

/// From a user's `hello` to a watcher's push, where no fault was near.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) count: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

/// One broken promise, and what led to it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Story {
    pub(crate) promise: Promise,
    pub(crate) user: Option<u32>,
    pub(crate) title: String,
    #[serde(skip)]
    pub(crate) at: Us,
    pub(crate) history: String,
}

impl Report {
    pub(crate) fn new(args: &VerifyArgs) -> Self {
        Self {
            stopped: false,
            seconds: 0.0,
            seed: args.seed,
            scenario: args.scenario,
            store: args.store,
            replay: replay(args),
            states: 0,
            presences: 0,
            absences: 0,
            returns: 0,
            views: 0,
            answers: 0,
            latest: BTreeMap::new(),
            earliest: BTreeMap::new(),
            after_deafness: Extreme::default(),
            untold: Extreme::default(),
            after_faults: Extreme::default(),
            after_hangs: Extreme::default(),
            keys_back: Extreme::default(),
            online: Quantiles::default(),
            lag_ms: 0.0,
            starved_ms: 0.0,
            widened: Widened::default(),
            broken: BTreeMap::new(),
            stories: Vec::new(),
            refusals: BTreeMap::new(),
            rules: Rules::of(args),
            online_us: Vec::new(),
        }
    }

    /// Takes in what a round measured; its violations come by [`Report::add_violation`].
    pub(crate) fn add(&mut self, findings: &Findings) {
        self.states += findings.states;
        self.presences += findings.presences;
        self.absences += findings.absences;
        self.returns += findings.returns;
        for (cause, found) in &findings.latest {
            self.latest.entry(*cause).or_default().merge(*found, u64::max);
        }
        for (cause, found) in &findings.earliest {
            self.earliest.entry(*cause).or_default().merge(*found, u64::min);
        }
        self.after_deafness.merge(findings.after_deafness, u64::max);
        self.untold.merge(findings.untold, u64::max);
        self.after_faults.merge(findings.after_faults, u64::max);
        self.after_hangs.merge(findings.after_hangs, u64::max);
        self.widened.merge(findings.widened);
        self.online_us.extend(&findings.online_us);
        self.online = Quantiles::of(&mut self.online_us);
    }

    /// Counts a broken promise, and keeps the history of the first few.
    pub(crate) fn add_violation(&mut self, violation: &Violation, tell: impl FnOnce() -> String) {
        *self.broken.entry(violation.promise).or_default() += 1;
        let mut of_promise: Vec<&Story> = self.stories.iter().collect();
        of_promise.retain(|story| story.promise == violation.promise);
        let told = |story: &&Story| {
            story.user == violation.user || story.at.abs_diff(violation.at) < STORIES_APART
        };
        if of_promise.len() < STORIES_MAX && !of_promise.iter().any(told) {
            let user = violation.user.map_or_else(String::new, |user| format!(" of user {user}"));
            self.stories.push(Story {
                promise: violation.promise,
                user: violation.user,
                title: format!("{}{user} at {}", violation.promise.title(), secs(violation.at)),
                at: violation.at,
                history: tell(),
            });
        }
    }

    fn verdict(&self) -> Verdict {
        match (self.is_clean(), self.stopped, self.widened.too_far) {
            (false, ..) => Verdict::Broken,
            (true, true, _) => Verdict::Stopped,
            (true, false, 0) => Verdict::Kept,
            (true, false, _) => Verdict::TooBusy,
        }
    }

    /// How often promises were broken.
    pub(crate) fn violations(&self) -> u64 {
        self.broken.values().sum()
    }
}

impl Reported for Report {
    fn write(&self, text: &mut String) -> fmt::Result {
        let paint = if stdout().is_terminal() { Paint::Coloured } else { Paint::Plain };
        self.write_lines(&mut Table { text, paint })
    }

    fn is_clean(&self) -> bool {
        self.violations() == 0
    }

    fn exit_code(&self) -> ExitCode {
        match self.verdict() {
            Verdict::Kept => ExitCode::SUCCESS,
            Verdict::Broken => ExitCode::FAILURE,
            // Nobody shall take these for a check that was done.
            Verdict::TooBusy => TOO_BUSY.into(),
            Verdict::Stopped => INTERRUPTED.into(),
        }
    }
}

impl Promise {
    /// What is wrong, in a few words.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::LateOffline => "late offline",
            Self::EarlyOffline => "early offline",
            Self::LateOnline => "late online",
            Self::Flap => "flap shown",
            Self::FalseOffline => "false offline",
            Self::Ghost => "ghost",
            Self::Backward => "backward version",
            Self::LostChange => "lost change",
            Self::WrongAnswer => "wrong answer",
            Self::SocketLost => "socket lost",
            Self::KeysMissing => "keys missing",
        }
    }
}

impl Quantiles {
    fn of(latencies_us: &mut [u64]) -> Self {
        latencies_us.sort_unstable();
        let Some(last) = latencies_us.len().checked_sub(1) else { return Self::default() };
        let at = |share: f64| latencies_us[(last as f64 * share) as usize] as f64 / 1000.0;
        Self { count: last as u64 + 1, p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1.0) }
    }
}

/// The whole command line: what the defaults are may change.
fn replay(args: &VerifyArgs) -> String {
    let time = |duration| humantime::format_duration(duration).to_string().replace(' ', "");
    let mut words = vec![
        "presence-loadtest verify".to_owned(),
        format!("--seed {}", args.seed),
        format!("--scenario {}", name_of(&args.scenario)),
        format!("--store {}", name_of(&args.store)),
        format!("--gateways {}", args.gateways),
        format!("--users {}", args.users),
        format!("--watch {}", args.watch),
        format!("--duration {}", time(args.duration)),
        format!("--acts {}", args.acts),
        format!("--heartbeat {}", time(args.heartbeat)),
        format!("--ttl {}", time(args.ttl)),
        format!("--grace {}", time(args.grace)),
    ];
    words.extend(args.faults.as_ref().map(|faults| format!("--faults {}", faults.as_arg())));
    words.extend(args.pause.map(|pause| format!("--pause {}", time(pause))));
    let others = [("other-users", args.other_users), ("other-keys", args.other_keys)];
    words.extend(others.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("--{name} {n}")));
    words.join(" ")
}
