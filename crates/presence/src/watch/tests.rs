//! What a watched user's watchers are shown, whatever the order in which news arrives: a model and random histories.

use std::collections::HashMap;
use std::time::Duration;

use presence_protocol::{Availability, Device, Format, UserId};
use tokio::time::Instant;

use super::WatchTable;
use crate::session::outbox::ConnId;
use crate::store::view::View;
use crate::store::{Held, Standing};

const GRACE: Duration = Duration::from_secs(3);
const WATCHER: ConnId = ConnId(7);

fn bo() -> UserId {
    UserId::new("bo").unwrap()
}

fn view(version: u64, state: Availability) -> View {
    View { version, state, since: Some(version), ..View::NO_TRACE }
}

fn online(version: u64) -> Standing {
    Standing::settled(bo(), view(version, Availability::Online))
}

fn offline(version: u64) -> Standing {
    Standing::settled(bo(), view(version, Availability::Offline))
}

/// Offline, held back, after having been online at the version before.
fn held(version: u64) -> Standing {
    let before = view(version - 1, Availability::Online);
    Standing { held: Some(Held { remaining: GRACE, before }), ..offline(version) }
}

/// A table in which one session watches bo.
fn watched() -> WatchTable {
    let table = WatchTable::new(GRACE);
    table.enlist(&bo(), WATCHER, &[]);
    table
}

/// Whether the watcher is told.
fn tells(table: &WatchTable, standing: &Standing, now: Instant) -> bool {
    table.learn(standing, now, now).is_some_and(|(_, absorbed)| !absorbed.tell.is_empty())
}

fn shown(table: &WatchTable) -> (Availability, u64) {
    let state = table.state(&bo()).unwrap();
    (state.state, state.version)
}

#[test]
fn news_is_told_once_and_older_news_never() {
    let (table, now) = (watched(), Instant::now());
    assert!(!tells(&table, &offline(3), now), "the first that is known is the answer");
    assert!(tells(&table, &online(5), now));
    for old in [online(5), offline(4), offline(3)] {
        assert!(!tells(&table, &old, now));
    }
    assert_eq!(shown(&table), (Availability::Online, 5));
}

#[test]
fn nothing_is_known_before_the_store_was_asked_after_the_watch_began() {
    let asked_before = Instant::now();
    let (table, now) = (watched(), Instant::now());
    table.learn(&online(9), asked_before, now);
    let (_, heard) = table.hear(&online(7), now).unwrap();
    assert!(heard.tell.is_empty());
    assert_eq!(table.state(&bo()), None);
    assert!(!tells(&table, &online(5), now));
    assert_eq!(shown(&table), (Availability::Online, 7), "the newer of what was heard and read");
}

#[test]
fn what_was_heard_before_the_store_lost_everything_is_not_the_first_that_is_known() {
    for (born, expected) in [(8, Availability::Offline), (3, Availability::Online)] {
        let (table, now) = (watched(), Instant::now());
        table.hear(&online(7), now).unwrap();
        let untraced = Standing::settled(bo(), View { version: born, ..View::NO_TRACE });
        table.note_loss(now.checked_sub(Duration::from_mins(1)), HashMap::new());
        table.learn(&untraced, now, now).unwrap();
        assert_eq!(shown(&table).0, expected, "a store that remembers since {born}");
    }
}

#[test]
fn a_held_loss_is_shown_when_it_is_confirmed_and_not_before() {
    let (table, now) = (watched(), Instant::now());
    tells(&table, &online(1), now);
    let (user, absorbed) = table.learn(&held(2), now, now).unwrap();
    assert_eq!(absorbed.hold, Some(now + GRACE));
    assert_eq!(shown(&table).0, Availability::Online);
    assert!(table.due_of(&[user], now).is_empty());
    assert_eq!(table.due_of(&[user], now + GRACE), [bo()]);
    assert!(tells(&table, &offline(2), now + GRACE));
    assert!(table.due_of(&[user], now + GRACE).is_empty());
}

#[test]
fn a_return_within_grace_is_a_flap_and_tells_nobody() {
    let (table, now) = (watched(), Instant::now());
    tells(&table, &online(1), now);
    table.learn(&held(2), now, now);
    let (user, absorbed) = table.learn(&online(3), now, now).unwrap();
    assert!(absorbed.flap && absorbed.tell.is_empty());
    assert!(table.due_of(&[user], now + GRACE).is_empty());
    assert!(!tells(&table, &offline(2), now + GRACE), "a late confirmation of the old loss");
}

