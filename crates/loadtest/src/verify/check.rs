//! A check from start to report: round by round, plays the history, waits until all must be quiet,
//! and has everything judged.

mod answers;
mod quiet;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::Instant;

use crate::report::written::counted;
use crate::stop::stop_requested;
use crate::verify::actor::Actor;
use crate::verify::args::{VerifyArgs, name_of};
use crate::verify::breaker::Breaker;
use crate::verify::check::answers::{await_keys, compare_answers};
use crate::verify::check::quiet::Quiet;
use crate::verify::deployment::Deployment;
use crate::verify::deployment::fill::{Filling, fill};
use crate::verify::history::scenarios::History;
use crate::verify::history::{Chapter, Extra};
use crate::verify::judge::judge;
use crate::verify::narrator::Narrator;
use crate::verify::plan::Plan;
use crate::verify::report::Report;
use crate::verify::story;
use crate::verify::world::World;

/// So many tasks measure how late they are.
const LATENESS_TASKS: usize = 4;

/// Runs the check. Its processes end when this returns.
pub(crate) async fn check(args: &VerifyArgs, plan: Plan) -> Result<Report> {
    let history = History::of(args);
    let epoch = Instant::now();
    let narrator = Arc::new(Narrator::new(epoch));
    let mut deployment = Deployment::start(args, plan.gateway.clone()).await?;
    if args.keep_logs {
        narrator.say(&format!("logs are kept in {}", deployment.keep_logs().display()));
    }
    let deployment = Arc::new(deployment);
    let world = Arc::new(World::new(args, &plan.limits, &history, &deployment, epoch).await?);
    narrator.say(&summary(args, &plan, &history, &deployment));
    let urls = deployment.urls().await.join(", ");
    narrator.say(&format!("clients may connect to {urls}, and take part"));
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
        stopped = stop_requested() => {
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

fn summary(args: &VerifyArgs, plan: &Plan, history: &History, deployment: &Deployment) -> String {
    let store = deployment.backing.as_ref();
    let store = store.map_or_else(|| "its own memory".to_owned(), |store| store.lock().describe());
    format!(
        "{} ({}) on {store}: heartbeat {:?}, TTL {:?}, grace {:?}",
        counted(args.gateways.into(), "gateway"),
        plan.gateway.display(),
        args.heartbeat,
        args.ttl,
        args.grace,
    ) + &format!(
        "\n{:10}scenario {}, {}, {}, seed {}",
        "",
        name_of(&args.scenario),
        counted(history.users.into(), "user"),
        counted(history.chapters.len() as u64, "round"),
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
            let quiet = Quiet::wait(&self.world).await;
            self.judge(quiet).await?;
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

    async fn judge(&mut self, quiet: Quiet) -> Result<()> {
        let rules = self.world.rules;
        let lag = self.world.lag.lock().clone();
        let looks = quiet.looks(self.actors.len() as u32);
        let views = quiet.compare_views(&looks);
        let answers = compare_answers(&self.world, &looks).await;
        // Not in a task of the clients' threads, which must go on with their heartbeats.
        let judged = spawn_blocking(move || (judge(&rules, &lag, &quiet.round), quiet.round));
        let (mut findings, round) = judged.await.context("judging")?;
        self.report.views += views.count;
        self.report.answers += answers.count;
        findings.violations.extend(views.violations);
        findings.violations.extend(answers.violations);
        for violation in &findings.violations {
            self.report.add_violation(violation, || story::tell(violation, &round));
        }
        self.report.add(&findings);
        let verdict = match findings.violations.len() {
            0 => "all promises kept".to_owned(),
            times => format!("PROMISES BROKEN, {}", counted(times as u64, "time")),
        };
        self.narrator.say(&format!(
            "judged  {}, {}, {}, {} in time: {verdict}",
            counted(findings.states, "state"),
            counted(findings.presences, "presence"),
            counted(findings.absences, "absence"),
            counted(findings.returns, "return"),
        ));
        Ok(())
    }

    async fn look_for_keys(&mut self) -> Result<()> {
        match await_keys(&self.world, &self.breaker.deployment).await? {
            Ok(took) => {
                self.report.keys_back.latest(took);
                let took = Duration::from_micros(took);
                self.narrator.say(&format!("all keys are back after {took:.1?}"));
            }
            Err(violation) => self.report.add_violation(&violation, String::new),
        }
        Ok(())
    }
}
