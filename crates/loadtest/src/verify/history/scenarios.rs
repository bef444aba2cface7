//! The scenarios, as rounds. Pure.

use std::time::Duration;

use fastrand::Rng;

use crate::contacts::random::RandomContacts;
use crate::verify::args::{Faults, Scenario, StoreArg, VerifyArgs};
use crate::verify::history::faults::Breakage;
use crate::verify::history::hand::{Habits, Hand};
use crate::verify::history::{Act, Chapter, Extra, PlannedFault, Step, Watching};
use crate::verify::record::{FaultKind, Us, User, us};
use crate::verify::truth::HEAL;

const SECOND: Us = 1_000_000;

/// So many users sign in a second, for a debug build on a small machine as well.
const SIGN_INS_PER_SECOND: u64 = 250;

/// Acts and faults go on for about so long before all is compared.
const ROUND: Us = 20 * SECOND;

/// One of so many users acts in the scripted scenarios: reconnects, or leaves.
const SHARE: User = 5;

/// On average, so many watch each user of a killed gateway.
const WATCHED_TIMES: u32 = 5;

/// How long Redis is gone in the scenario redis-restart.
const OUTAGE: Us = 2 * SECOND;

/// How long Redis is stopped in the scenario redis-pause.
const PAUSE: Us = 60 * SECOND;

/// Gateways are given so long to send their clients elsewhere.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);

/// A history, round by round.
pub(crate) struct History {
    pub(crate) watching: Watching,
    /// All users, those who only watch included.
    pub(crate) users: u32,
    pub(crate) chapters: Vec<Chapter>,
}

impl History {
    /// What these arguments ask for.
    pub(crate) fn of(args: &VerifyArgs) -> Self {
        match args.scenario {
            Scenario::GatewayKill => gateway_kill(args),
            Scenario::RedisRestart => redis_gone(args, FaultKind::RedisKill),
            Scenario::RedisPause => redis_gone(args, FaultKind::RedisPause),
            Scenario::Random => random(args, &random_faults),
            Scenario::SubscriberKills => random(args, &|_, _, length| subscriber_kills(length)),
            Scenario::ClusterFailover => random(args, &|_, _, length| failover(length)),
        }
    }
}

/// What can break in a deployment like this one.
pub(crate) fn kinds(args: &VerifyArgs) -> Vec<FaultKind> {
    let all = match args.store {
        StoreArg::Embedded => [FaultKind::GatewayPause].as_slice(),
        StoreArg::Redis => &[
            FaultKind::GatewayKill,
            FaultKind::GatewayPause,
            FaultKind::GatewayRestart,
            FaultKind::RedisKill,
            FaultKind::RedisPause,
            FaultKind::SubscriberKill,
            FaultKind::ConnectionKill,
        ],
        StoreArg::Cluster => &[
            FaultKind::GatewayKill,
            FaultKind::GatewayPause,
            FaultKind::GatewayRestart,
            FaultKind::SubscriberKill,
            FaultKind::ConnectionKill,
            FaultKind::ClusterFailover,
            FaultKind::ClusterHang,
        ],
    };
    match &args.faults {
        None | Some(Faults::All) => all.to_vec(),
        Some(Faults::These(kinds)) => kinds.clone(),
    }
}

fn habits(args: &VerifyArgs) -> Habits {
    Habits {
        users: args.users,
        places: args.gateways as usize,
        heartbeat: us(args.heartbeat),
        ttl: us(args.ttl),
        grace: us(args.grace),
        pause: (f64::from(args.users) / args.acts * SECOND as f64) as Us,
        watch_step: args.watch.div_ceil(4) as usize,
    }
}

fn sign_in_time(users: u32) -> Us {
    (u64::from(users) * SECOND / SIGN_INS_PER_SECOND).max(SECOND)
}

fn rng_of(args: &VerifyArgs, user: User) -> Rng {
    RandomContacts::new(args.users, 0, args.seed).rng(user)
}

type PlanFaults<'a> = &'a dyn Fn(&VerifyArgs, &mut Rng, Us) -> Vec<PlannedFault>;

/// Everybody signs in; then rounds of random acts.
fn random(args: &VerifyArgs, plan: PlanFaults<'_>) -> History {
    let habits = habits(args);
    let watching = Watching::Random(RandomContacts::new(args.users, args.watch, args.seed));
    let mut hands: Vec<Hand> =
        (0..args.users).map(|user| Hand::new(user, rng_of(args, user))).collect();
    let length = sign_in_time(args.users);
    let steps = hands.iter_mut().map(|hand| hand.sign_in(&habits, length)).collect();
    let mut chapters = vec![quiet_chapter("everybody signs in", length, steps)];
    let mut rng = rng_of(args, args.users);
    let rounds = us(args.duration).div_ceil(ROUND).max(1);
    let length = us(args.duration) / rounds;
    for _ in 0..rounds {
        let faults = plan(args, &mut rng, length);
        let steps = hands.iter_mut().map(|hand| hand.play(&habits, length, &faults)).collect();
        let name = if faults.is_empty() { "churn" } else { "churn and faults" };
        chapters.push(Chapter { name, length, steps, faults, extra: Extra::Nothing });
    }
    History { watching, users: args.users, chapters }
}

