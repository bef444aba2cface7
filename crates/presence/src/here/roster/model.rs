//! Random sessions of a few users against a plain list of them: any device, the latest status, and what is a change.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use presence_protocol::{Device, Show, Status, UserId};

use super::{BUCKETS_PER_PART, ConnId, Effect, Joined, Roster};
use crate::clock::Tick;
use crate::config::{Over, SessionLimit};
use crate::store::bucket::bucket_of;
use crate::store::{Contribution, SetStatus};

const USERS: [&str; 3] = ["bo", "cy", "di"];
/// Few enough that it is often reached.
const LIMIT: SessionLimit = SessionLimit { max: 4, over: Over::OldestGivesWay };

const DEVICES: [Option<&str>; 3] = [None, Some("ios"), Some("web")];

/// A session, in the order of joining.
#[derive(Clone)]
struct Session {
    user: &'static str,
    conn: ConnId,
    device: Option<&'static str>,
    status: Option<(Tick, Status)>,
}

/// What a user's sessions amount to: devices, and the status that was set last with its moment. None without sessions.
type Sum = Option<(BTreeSet<&'static str>, Option<(Tick, Status)>)>;

fn sum(sessions: &[Session], user: &str) -> Sum {
    let of_user = || sessions.iter().filter(|session| session.user == user);
    let status = of_user().filter_map(|session| session.status.clone()).max_by_key(|(at, _)| *at);
    of_user().next()?;
    Some((of_user().filter_map(|session| session.device).collect(), status))
}

fn is_visible(sum: &Sum) -> bool {
    let shows = |status: &Option<(Tick, Status)>| {
        status.as_ref().is_none_or(|(_, status)| status.show != Show::Invisible)
    };
    sum.as_ref().is_some_and(|(_, status)| shows(status))
}

fn as_told(sum: &Sum, now: Tick, online_for: Duration) -> Option<Contribution> {
    let (devices, status) = sum.clone()?;
    Some(Contribution {
        devices: devices.into_iter().map(|label| Device::new(label).unwrap()).collect(),
        status: status.map(|(at, Status { show, text })| SetStatus {
            show,
            text,
            age: now.since(at),
        }),
        online_for,
    })
}

fn act(random: &mut Rng, roster: &Roster, sessions: &mut Vec<Session>, now: Tick) -> Effect {
    let status = Status { show: Show::ALL[random.usize(..Show::ALL.len())], text: None };
    let at = random.usize(..=sessions.len());
    let old = sessions.get(at).cloned();
    match (random.u8(..5), old) {
        (0, Some(old)) => {
            sessions[at].status = Some((now, status.clone()));
            roster.set_status(&UserId::new(old.user).unwrap(), old.conn, status, now)
        }
        (1 | 2, Some(old)) => {
            sessions.remove(at);
            roster.leave(&UserId::new(old.user).unwrap(), old.conn, now)
        }
        // Nobody's session: a late end, told twice.
        (3, _) => {
            let user = UserId::new(USERS[random.usize(..USERS.len())]).unwrap();
            roster.leave(&user, ConnId(u32::MAX), now)
        }
        _ => {
            let user = USERS[random.usize(..USERS.len())];
            let device = DEVICES[random.usize(..DEVICES.len())];
            let status = random.bool().then_some(status);
            let conn = ConnId(now.0 as u32);
            let set = status.clone().map(|status| (now, status));
            let of_user = || sessions.iter().filter(|session| session.user == user);
            let oldest = (of_user().count() == LIMIT.max).then(|| of_user().next().unwrap().conn);
            sessions.retain(|session| Some(session.conn) != oldest);
            sessions.push(Session { user, conn, device, status: set });
            let device = device.map(|label| Device::new(label).unwrap());
            let joined =
                roster.join(&UserId::new(user).unwrap(), conn, (device, status), LIMIT, now);
            let Joined::In { effect, instead_of } = joined else { panic!("{joined:?}") };
            assert_eq!(instead_of, oldest);
            effect
        }
    }
}

#[test]
fn a_roster_amounts_to_its_sessions_and_tells_of_every_change_and_of_nothing_else() {
    let roster = Roster::new();
    for seed in 0..500 {
        let mut random = Rng::with_seed(seed);
        let (mut sessions, mut now) = (Vec::new(), Tick(0));
        let mut visible_since = [Tick(0); USERS.len()];
        for step in 0..random.usize(1..40) {
            now = Tick(now.0 + random.u64(1..5000));
            let before = USERS.map(|user| sum(&sessions, user));
            let effect = act(&mut random, &roster, &mut sessions, now);
            let after = USERS.map(|user| sum(&sessions, user));
            let what = || format!("seed {seed}, step {step}: {before:?}, then {after:?}");
            assert_eq!(effect == Effect::Changed, before != after, "{}", what());
            let later = Tick(now.0 + 7);
            for (at, name) in USERS.into_iter().enumerate() {
                if !is_visible(&before[at]) && is_visible(&after[at]) {
                    visible_since[at] = now;
                }
                let user = UserId::new(name).unwrap();
                let mut told = roster.to_tell(&user, later).map(|(contribution, _)| contribution);
                if let Some(told) = told.as_mut().filter(|_| !is_visible(&after[at])) {
                    // For how long an invisible user was online is nobody's business.
                    told.online_for = later.since(visible_since[at]);
                }
                let truth = as_told(&after[at], later, later.since(visible_since[at]));
                assert_eq!(told, truth, "{name}, {}", what());
                let here = sessions.iter().filter(|session| session.user == name);
                assert!(roster.conns_of(&user).into_iter().eq(here.map(|s| s.conn)), "{}", what());
                let part = usize::from(bucket_of(&user)) / BUCKETS_PER_PART;
                let listed = roster.users_of_part(part).contains(&user);
                assert_eq!(listed, after[at].is_some(), "{name}, {}", what());
            }
            assert_eq!(roster.user_count(), after.iter().flatten().count(), "{}", what());
        }
        for session in sessions {
            roster.leave(&UserId::new(session.user).unwrap(), session.conn, now);
        }
        assert_eq!(roster.user_count(), 0, "seed {seed}");
    }
}

#[test]
fn a_session_too_many_is_refused_where_the_newest_is() {
    let roster = Roster::new();
    let limit = SessionLimit { max: 2, over: Over::NewestIsRefused };
    let bo = UserId::new("bo").unwrap();
    let join = |conn| roster.join(&bo, ConnId(conn), (None, None), limit, Tick(0));
    assert!(matches!(join(1), Joined::In { instead_of: None, .. }));
    assert!(matches!(join(2), Joined::In { instead_of: None, .. }));
    assert_eq!(join(3), Joined::Refused);
    roster.leave(&bo, ConnId(1), Tick(0));
    assert!(matches!(join(4), Joined::In { instead_of: None, .. }));
    assert_eq!(roster.conns_of(&bo), [ConnId(2), ConnId(4)]);
}