#[test]
fn who_comes_back_after_a_loss_that_was_shown_is_shown_though_the_store_holds_it_back() {
    let (table, now) = (watched(), Instant::now());
    tells(&table, &online(1), now);
    assert!(tells(&table, &offline(2), now));
    let before = View { devices: vec![Device::new("ios").unwrap()], ..online(1).view };
    let held = Some(Held { remaining: GRACE, before });
    assert!(tells(&table, &Standing { held, ..online(3) }, now));
    assert_eq!(shown(&table), (Availability::Online, 3));
}

#[test]
fn a_user_of_whom_the_store_has_no_trace_is_shown_until_that_has_lasted() {
    let (table, now) = (watched(), Instant::now());
    let untraced = Standing::settled(bo(), View::NO_TRACE);
    tells(&table, &online(9), now);
    let (_, absorbed) = table.learn(&untraced, now, now).unwrap();
    let due = absorbed.hold.unwrap();
    assert!(!tells(&table, &untraced, due - Duration::from_millis(1)));
    assert!(tells(&table, &untraced, due));
    assert_eq!(shown(&table), (Availability::Offline, 10));
    assert!(tells(&table, &online(20), due), "and is back with the next sign of life");
}

#[test]
fn a_user_without_trace_may_live_while_its_gateway_has_not_found_out() {
    let (table, now) = (watched(), Instant::now());
    let mut on = online(9);
    on.view.gateways = vec!["g1".to_owned()];
    let untraced = Standing::settled(bo(), View::NO_TRACE);
    tells(&table, &on, now);
    let until = now + Duration::from_secs(30);
    table.note_loss(Some(now), [("g1".to_owned(), until)].into());
    let (_, absorbed) = table.learn(&untraced, now, now).unwrap();
    assert_eq!(absorbed.hold, Some(until));
    assert!(!tells(&table, &untraced, now + Duration::from_secs(20)));
    assert!(tells(&table, &untraced, until), "it is dead");
}

#[test]
fn a_user_without_trace_is_waited_for_no_longer_when_its_gateway_has_found_out() {
    let (table, now) = (watched(), Instant::now());
    let mut on = online(9);
    on.view.gateways = vec!["g1".to_owned()];
    let untraced = Standing::settled(bo(), View { version: 20, ..View::NO_TRACE });
    tells(&table, &on, now);
    let missing = |seconds| [("g1".to_owned(), now + Duration::from_secs(seconds))].into();
    table.note_loss(Some(now), missing(30));
    table.learn(&untraced, now, now);
    table.note_loss(Some(now), missing(2));
    let later = now + Duration::from_secs(1);
    let (user, absorbed) = table.learn(&untraced, later, later).unwrap();
    let due = now + Duration::from_millis(1500) + GRACE;
    assert_eq!(absorbed.hold, Some(due));
    assert_eq!(table.due_of(&[user], due), [bo()]);
    assert!(tells(&table, &untraced, due));
}

#[test]
fn nobody_is_unknown_while_a_gateway_has_not_found_out() {
    let (table, now) = (watched(), Instant::now());
    assert!(!table.may_be_told_of(&bo()));
    let until = now + Duration::from_secs(30);
    table.note_loss(Some(now), [("g1".to_owned(), until)].into());
    assert!(table.may_be_told_of(&bo()));
    tells(&table, &online(9), now);
    assert!(!table.may_be_told_of(&bo()), "it is known where the user is");
    table.note_loss(Some(now), [("g1".to_owned(), now)].into());
    assert!(!table.may_be_told_of(&UserId::new("cy").unwrap()), "it is dead");
}

#[test]
fn a_user_of_whom_the_store_has_lost_every_trace_counts_as_lost_from_then() {
    let (table, now) = (watched(), Instant::now());
    tells(&table, &online(9), now);
    let mut untraced = Standing::settled(bo(), View::NO_TRACE);
    untraced.view.version = 20;
    table.note_loss(Some(now), HashMap::new());
    let later = now + Duration::from_secs(1);
    let (_, absorbed) = table.learn(&untraced, later, later).unwrap();
    assert_eq!(absorbed.hold, Some(now + Duration::from_millis(1500) + GRACE));
}

#[test]
fn a_held_loss_that_falls_due_while_the_store_has_no_trace_waits_as_well() {
    let (table, now) = (watched(), Instant::now());
    let untraced = Standing::settled(bo(), View::NO_TRACE);
    tells(&table, &online(1), now);
    table.learn(&held(2), now, now);
    let (_, absorbed) = table.learn(&untraced, now + GRACE, now + GRACE).unwrap();
    assert!(absorbed.tell.is_empty() && absorbed.hold.is_some_and(|due| due > now + GRACE));
    assert!(!tells(&table, &online(9), now + GRACE), "the user was back in time");
    assert_eq!(shown(&table), (Availability::Online, 9));
}

