//! A check from start to report: round by round, plays the history, waits until all must be quiet,
//! and has everything judged.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::limits::Limits;
use crate::sources::Sources;
use crate::tally::{Count, Kinds};
use crate::verify::actor::Actor;
use crate::verify::args::{VerifyArgs, name_of};
use crate::verify::breaker::Breaker;
use crate::verify::deployment::fill::{Filling, fill};
use crate::verify::deployment::{Deployment, PREFIX};
use crate::verify::history::scenarios::History;
use crate::verify::history::{Chapter, Extra};
use crate::verify::http::{self, QUERY_LEN_MAX};
use crate::verify::judge::{Findings, Look, Promise, Round, Violation, Watcher, judge};
use crate::verify::lag::Lag;
use crate::verify::narrator::Narrator;
use crate::verify::plan::Plan;
use crate::verify::record::{Facts, Told, Us, User, us};
use crate::verify::report::Report;
use crate::verify::story;
use crate::verify::truth::{HEAL, Rules};
use crate::verify::world::{Endpoint, Record, World, user_of};

/// Beyond the last deadline, so that what is judged is not at its very edge.
const QUIET_MARGIN: Us = 300_000;

/// While waiting for quiet, something may still happen; it is waited for so often.
const QUIET_TRIES: usize = 5;

/// So many tasks measure how late they are.
const LATENESS_TASKS: usize = 4;

/// How often is looked whether the keys are back.
const KEYS_LOOK: Duration = Duration::from_millis(100);

/// Runs the check. Its processes end when this returns.
pub(crate) async fn check(args: &VerifyArgs, plan: Plan) -> Result<Report> {
    let history = History::of(args);
    let epoch = Instant::now();
    let narrator = Arc::new(Narrator::new(epoch));
    let mut deployment = Deployment::start(args, plan.gateway_bin.clone()).await?;
    if args.keep_logs {
        narrator.say(&format!("logs are kept in {}", deployment.keep_logs().display()));
    }
    let deployment = Arc::new(deployment);
    let world = Arc::new(world(args, &plan.limits, &history, &deployment, epoch).await?);
    narrator.say(&summary(args, &plan, &history, &deployment));
    for (filling, count) in [(Filling::Users, args.other_users), (Filling::Keys, args.other_keys)] {
        let what = format!("filling Redis with {filling:?}").to_lowercase();
        fill(&deployment, filling, count, |done| narrator.count(&what, done, count)).await?;
    }
    let mut check = Check {
        actors: (0..history.users).map(|user| Actor::new(world.clone(), user)).collect(),
        breaker: Breaker {
            world: world.clone(),
            deployment: deployment.clone(),
            narrator: narrator.clone(),
        },
        report: Report::new(args),
        world: world.clone(),
        narrator: narrator.clone(),
    };
    // In tasks of their own: where the clients' tasks have to wait for their turn, these do as well.
    let mut lateness = JoinSet::new();
    for _ in 0..LATENESS_TASKS {
        let world = world.clone();
        lateness.spawn(async move { world.measure_lag().await });
    }
    tokio::select! {
        biased;
        stopped = tokio::signal::ctrl_c() => {
            stopped?;
            check.report.stopped = true;
        }
        done = check.play(history.chapters) => done?,
        () = world.measure_starvation(&deployment) => unreachable!("it is measured until the end"),
        () = narrator.show(&world) => unreachable!("it is shown until the end"),
    }
    check.report.seconds = epoch.elapsed().as_secs_f64();
    check.report.lag_ms = world.lag.lock().late_max() as f64 / 1000.0;
    check.report.starved_ms = world.lag.lock().starved_max() as f64 / 1000.0;
    check.report.refusals = world.refusals.snapshot();
    Ok(check.report)
}

async fn world(
    args: &VerifyArgs,
    limits: &Limits,
    history: &History,
    deployment: &Deployment,
    epoch: Instant,
) -> Result<World> {
    let mut endpoints = Vec::new();
    for gateway in deployment.gateways() {
        let addr = gateway.lock().await.addr();
        endpoints.push(Endpoint { url: format!("ws://{addr}/ws").parse()?, addr });
    }
    let addresses = history.users.div_ceil(crate::plan::CONNECTIONS_PER_ADDRESS);
    Ok(World {
        epoch,
        rules: Rules { heartbeat: us(args.heartbeat), ttl: us(args.ttl), grace: us(args.grace) },
        heartbeat: args.heartbeat,
        watching: history.watching,
        endpoints,
        sources: Sources::new(addresses, &limits.ports, fastrand::u64(..)),
        records: Mutex::default(),
        faults: Mutex::default(),
        lag: Mutex::new(Lag::default()),
        states: Count::default(),
        living: AtomicU64::new(0),
        refusals: Kinds::default(),
    })
}