fn random_faults(args: &VerifyArgs, rng: &mut Rng, length: Us) -> Vec<PlannedFault> {
    let breakage = Breakage {
        kinds: &kinds(args),
        places: args.gateways as usize,
        ttl: us(args.ttl),
        drain: us(DRAIN),
    };
    breakage.plan(rng, length)
}

fn subscriber_kills(length: Us) -> Vec<PlannedFault> {
    let times = (1..length / SECOND).map(|second| second * SECOND);
    times
        .map(|at| PlannedFault { at, kind: FaultKind::SubscriberKill, place: None, lasts: 0 })
        .collect()
}

fn failover(length: Us) -> Vec<PlannedFault> {
    let lasts = (8 * SECOND).min(length / 2);
    vec![PlannedFault { at: length / 4, kind: FaultKind::ClusterFailover, place: None, lasts }]
}

fn quiet_chapter(name: &'static str, length: Us, steps: Vec<Vec<Step>>) -> Chapter {
    Chapter { name, length, steps, faults: Vec::new(), extra: Extra::Nothing }
}

fn connect(place: usize) -> Act {
    Act::Connect { slot: 0, place, device: None }
}

/// The first gateway holds all that are watched; those who watch are on the others.
fn gateway_kill(args: &VerifyArgs) -> History {
    let watched = args.users;
    let each = args.watch.clamp(1, watched);
    let users = watched + (watched * WATCHED_TIMES).div_ceil(each);
    let others = args.gateways as usize - 1;
    let length = sign_in_time(users);
    let mut sign_in = Vec::new();
    let mut trouble = Vec::new();
    let kill_at = SECOND;
    // Back before the store could know that they were gone.
    let back_max = us(args.ttl).saturating_sub(us(args.heartbeat) + SECOND / 2).max(SECOND / 10);
    for user in 0..users {
        let mut rng = rng_of(args, user);
        let place = if user < watched { 0 } else { 1 + user as usize % others };
        sign_in.push(vec![(rng.u64(..length), connect(place))]);
        let back = kill_at + SECOND / 20 + rng.u64(..back_max);
        let comes_back = user < watched && user.is_multiple_of(SHARE);
        let elsewhere = 1 + rng.usize(..others);
        trouble.push(comes_back.then_some((back, connect(elsewhere))).into_iter().collect());
    }
    let kill = PlannedFault {
        at: kill_at,
        kind: FaultKind::GatewayKill,
        place: Some(0),
        lasts: us(args.ttl) + us(args.grace) + 3 * SECOND,
    };
    let chapters = vec![
        quiet_chapter("everybody signs in", length, sign_in),
        Chapter {
            name: "gateway 1 is killed, a fifth of its users come back elsewhere",
            length: kill.end(),
            steps: trouble,
            faults: vec![kill],
            extra: Extra::Nothing,
        },
    ];
    History { watching: Watching::Blocks { watched, each }, users, chapters }
}

/// Redis goes away with everybody online, and comes back empty or as it was.
fn redis_gone(args: &VerifyArgs, kind: FaultKind) -> History {
    let users = args.users;
    let length = sign_in_time(users);
    let (usual, name) = match kind {
        FaultKind::RedisKill => (OUTAGE, "Redis is killed, and comes back empty"),
        _ => (PAUSE, "Redis is stopped; a fifth of the users leave meanwhile"),
    };
    let lasts = args.pause.map_or(usual, us);
    // So long after the fault, nothing excuses lateness any more.
    let calm = HEAL + us(args.grace);
    let mut chapters: Vec<Vec<Vec<Step>>> = vec![Vec::new(); 3];
    for user in 0..users {
        let mut rng = rng_of(args, user);
        let place = user as usize % args.gateways as usize;
        chapters[0].push(vec![(rng.u64(..length), connect(place))]);
        let leave = if rng.bool() { Act::Drop(0) } else { Act::Bye(0) };
        let leaves_now = kind == FaultKind::RedisPause && user.is_multiple_of(SHARE);
        let leaves_later = user % SHARE == 1;
        let during = SECOND + rng.u64(..lasts);
        chapters[1].push(leaves_now.then(|| (during, leave.clone())).into_iter().collect());
        let later = calm + rng.u64(..2 * SECOND);
        chapters[2].push(leaves_later.then_some((later, leave)).into_iter().collect());
    }
    let [sign_in, trouble, after] = chapters.try_into().expect("there are three");
    let fault = PlannedFault { at: SECOND, kind, place: None, lasts };
    let chapters = vec![
        quiet_chapter("everybody signs in", length, sign_in),
        Chapter {
            name,
            length: fault.end(),
            steps: trouble,
            faults: vec![fault],
            extra: Extra::KeysBack,
        },
        quiet_chapter("a fifth of the users leave", calm + 2 * SECOND, after),
    ];
    let watching = Watching::Random(RandomContacts::new(users, args.watch, args.seed));
    History { watching, users, chapters }
}
