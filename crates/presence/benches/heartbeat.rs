//! What a heartbeat costs: vouching by buckets, against one pipelined `SET key EX ttl` for each heartbeat.
//!
//! Both sides run one after the other against a Redis of their own, with the same users and the same heartbeats:
//!
//!     cargo bench -p presence --bench heartbeat -- [USERS] [GATEWAYS] [SECONDS]
//!
//! Sockets are left out: the CPU time of this process is what a gateway spends on keeping its users alive in Redis.

use std::time::Duration;
use std::{env, fs};

use fred::clients::{Client, Pool};
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::{Builder, Expiration};
use presence::store::redis::{self, RedisOptions, TlsFiles};
use presence::{Config, Joining, Metrics, Presence, Session};
use presence_protocol::{Format, UserId};
use presence_testkit::RedisServer;
use tokio::time::{interval, sleep};

/// Heartbeats arrive spread over the interval, and are gathered for so long.
const TICK: Duration = Duration::from_millis(10);

/// Linux counts CPU time in hundredths of a second.
const CPU_TICK: f64 = 0.01;

struct Plan {
    users: usize,
    gateways: usize,
    time: Duration,
    config: Config,
}

/// What was used meanwhile.
#[derive(Default)]
struct Cost {
    redis_cpu_us: f64,
    gateway_cpu_us: f64,
    /// Commands that were sent.
    sent: f64,
    /// Commands that were run, those of scripts included.
    run: f64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let numbers: Vec<usize> = env::args().filter_map(|argument| argument.parse().ok()).collect();
    let number = |place: usize, otherwise| numbers.get(place).copied().unwrap_or(otherwise);
    let plan = Plan {
        users: number(0, 100_000),
        gateways: number(1, 5),
        time: Duration::from_secs(number(2, 60) as u64),
        config: Config::default(),
    };
    println!(
        "{} users on {} gateways, a heartbeat every {:?}, TTL {:?}, {:?} a side",
        plan.users, plan.gateways, plan.config.heartbeat, plan.config.ttl, plan.time
    );
    let vouching = vouching(&plan).await?;
    let setting = setting(&plan).await?;
    let beats = plan.users as f64 * plan.time.as_secs_f64() / plan.config.heartbeat.as_secs_f64();
    println!("\n{:<38}{:>12}{:>12}{:>9}", "for each heartbeat", "vouching", "SET EX", "ratio");
    let row = |what: &str, cost: fn(&Cost) -> f64| {
        let (ours, theirs) = (cost(&vouching) / beats, cost(&setting) / beats);
        println!("{what:<38}{ours:>12.4}{theirs:>12.4}{:>8.1}%", 100.0 * ours / theirs);
    };
    row("Redis CPU, us", |cost| cost.redis_cpu_us);
    row("gateway CPU, us", |cost| cost.gateway_cpu_us);
    row("commands sent", |cost| cost.sent);
    row("commands run, with those of scripts", |cost| cost.run);
    Ok(())
}

/// Every user has a session that is heard; the gateways do the rest.
async fn vouching(plan: &Plan) -> anyhow::Result<Cost> {
    let server = RedisServer::start();
    let mut gateways = Vec::new();
    for number in 0..plan.gateways {
        let options = RedisOptions {
            url: server.url(),
            tls: TlsFiles::default(),
            prefix: "presence".to_owned(),
            gateway: format!("g{number}"),
            config: plan.config.clone(),
        };
        let (opened, _) = redis::open(options).await?;
        gateways.push(Presence::start(plan.config.clone(), opened, Metrics::default()));
    }
    let mut sessions: Vec<Session> = Vec::with_capacity(plan.users);
    for number in 0..plan.users {
        let user = UserId::new(&format!("user-{number}"))?;
        let joining = Joining { user, device: None, status: None, format: Format::Json };
        sessions.push(gateways[number % plan.gateways].join(joining));
    }
    while server.cli(&["DBSIZE"]).parse::<usize>()? < 2 * plan.users {
        sleep(Duration::from_millis(100)).await;
    }
    let (mut cost, mut next) = (Cost::default(), 0);
    measure(plan, &server, &mut cost, async |beats| {
        for _ in 0..beats {
            sessions[next].heard();
            next = (next + 1) % sessions.len();
        }
        Ok(())
    })
    .await?;
    Ok(cost)
}

