//! Random histories of a few users' sessions against a model of ten lines.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use presence::Config;
use presence_protocol::{Availability, Device, Show, Status};

use crate::client::{Client, presence, user};

const USERS: [&str; 3] = ["bo", "cy", "di"];
const DEVICES: [Option<&str>; 3] = [None, Some("ios"), Some("web")];
const SHOWS: [Show; 4] = [Show::Online, Show::Away, Show::Busy, Show::Invisible];

/// A session: its client, its device, and its last status with the step at which it was set.
type Living = (Client, Option<&'static str>, Option<(usize, Show)>);

/// The truth about one user.
#[derive(Default)]
struct Truth {
    sessions: Vec<Living>,
}

impl Truth {
    /// Online, what is shown, and the devices.
    fn shown(&self) -> (Availability, Option<Show>, BTreeSet<&str>) {
        let latest = self.sessions.iter().filter_map(|(_, _, status)| *status).max_by_key(|s| s.0);
        let show = latest.map(|(_, show)| show).filter(|show| *show != Show::Online);
        if self.sessions.is_empty() || show == Some(Show::Invisible) {
            return (Availability::Offline, None, BTreeSet::new());
        }
        let devices = self.sessions.iter().filter_map(|(_, device, _)| *device).collect();
        (Availability::Online, show, devices)
    }
}

#[tokio::test(start_paused = true)]
async fn after_any_history_every_watcher_sees_the_truth() {
    for seed in 0..150 {
        let config = Config::default();
        let presence = presence(&config);
        let mut random = Rng::with_seed(seed);
        let mut watcher = Client::join(&presence, "ana", None, None);
        let mut users: [Truth; USERS.len()] = Default::default();
        watcher.watch(&USERS[..random.usize(1..=USERS.len())]);
        for step in 0..random.usize(1..60) {
            let at = random.usize(..USERS.len());
            act(&mut random, &presence, USERS[at], &mut users[at], step);
            watcher.live_for(Duration::from_millis(random.u64(1..2000))).await;
            users.iter().flat_map(|truth| &truth.sessions).for_each(|(c, ..)| c.session.heard());
        }
        watcher.watch(&USERS);
        watcher.live_for(config.grace + Duration::from_secs(1)).await;
        for (name, truth) in USERS.iter().zip(&users) {
            let seen = &watcher.view[&user(name)];
            let devices = seen.devices.iter().map(Device::as_str).collect();
            assert_eq!((seen.state, seen.show, devices), truth.shown(), "seed {seed}, {name}");
        }
    }
}

fn act(
    random: &mut Rng,
    presence: &presence::Presence,
    name: &str,
    truth: &mut Truth,
    step: usize,
) {
    if truth.sessions.is_empty() || random.u8(..5) < 2 {
        let device = DEVICES[random.usize(..DEVICES.len())];
        let show = random.bool().then(|| SHOWS[random.usize(..SHOWS.len())]);
        let status = show.map(|show| Status { show, text: None });
        let client = Client::join(presence, name, device, status);
        truth.sessions.push((client, device, show.map(|show| (step, show))));
        return;
    }
    let at = random.usize(..truth.sessions.len());
    match random.u8(..3) {
        0 => {
            let show = SHOWS[random.usize(..SHOWS.len())];
            truth.sessions[at].0.session.set_status(Status { show, text: None });
            truth.sessions[at].2 = Some((step, show));
        }
        1 => truth.sessions.swap_remove(at).0.session.bye(),
        _ => drop(truth.sessions.swap_remove(at)),
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_within_grace_is_never_pushed() {
    for seed in 0..100 {
        let config = Config::default();
        let presence = presence(&config);
        let mut random = Rng::with_seed(seed);
        let mut watcher = Client::join(&presence, "ana", None, None);
        let mut bo = Client::join(&presence, "bo", Some("ios"), None);
        watcher.live_for(Duration::from_millis(10)).await;
        watcher.watch(&["bo"]);
        for _ in 0..20 {
            watcher.live_for(Duration::from_millis(random.u64(..5000))).await;
            drop(bo);
            watcher.live_for(config.grace.mul_f64(random.f64() * 0.95)).await;
            bo = Client::join(&presence, "bo", Some("ios"), None);
        }
        watcher.live_for(2 * config.grace).await;
        assert_eq!(watcher.pushed, 0, "seed {seed}");
        assert_eq!(watcher.view[&user("bo")].state, Availability::Online);
    }
}