fn summary(args: &VerifyArgs, plan: &Plan, history: &History, deployment: &Deployment) -> String {
    let store = deployment.backing.as_ref();
    let store = store.map_or_else(|| "its own memory".to_owned(), |store| store.lock().describe());
    format!(
        "{} gateways ({}) on {store}: heartbeat {:?}, TTL {:?}, grace {:?}",
        args.gateways,
        plan.gateway_bin.display(),
        args.heartbeat,
        args.ttl,
        args.grace,
    ) + &format!(
        "\n{:10}scenario {}, {} users, {} rounds, seed {}",
        "",
        name_of(&args.scenario),
        history.users,
        history.chapters.len(),
        args.seed,
    )
}

/// A check that runs.
struct Check {
    world: Arc<World>,
    narrator: Arc<Narrator>,
    breaker: Breaker,
    actors: Vec<Actor>,
    report: Report,
}

/// A round when it is quiet: what is judged, and the views as they are then.
struct Quiet {
    round: Round,
    records: Vec<Arc<Record>>,
}

impl Check {
    async fn play(&mut self, chapters: Vec<Chapter>) -> Result<()> {
        let count = chapters.len();
        for (number, chapter) in chapters.into_iter().enumerate() {
            let title = format!("round {}/{count}: {}", number + 1, chapter.name);
            self.narrator.say(&title);
            self.narrator.enter(&title);
            let extra = chapter.extra;
            self.act(chapter).await?;
            if extra == Extra::KeysBack {
                self.look_for_keys().await?;
            }
            self.narrator.enter("waiting until every view must be the truth");
            let quiet = self.wait_for_quiet().await;
            self.judge(&quiet).await?;
            for actor in &mut self.actors {
                actor.forget_frozen();
            }
            self.world.forget_ended();
            self.world.take_faults();
        }
        Ok(())
    }

    /// Users act while things break and heal.
    async fn act(&mut self, chapter: Chapter) -> Result<()> {
        let start = self.world.now();
        let mut acting = JoinSet::new();
        for (actor, steps) in self.actors.drain(..).zip(chapter.steps) {
            acting.spawn(actor.play(start, steps));
        }
        let broken = self.breaker.run(start, &chapter.faults);
        let (broken, actors) = tokio::join!(broken, acting.join_all());
        self.actors = actors;
        self.actors.sort_unstable_by_key(Actor::user);
        broken?;
        self.world.wait_until(start + chapter.length).await;
        Ok(())
    }

    /// Every user who is online has a key again in time.
    async fn look_for_keys(&mut self) -> Result<()> {
        let healed = self.world.faults.lock().iter().filter_map(|fault| fault.healed).max();
        let healed = healed.context("Redis was away in this round")?;
        let pattern = format!("{PREFIX}:*:user:user-*");
        let expected = self.online_users();
        loop {
            let pattern = pattern.clone();
            let count =
                self.breaker.deployment.with_backing(move |redis| redis.count_keys(&pattern));
            let (count, now) = (count.await??, self.world.now());
            if count >= expected {
                self.report.keys_back.latest(now - healed);
                let took = Duration::from_micros(now - healed);
                self.narrator.say(&format!("all {expected} keys are back after {took:.1?}"));
                return Ok(());
            }
            if now > healed + HEAL {
                let what = format!("{count} of {expected} users have a key 5 s after the return");
                let promise = Promise::KeysMissing;
                let broken = Violation { promise, user: None, watcher: None, at: now, what };
                self.report.add_violation(&broken, String::new);
                return Ok(());
            }
            sleep(KEYS_LOOK).await;
        }
    }

    fn online_users(&self) -> usize {
        let records = self.world.records.lock();
        let living = |record: &&Arc<Record>| record.facts.lock().is_living();
        let users: std::collections::HashSet<User> =
            records.iter().filter(living).map(|record| record.facts.lock().user).collect();
        users.len()
    }