/// Every heartbeat sets its user's key; those of a tick go out in one pipeline.
async fn setting(plan: &Plan) -> anyhow::Result<Cost> {
    let server = RedisServer::start();
    let config = fred::types::config::Config::from_url(&server.url())?;
    let clients = Builder::from_config(config).build_pool(plan.gateways)?;
    clients.init().await?;
    let keys: Vec<String> = (0..plan.users).map(|n| format!("presence:user:user-{n}")).collect();
    let ttl = Expiration::EX(plan.config.ttl.as_secs() as i64);
    for part in keys.chunks(1000) {
        set_all(&clients, part, &ttl).await?;
    }
    let (mut cost, mut next) = (Cost::default(), 0);
    measure(plan, &server, &mut cost, async |beats| {
        let end = (next + beats).min(keys.len());
        set_all(&clients, &keys[next..end], &ttl).await?;
        next = end % keys.len();
        Ok(())
    })
    .await?;
    Ok(cost)
}

async fn set_all(clients: &Pool, keys: &[String], ttl: &Expiration) -> anyhow::Result<()> {
    let client: &Client = clients.next();
    let pipeline = client.pipeline();
    for key in keys {
        pipeline.set::<(), _, _>(key.as_str(), "g", Some(ttl.clone()), None, false).await?;
    }
    pipeline.last::<()>().await?;
    Ok(())
}

/// Beats for as long as planned, after a moment to settle, and takes the difference.
async fn measure(
    plan: &Plan,
    server: &RedisServer,
    cost: &mut Cost,
    mut beat: impl AsyncFnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    sleep(Duration::from_secs(10)).await;
    let before = used(server)?;
    let ticks = plan.time.as_micros() / TICK.as_micros();
    let per_tick = plan.users as f64 * TICK.as_secs_f64() / plan.config.heartbeat.as_secs_f64();
    let (mut clock, mut done) = (interval(TICK), 0);
    for tick in 1..=ticks {
        clock.tick().await;
        let due = (per_tick * tick as f64) as usize;
        beat(due - done).await?;
        done = due;
    }
    let after = used(server)?;
    *cost = Cost {
        redis_cpu_us: after.redis_cpu_us - before.redis_cpu_us,
        gateway_cpu_us: after.gateway_cpu_us - before.gateway_cpu_us,
        sent: after.sent - before.sent,
        run: after.run - before.run,
    };
    Ok(())
}

/// What was used since the processes began.
fn used(server: &RedisServer) -> anyhow::Result<Cost> {
    let info = ["cpu", "stats", "commandstats"].map(|section| server.cli(&["INFO", section]));
    let lines = || info.iter().flat_map(|section| section.lines());
    let value = |name: &str| -> f64 {
        let value = lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.parse().ok()).unwrap_or_default()
    };
    // Only these are sent by either side; what scripts run is counted under its own names.
    let calls = |name: &str| -> f64 {
        let start = format!("cmdstat_{name}:calls=");
        let calls = lines().find_map(|line| line.strip_prefix(&start)?.split(',').next());
        calls.and_then(|calls| calls.parse().ok()).unwrap_or_default()
    };
    Ok(Cost {
        redis_cpu_us: 1e6 * (value("used_cpu_user") + value("used_cpu_sys")),
        gateway_cpu_us: 1e6 * own_cpu_secs()?,
        sent: ["evalsha", "eval", "set", "ping", "subscribe"].iter().map(|name| calls(name)).sum(),
        run: value("total_commands_processed"),
    })
}

/// Fields 14 and 15 of proc(5)'s stat, which follow the name in parentheses.
fn own_cpu_secs() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    Ok(fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() * CPU_TICK)
}
