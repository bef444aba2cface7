//! A run that can be done: the scenario with the flags applied, gateways that can be named, and a
//! machine that can carry it. Checked before anything is opened.

use std::net::SocketAddr;
use std::path::{Path, absolute};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::Uri;

use crate::args::RunArgs;
use crate::limits::Limits;
use crate::observe::Targets;
use crate::people::People;
use crate::scenario::{Heartbeat, Model, Phase, Scenario, Time, WATCH_MESSAGE_LEN_MAX};
use crate::sources::CONNECTIONS_PER_ADDRESS;
use crate::tls;
use crate::wire::Origin;
use crate::worker::resolve;

/// Of the 20,000 open files that a process often may have.
const CONNECTIONS_PER_WORKER: u64 = 18_000;

/// What is to be done, and by whom.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) scenario: Scenario,
    pub(crate) urls: Vec<String>,
    /// Where those lead: the first address of each.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) origin: Origin,
    pub(crate) jwt_secret: Option<String>,
    /// Whose certificates are trusted (PEM); those that each host trusts when none are named.
    pub(crate) authorities: Option<String>,
    pub(crate) connect_timeout: Duration,
    /// Processes of this host.
    pub(crate) workers: u32,
    /// Processes of other hosts, that find this one at `listen`.
    pub(crate) remote_workers: u32,
    pub(crate) listen: SocketAddr,
    /// The servers to look at.
    pub(crate) targets: Targets,
}

impl Plan {
    /// Checks everything that can be checked beforehand.
    pub(crate) fn of(args: &RunArgs) -> Result<Self> {
        let scenario = scenario(args)?;
        scenario.check()?;
        ensure!(!args.connect_timeout.is_zero(), "--connect-timeout: more than nothing");
        let targets = args.urls.iter().map(targets).collect::<Result<Vec<_>>>()?;
        let authorities = args.tls_ca_file.as_deref().map(tls::read_authorities).transpose()?;
        let limits = Limits::of_this_process()?;
        let remote_workers = args.remote_workers.unwrap_or(0);
        let workers = args.workers.unwrap_or_else(|| match remote_workers {
            0 => workers_for(scenario.connections(), &limits),
            _ => 0,
        });
        let all = workers + remote_workers;
        ensure!(all > 0, "--workers: at least 1, or some of other hosts");
        ensure!(all <= scenario.users, "--workers: at most one for each user");
        let share = scenario.users.div_ceil(all) * scenario.devices;
        let origin = origin(args, &targets, scenario.connections())?;
        let files = limits.files_shortfall(share).filter(|_| workers > 0);
        let ports = match origin {
            Origin::Loopback { addresses, .. } => {
                limits.ports_shortfall(scenario.connections() as u32, addresses)
            }
            Origin::System => {
                let here = scenario.connections() * u64::from(workers) / u64::from(all);
                let addresses = targets.iter().map(Vec::len).min().unwrap_or(1) * targets.len();
                limits.ports_shortfall_to_one(here.div_ceil(addresses as u64))
            }
        };
        let shortfalls: Vec<String> = files.into_iter().chain(ports).collect();
        if !shortfalls.is_empty() {
            bail!("this machine cannot carry it: {}", shortfalls.join("; "));
        }
        Ok(Self {
            scenario,
            urls: args.urls.iter().map(Uri::to_string).collect(),
            addresses: targets.iter().map(|addresses| addresses[0]).collect(),
            origin,
            jwt_secret: args.jwt_secret.clone(),
            authorities,
            connect_timeout: args.connect_timeout,
            workers,
            remote_workers,
            listen: args.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0))),
            targets: args.targets.clone(),
        })
    }
}

