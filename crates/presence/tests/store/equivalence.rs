//! The same random history, driven into two stores, amounts to the same.

use std::collections::HashMap;
use std::time::Duration;

use presence::store::view::View;
use presence::store::{Cause, Claim, Contribution, Event, SetStatus, Standing};
use presence_protocol::{Show, UserId};

use crate::world::{Gateway, Kind, World, device, slow, text, user};

const STEPS: usize = 400;
const GATEWAYS: [&str; 3] = ["g1", "g2", "g3"];
const USERS: [&str; 6] = ["ana", "bo", "cy", "di", "{ed}", "flo gu"];

/// Two stores stamp the same change some moments apart; everything random is far larger than that.
const SLACK_MS: u64 = 30_000;
const UNIT: Duration = Duration::from_secs(100);

/// What both stores must agree on: all but versions, and times but for some slack.
#[derive(Debug, PartialEq, Eq)]
struct Essence {
    user: UserId,
    view: View,
    before: Option<View>,
    cause: Option<Cause>,
}

fn essence(standing: &Standing) -> Essence {
    let timeless = |view: &View| View { version: 0, since: None, ..view.clone() };
    Essence {
        user: standing.user.clone(),
        view: timeless(&standing.view),
        before: standing.held.as_ref().map(|held| timeless(&held.before)),
        cause: standing.cause(),
    }
}

fn assert_same(seed: u64, step: usize, one: &Standing, other: &Standing) {
    assert_eq!(essence(one), essence(other), "seed {seed}, step {step}");
    let times = |standing: &Standing| {
        let before = standing.held.as_ref().and_then(|held| held.before.since);
        [standing.view.since, before, standing.change.map(|change| change.due_ms)]
    };
    for (one, other) in times(one).into_iter().zip(times(other)) {
        let apart = one.unwrap_or(0).abs_diff(other.unwrap_or(0));
        assert!(apart < SLACK_MS, "seed {seed}, step {step}: {one:?} and {other:?}");
    }
}

/// One store of the two, and what it said.
struct Side {
    gateways: Vec<Gateway>,
    views: HashMap<UserId, View>,
    told: Vec<Standing>,
}

impl Side {
    async fn open(kind: Kind) -> Self {
        let world = World::new(kind, slow());
        let mut gateways = Vec::new();
        for name in GATEWAYS {
            gateways.push(world.gateway(name).await);
        }
        Self { gateways, views: HashMap::new(), told: Vec::new() }
    }

    /// The users whom a gateway may refresh.
    async fn users_on(&self, gateway: usize) -> Vec<&'static str> {
        let mut users = Vec::new();
        for name in USERS {
            let on = self.gateways[gateway].look(name).await.view.gateways;
            users.extend(on.iter().any(|on| on == GATEWAYS[gateway]).then_some(name));
        }
        users
    }

    async fn snapshot(&mut self, gateway: usize) -> Vec<Standing> {
        let users = USERS.map(user).to_vec();
        let standings = self.gateways[gateway].store().snapshot(users).await.expect("a snapshot");
        for Standing { user, view, .. } in &standings {
            if let Some(old) = self.views.insert(user.clone(), view.clone()) {
                assert!(view.version >= old.version, "{old:?} became {view:?}");
                if view.version == old.version {
                    assert!(view.looks_like(&old) && view.since == old.since, "{old:?}, {view:?}");
                }
            }
        }
        standings
    }

    /// Reads events up to the change of a user that nothing else changes.
    async fn listen_to_the_end(&mut self) {
        self.gateways[1].join("the end", "web").await;
        loop {
            let Event::Transitions(transitions) = self.gateways[0].event().await else { continue };
            for told in transitions {
                if told.user == user("the end") {
                    return;
                }
                self.told.push(told);
            }
        }
    }
}

/// A claim that a gateway might make, or a refresh.
enum Step {
    Claims(Vec<Claim>),
    Refresh,
}

fn random_step(random: &mut fastrand::Rng) -> Step {
    if random.u8(..10) == 0 {
        return Step::Refresh;
    }
    Step::Claims((0..random.usize(1..4)).map(|_| random_claim(random)).collect())
}

fn random_claim(random: &mut fastrand::Rng) -> Claim {
    let contribution = random.u8(..10) < 6;
    let cause = if contribution {
        if random.bool() { Cause::Joined } else { Cause::Status }
    } else {
        [Cause::Bye, Cause::Closed, Cause::Closed, Cause::Silent, Cause::Drained][random.usize(..5)]
    };
    Claim {
        user: user(USERS[random.usize(..USERS.len())]),
        contribution: contribution.then(|| random_contribution(random)),
        cause,
        // Held back for the minute that nothing outlasts here, or not at all.
        age: if random.u8(..4) == 0 { UNIT } else { Duration::ZERO },
        silence: UNIT * random.u32(..20),
    }
}

fn random_contribution(random: &mut fastrand::Rng) -> Contribution {
    let mut devices: Vec<_> =
        ["android", "ios", "web"].into_iter().filter(|_| random.bool()).map(device).collect();
    devices.sort();
    let status = SetStatus {
        show: Show::ALL[random.usize(..Show::ALL.len())],
        text: random.bool().then(|| text(["at lunch", "on a call"][random.usize(..2)])),
        age: UNIT * random.u32(..20),
    };
    Contribution {
        devices,
        status: (random.u8(..4) > 0).then_some(status),
        online_for: UNIT * random.u32(..20),
    }
}

async fn the_same_history_amounts_to_the_same(kind: Kind, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut sides = [Side::open(Kind::Embedded).await, Side::open(kind).await];
    for step in 0..STEPS {
        let gateway = random.usize(..GATEWAYS.len());
        match random_step(&mut random) {
            Step::Claims(claims) => {
                for side in &sides {
                    side.gateways[gateway].store().apply(claims.clone()).await.expect("claims");
                }
            }
            Step::Refresh => {
                let joined = sides[0].users_on(gateway).await;
                for side in &sides {
                    let missing = side.gateways[gateway].refresh(&joined).await;
                    assert_eq!(missing, [], "seed {seed}, step {step}");
                }
            }
        }
        let reader = random.usize(..GATEWAYS.len());
        let (one, other) = (sides[0].snapshot(reader).await, sides[1].snapshot(reader).await);
        assert_eq!(one.len(), other.len());
        for (one, other) in one.iter().zip(&other) {
            assert_same(seed, step, one, other);
        }
    }
    for side in &mut sides {
        side.listen_to_the_end().await;
    }
    let [one, other] = &sides;
    assert!(one.told.len() > STEPS / 4, "a history in which little happens: {}", one.told.len());
    // A cluster tells of the users of one call in several messages: the order holds per user only.
    for name in USERS {
        let of_user = |side: &Side| -> Vec<Essence> {
            let of_user = side.told.iter().filter(|standing| standing.user == user(name));
            of_user.map(essence).collect()
        };
        assert_eq!(of_user(one), of_user(other), "seed {seed}: what was told of {name}");
    }
}

#[tokio::test]
async fn redis_and_embedded_agree_on_any_history() {
    for seed in 0..8 {
        the_same_history_amounts_to_the_same(Kind::Redis, seed).await;
    }
}

#[tokio::test]
async fn a_cluster_and_embedded_agree_on_any_history() {
    for seed in 100..103 {
        the_same_history_amounts_to_the_same(Kind::Cluster, seed).await;
    }
}