    /// Waits until nothing that happened can still be on its way to anybody.
    async fn wait_for_quiet(&self) -> Quiet {
        for _ in 0..QUIET_TRIES {
            let last = self.gather(false).round.last_deadline(&self.world.rules);
            let quiet_at = last + QUIET_MARGIN + self.world.lag.lock().around(self.world.now());
            if quiet_at <= self.world.now() {
                break;
            }
            self.world.wait_until(quiet_at).await;
        }
        self.gather(true)
    }

    /// All that was written down so far. What watchers were told is taken out with `take`.
    fn gather(&self, take: bool) -> Quiet {
        let end = self.world.now();
        let records = self.world.records.lock().clone();
        let mut sessions: HashMap<User, Vec<Facts>> = HashMap::new();
        let mut watchers = Vec::new();
        for record in &records {
            let facts = record.facts.lock().clone();
            if take {
                let mut told = record.told.lock();
                let until = told.deaf.unwrap_or(Us::MAX);
                let (seen, backward) = told.take(end);
                watchers.push(Watcher {
                    user: facts.user,
                    place: facts.place,
                    seen,
                    backward,
                    stalls: told.stalls.clone(),
                    until,
                });
            }
            sessions.entry(facts.user).or_default().push(facts);
        }
        let faults = self.world.faults.lock().clone();
        Quiet { round: Round { end, sessions, faults, watchers }, records }
    }

    async fn judge(&mut self, quiet: &Quiet) -> Result<()> {
        let world = self.world.clone();
        let looks: HashMap<User, Look> = (0..self.actors.len() as User)
            .filter_map(|user| {
                let sessions = quiet.round.sessions.get(&user).map_or(&[][..], Vec::as_slice);
                Some((user, Look::of(sessions)?))
            })
            .collect();
        let mut findings = judge(&world.rules, &world.lag.lock(), &quiet.round);
        self.compare_views(quiet, &looks, &mut findings);
        self.compare_answers(&looks, &mut findings).await?;
        let before = self.report.violations();
        for violation in &findings.violations {
            self.report.add_violation(violation, || story::tell(violation, &quiet.round));
        }
        self.report.add(&findings);
        let broken = self.report.violations() - before;
        let verdict = if broken == 0 { "all promises kept" } else { "PROMISES BROKEN" };
        self.narrator.say(&format!(
            "judged  {} states, {} presences, {} absences, {} returns in time: {verdict}{}",
            findings.states,
            findings.presences,
            findings.absences,
            findings.returns,
            if broken == 0 { String::new() } else { format!(" ({broken} times)") },
        ));
        Ok(())
    }

    /// Every view of every connection that lives.
    fn compare_views(
        &mut self,
        quiet: &Quiet,
        looks: &HashMap<User, Look>,
        findings: &mut Findings,
    ) {
        for (number, record) in quiet.records.iter().enumerate() {
            let facts = record.facts.lock().clone();
            if !facts.is_living() || facts.welcome.is_none() {
                continue;
            }
            let told: &Told = &record.told.lock();
            for (user, state) in &told.view {
                let Some(look) = looks.get(user) else { continue };
                self.report.views += 1;
                let wrong = match state {
                    None => Some("its watch was never answered".to_owned()),
                    Some(state) => look.mismatch(state),
                };
                if let Some(what) = wrong {
                    findings.violations.push(Violation {
                        promise: Promise::LostChange,
                        user: Some(*user),
                        watcher: Some(number),
                        at: quiet.round.end,
                        what,
                    });
                }
            }
        }
    }

    /// What every gateway tells a backend.
    async fn compare_answers(
        &mut self,
        looks: &HashMap<User, Look>,
        findings: &mut Findings,
    ) -> Result<()> {
        let users: Vec<User> = looks.keys().copied().collect();
        for (place, endpoint) in self.world.endpoints.iter().enumerate() {
            for batch in users.chunks(QUERY_LEN_MAX) {
                let states = http::query(endpoint.addr, batch).await;
                let states = states.with_context(|| format!("asking gateway {}", place + 1))?;
                self.report.answers += states.len() as u64;
                for state in states {
                    let user = user_of(&state.user).context("a user that nobody asked for")?;
                    if let Some(what) = looks.get(&user).and_then(|look| look.mismatch(&state)) {
                        findings.violations.push(Violation {
                            promise: Promise::WrongAnswer,
                            user: Some(user),
                            watcher: None,
                            at: self.world.now(),
                            what: format!("gateway {}: {what}", place + 1),
                        });
                    }
                }
            }
        }
        Ok(())
    }
}