#[test]
fn an_answer_from_before_the_user_first_came_does_no_harm() {
    let (table, now) = (watched(), Instant::now());
    let untraced = Standing::settled(bo(), View::NO_TRACE);
    tells(&table, &online(9), now);
    let (user, absorbed) = table.learn(&untraced, now, now).unwrap();
    let due = absorbed.hold.unwrap();
    assert_eq!(table.due_of(&[user], due), [bo()]);
    assert!(!tells(&table, &online(9), due), "the store knows the user after all");
    assert!(table.due_of(&[user], due).is_empty());
    assert_eq!(shown(&table), (Availability::Online, 9));
}

#[test]
fn a_move_to_another_gateway_is_known_and_not_told() {
    let (table, now) = (watched(), Instant::now());
    let on = |gateway: &str| {
        let mut standing = online(1);
        standing.view.gateways = vec![gateway.to_owned()];
        standing
    };
    let user = table.learn(&on("g1"), now, now).unwrap().0;
    assert!(!tells(&table, &on("g2"), now));
    assert_eq!(table.users_on(user.shard(), "g2"), [bo()]);
    assert!(table.users_on(user.shard(), "g1").is_empty());
}

#[test]
fn what_the_store_has_lost_is_noticed_where_it_looks_otherwise() {
    let (table, now) = (watched(), Instant::now());
    let ahead = |standing: &Standing| table.learn(standing, now, now).unwrap().1.ahead;
    assert_eq!(ahead(&online(5)), None, "the first that is known");
    assert_eq!(ahead(&online(5)), None);
    assert_eq!(ahead(&online(3)), None, "it looks the same");
    assert_eq!(ahead(&offline(3)), Some(5));
    assert_eq!(ahead(&Standing::settled(bo(), View::NO_TRACE)), None);
    assert_eq!(shown(&table), (Availability::Online, 5));
    table.hear(&held(9), now);
    assert_eq!(ahead(&online(5)), None, "it is held back");
    assert_eq!(
        ahead(&offline(7)),
        Some(9),
        "the loss that was held is not the one that is known there"
    );
}

#[test]
fn an_encoded_state_is_shared_until_it_changes() {
    let (table, now) = (watched(), Instant::now());
    let user = table.learn(&online(1), now, now).unwrap().0;
    let first = table.frame(user, Format::Json).unwrap();
    assert_eq!(first.as_ptr(), table.frame(user, Format::Json).unwrap().as_ptr());
    let mut changed = online(2);
    changed.view.devices = vec![Device::new("ios").unwrap()];
    table.learn(&changed, now, now);
    assert!(table.frame(user, Format::Json).unwrap() != first);
}

#[test]
fn the_last_watcher_takes_the_user_along() {
    let table = watched();
    let user = table.enlist(&bo(), ConnId(8), &[]).user;
    table.unwatch(user, WATCHER);
    assert_eq!(table.size(), (1, 1));
    table.unwatch(user, ConnId(8));
    assert_eq!(table.size(), (0, 0));
    assert!(table.find(&bo()).is_none());
    assert!(table.learn(&online(1), Instant::now(), Instant::now()).is_none());
}

/// The truth of a random history, told in random order, in parts, and more than once: what is shown never goes back to
/// an older version, and is the truth once the store was read at the end.
#[test]
fn news_in_any_order_never_moves_a_dot_backwards_and_ends_at_the_truth() {
    for seed in 0..2000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut history = vec![offline(1)];
        for version in 2..random.u64(3..30) {
            let was_online = history.last().unwrap().view.is_online();
            history.push(match was_online {
                true if random.bool() => held(version),
                true => offline(version),
                false => online(version),
            });
        }
        let truth = history.last().unwrap().view.clone();
        let mut news: Vec<Standing> = history.into_iter().filter(|_| random.u8(..4) > 0).collect();
        news.extend(news.clone().into_iter().filter(|_| random.bool()));
        random.shuffle(&mut news);

        let (table, start) = (watched(), Instant::now());
        let mut latest = 0;
        for standing in &news {
            table.learn(standing, start, start);
            let version = table.state(&bo()).map_or(0, |state| state.version);
            assert!(version >= latest, "seed {seed}: {version} after {latest}");
            latest = version;
        }
        let last = Standing::settled(bo(), truth.clone());
        table.learn(&last, start + GRACE, start + GRACE);
        assert_eq!(shown(&table), (truth.state, truth.version), "seed {seed}");
    }
}