/// The file's scenario or the usual one, with the flags applied.
pub(crate) fn scenario(args: &RunArgs) -> Result<Scenario> {
    let mut scenario = match &args.scenario {
        Some(path) => Scenario::read(path)?,
        None => usual(),
    };
    let is_usual = args.scenario.is_none() && args.watch.is_none();
    if let Some(people) = &args.people {
        (scenario.people, scenario.users) = (Some(people.clone()), 0);
    }
    if let Some(users) = args.connections {
        scenario.users = users;
    }
    if let Some(count) = args.watch {
        scenario.contacts = Model::Fixed { count };
    }
    if let Some(interval) = args.heartbeat {
        scenario.heartbeat.interval = interval;
    }
    if let Some(format) = args.format {
        scenario.format = format;
    }
    if let Some(prefix) = &args.users {
        scenario.user_prefix.clone_from(prefix);
    }
    if let Some(seed) = args.seed {
        scenario.seed = seed;
    }
    for phase in &mut scenario.phases {
        match phase {
            Phase::Ramp { rate } => *rate = args.rate.unwrap_or(*rate),
            Phase::Hold { duration } => *duration = args.duration.unwrap_or(*duration),
            _ => {}
        }
    }
    if let Some(path) = scenario.people.take() {
        take_people(&mut scenario, &path, args)?;
    }
    if let Model::Fixed { count } = &mut scenario.contacts
        && is_usual
    {
        *count = scenario.users.saturating_sub(1).min(*count);
    }
    Ok(scenario)
}

/// Who the users are, and whom they watch if that is said.
fn take_people(scenario: &mut Scenario, path: &Path, args: &RunArgs) -> Result<()> {
    let people = People::read(path, 0..u32::MAX)?;
    let (file, count) = (path.display(), people.count());
    ensure!(
        [0, count].contains(&scenario.users),
        "users (--connections): {file} says who they are, and there are {count}: leave it out"
    );
    (scenario.users, scenario.people) = (count, Some(absolute(path)?));
    let max = people.contacts_max();
    ensure!(args.users.is_none(), "--users: {file} says what they are called: leave it out");
    if max > 0 {
        ensure!(args.watch.is_none(), "--watch: {file} says whom they watch: leave it out");
        scenario.contacts = Model::Listed { max };
    }
    let fit = WATCH_MESSAGE_LEN_MAX / (people.name_len_max() + 3);
    ensure!(
        max > 0 || scenario.contacts.watched_max() as usize <= fit,
        "contacts (--watch): at most {fit} users of {file}, whose names are long, fit in one message"
    );
    Ok(())
}

fn usual() -> Scenario {
    Scenario {
        name: "ramp and hold".to_owned(),
        users: 1_000,
        devices: 1,
        seed: 1,
        user_prefix: "load".to_owned(),
        format: crate::scenario::Notation::Msgpack,
        heartbeat: Heartbeat::default(),
        contacts: Model::Fixed { count: 20 },
        people: None,
        reconnect: None,
        phases: vec![
            Phase::Ramp { rate: "500/s".parse().expect("it is a rate") },
            Phase::Hold { duration: Time::from_secs(30) },
        ],
    }
}

fn targets(url: &Uri) -> Result<Vec<SocketAddr>> {
    resolve(url).with_context(|| format!("--url {url}"))
}

fn workers_for(connections: u64, limits: &Limits) -> u32 {
    let each = CONNECTIONS_PER_WORKER.min(limits.connections_max()).max(1);
    connections.div_ceil(each) as u32
}

