//! Random deadlines of sessions that are looked at, moved and ended, against the steps at which they are due; and random
//! clients in paused time: who is silent is pinged and given up when that is due, and never before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use presence_protocol::{CloseReason, Format, UserId};
use tokio::time::{Instant, sleep};

use super::{SLOTS, STEP, STEP_MS, Wheel, silence_max};
use crate::clock::Tick;
use crate::session::outbox::{Outbox, Outboxes};
use crate::store::embedded::EmbeddedHub;
use crate::{Config, Joining, Metrics, Presence, Session, Work};

fn bo() -> UserId {
    UserId::new("bo").unwrap()
}

/// The first step that is not before `at`: after this one, and at most one turn away.
fn step_of(at: Tick, now: Tick) -> u64 {
    let this = now.0 / STEP_MS;
    let last = this + SLOTS - 1;
    (this + 1..last).find(|step| step * STEP_MS >= at.0).unwrap_or(last)
}

#[test]
fn every_session_is_looked_at_at_the_step_at_which_it_is_due_and_at_no_other() {
    for seed in 0..300 {
        let mut random = Rng::with_seed(seed);
        let (wheel, outboxes) = (Wheel::new(), Outboxes::default());
        let (mut due, mut now) = (BTreeMap::new(), Tick(random.u64(..10_000)));
        for _ in 0..random.usize(1..60) {
            let conn = match due.keys().next() {
                Some(conn) if random.bool() => *conn,
                _ => outboxes.insert(Arc::new(Outbox::new(bo(), Format::Json, now))),
            };
            let outbox = outboxes.get(conn).unwrap();
            let far = if random.u8(..8) == 0 { 2 * SLOTS * STEP_MS } else { 3000 };
            let at = Tick((now.0 + random.u64(..far)).saturating_sub(300));
            wheel.visit_at(conn, &outbox, now, at);
            due.insert(conn, step_of(at, now));

            let pause = if random.u8(..8) == 0 { SLOTS * STEP_MS } else { 500 };
            let later = now.after(Duration::from_millis(random.u64(..pause)));
            for step in now.0 / STEP_MS + 1..=later.0 / STEP_MS {
                let looked_at = wheel.take(step).into_iter();
                let fresh = |conn| outboxes.get(conn).is_some_and(|o| o.next_visit() == step);
                let mut looked_at: Vec<_> = looked_at.filter(|conn| fresh(*conn)).collect();
                looked_at.sort();
                looked_at.dedup();
                let expected: Vec<_> =
                    due.iter().filter(|(_, at)| **at == step).map(|(conn, _)| *conn).collect();
                assert_eq!(looked_at, expected, "seed {seed}, step {step}");
                due.retain(|_, at| *at != step);
            }
            assert!(due.values().all(|step| *step > later.0 / STEP_MS), "seed {seed}: missed");
            now = later;
        }
    }
}

/// A client that shows signs of life at random, and what it was told.
struct Client {
    session: Session,
    heard: Instant,
    /// When it was last heard, or was seen to be pinged.
    asked: Instant,
    expires: Option<Instant>,
}

impl Client {
    fn join(presence: &Presence, random: &mut Rng) -> Self {
        let joining =
            Joining { user: bo(), device: None, status: None, format: Format::Json, address: None };
        let (session, now) = (presence.join(joining).unwrap(), Instant::now());
        let expires = (random.u8(..3) == 0).then(|| Duration::from_millis(random.u64(1..10_000)));
        if let Some(time) = expires {
            session.expire_after(time);
        }
        Self { session, heard: now, asked: now, expires: expires.map(|time| now + time) }
    }

    /// Takes what there is to do, which may be there since `slack` ago. True when it is the close.
    fn is_closed(&mut self, config: &Config, slack: Duration, seed: u64) -> bool {
        let (now, silent) = (Instant::now(), self.heard.elapsed());
        let silence_max = silence_max(config);
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(work) = self.session.poll_work(&mut context) {
            match work {
                Work::Ping => {
                    assert!(silent >= silence_max, "seed {seed}: pinged after {silent:?}");
                    assert!(self.asked.elapsed() + slack >= silence_max, "seed {seed}: twice");
                    self.asked = now;
                }
                Work::Close(CloseReason::NoHeartbeat) => {
                    assert!(silent >= config.ttl, "seed {seed}: given up after {silent:?}");
                    return true;
                }
                Work::Close(CloseReason::TokenExpired) => {
                    assert!(self.expires.is_some_and(|at| at <= now), "seed {seed}: not expired");
                    return true;
                }
                Work::Frame(_welcome) => {}
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        assert!(silent <= config.ttl + slack, "seed {seed}: a ghost, silent for {silent:?}");
        assert!(self.asked.elapsed() <= silence_max + slack, "seed {seed}: not pinged");
        assert!(self.expires.is_none_or(|at| now <= at + slack), "seed {seed}: expired");
        false
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_silent_is_pinged_and_given_up_when_due_and_never_early() {
    let (heartbeat, ttl) = (Duration::from_secs(1), Duration::from_millis(2_600));
    let config = Config { heartbeat, ttl, ..Config::default() };
    for seed in 0..20 {
        let mut random = Rng::with_seed(seed);
        let opened = EmbeddedHub::new(config.clone()).open("g");
        let presence = Presence::start(config.clone(), opened, Metrics::default());
        let mut clients: Vec<Client> = Vec::new();
        for _ in 0..300 {
            let pause = Duration::from_millis(random.u64(1..60));
            sleep(pause).await;
            clients.retain_mut(|client| !client.is_closed(&config, STEP + pause, seed));
            if clients.len() < 8 && random.u8(..10) == 0 {
                clients.push(Client::join(&presence, &mut random));
            }
            for client in clients.iter_mut().filter(|_| random.u8(..30) == 0) {
                client.session.heard();
                (client.heard, client.asked) = (Instant::now(), Instant::now());
            }
        }
    }
}