fn origin(args: &RunArgs, targets: &[Vec<SocketAddr>], connections: u64) -> Result<Origin> {
    let mut targets = targets.iter().flatten();
    let elsewhere = targets.find(|target| !target.ip().is_loopback() || target.is_ipv6());
    match elsewhere {
        None => {
            let enough = connections.div_ceil(CONNECTIONS_PER_ADDRESS.into()) as u32;
            let addresses = args.source_addresses.unwrap_or(enough);
            Ok(Origin::Loopback { addresses, start: fastrand::u64(..) })
        }
        Some(target) => {
            ensure!(
                args.source_addresses.is_none(),
                "--source-addresses: only for gateways on 127.0.0.0/8, and {} is not",
                target.ip()
            );
            Ok(Origin::System)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn plan(args: &str) -> Result<Plan> {
        let words = ["presence-loadtest", "run"].into_iter().chain(args.split_whitespace());
        let Command::Run(args) = Cli::parse_from(words).command else { unreachable!() };
        Plan::of(&args)
    }

    #[test]
    fn the_defaults_can_be_done() {
        let plan = plan("").unwrap();
        assert!(matches!(plan.origin, Origin::Loopback { addresses: 1, .. }));
        assert_eq!((plan.workers, plan.remote_workers), (1, 0));
        assert_eq!(plan.scenario.user_of(&plan.scenario.user_name(17)), Some(17));
        assert_eq!(plan.scenario.user_of("somebody-17"), None);
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_argument_named() {
        let table = [
            ("--url http://127.0.0.1:8080/ws", "ws:// or wss://"),
            ("--tls-ca-file /nowhere.pem", "--tls-ca-file /nowhere.pem"),
            ("--tls-ca-file /dev/null", "no certificate"),
            ("--connections 20 --watch 20", "(--watch): 20 are too many"),
            ("--connections 10 --watch 20", "use 9 or fewer"),
            ("--connections 10000 --watch 9000", "(--watch): 9000 are too many"),
            ("--url ws://127.0.0.1:8080", "write ws://127.0.0.1:8080/ws"),
            ("--url ws://127.0.0.1:8080/foo", "write ws://127.0.0.1:8080/ws"),
            ("--url ws://127.0.0.1:99999/ws", "“99999” is no port"),
            ("--connect-timeout 0s", "--connect-timeout"),
            ("--users=", "user_prefix (--users)"),
            ("--heartbeat 1ms", "heartbeat.interval"),
            ("--url ws://192.0.2.1/ws --source-addresses 2", "--source-addresses"),
            ("--connections 4000000000 --rate 1000000/s --workers 2", "open files"),
            ("--connections 100000 --source-addresses 1", "source address"),
            ("--url ws://192.0.2.1/ws --connections 100000", "to one address of a gateway"),
            ("--workers 0", "--workers"),
            ("--connections 2 --watch 0 --workers 3", "--workers"),
            ("nowhere.toml", "nowhere.toml"),
        ];
        for (args, named) in table {
            let refusal = format!("{:#}", plan(args).unwrap_err());
            assert!(refusal.contains(named), "{args}: {refusal}");
        }
    }

    #[test]
    fn a_host_needs_ports_for_its_own_share_of_each_url_only() {
        let own = "--url ws://192.0.2.1/ws --connections 100000";
        let five = "--listen 0.0.0.0:0 --workers 5 --remote-workers";
        for more in ["--url ws://192.0.2.2/ws", &format!("{five} 5")] {
            let refusal = plan(&format!("{own} {more}")).map_err(|error| format!("{error:#}"));
            assert!(refusal.is_err_and(|error| error.contains("50000 connections")), "{more}");
        }
        let limits = Limits::of_this_process().unwrap();
        for more in [format!("{five} 45"), "--listen 0.0.0.0:0 --remote-workers 9".to_owned()] {
            if let Err(error) = plan(&format!("{own} {more}")) {
                let error = format!("{error:#}");
                assert!(!error.contains("to one address"), "{more}, {limits:?}: {error}");
            }
        }
    }

    #[test]
    fn of_few_users_each_watches_all_others_unless_it_is_said() {
        let watched = |args| plan(args).unwrap().scenario.contacts;
        assert_eq!(watched("-n 10"), Model::Fixed { count: 9 });
        assert_eq!(watched("-n 1"), Model::Fixed { count: 0 });
        assert_eq!(watched("-n 30"), Model::Fixed { count: 20 });
    }

    #[test]
    fn flags_override_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("morning.toml");
        let text = "users = 50\nphases = [{kind = \"ramp\", rate = \"5/s\"}]";
        std::fs::write(&file, text).unwrap();
        let scenario = plan(&format!("{} --rate 7/s", file.display())).unwrap().scenario;
        assert_eq!((scenario.name.as_str(), scenario.users), ("morning", 50));
        assert_eq!(scenario.phases, [Phase::Ramp { rate: "7/s".parse().unwrap() }]);
        assert_eq!(plan(&format!("{} -n 60", file.display())).unwrap().scenario.users, 60);
    }
}
