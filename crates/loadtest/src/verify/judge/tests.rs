//! Each kind of broken promise is found, and what is right is not. Times are in ms here.

use presence_protocol::{Availability, Device, Show, StatusText, UserState};

use super::*;
use crate::verify::record::{Moment, SetStatus, Sight, Told};

const MS: Us = 1000;
const RULES: Rules = Rules { heartbeat: 1000 * MS, ttl: 4000 * MS, grace: 1000 * MS };
const BO: User = 7;

/// A session on the first gateway.
fn session(hello: u64, end: Option<(u64, Ending)>) -> Facts {
    let mut facts = Facts::new(BO, 0, None, hello * MS);
    facts.welcome = Some((hello + 10) * MS);
    if let Some((at, ending)) = end {
        facts.beat(Moment::at((at - 500) * MS), Us::MAX);
        facts.end = Some((Moment::at(at * MS), ending));
    }
    facts
}

/// What a watcher on the second gateway was told of the user.
fn round(sessions: Vec<Facts>, told: &[(u64, Sight)]) -> Round {
    let seen = |(version, &(at, what)): (usize, &(u64, Sight))| Seen {
        at: at * MS,
        user: BO,
        version: version as u64,
        what,
    };
    let watcher = Watcher {
        user: 1,
        place: 1,
        seen: told.iter().enumerate().map(seen).collect(),
        backward: Vec::new(),
        stalls: Vec::new(),
        until: Us::MAX,
    };
    Round {
        end: 60_000 * MS,
        asked: 0,
        sessions: HashMap::from([(BO, sessions)]),
        faults: Vec::new(),
        watchers: vec![watcher],
    }
}

fn judged(round: &Round) -> (Vec<Promise>, Findings) {
    let findings = judge(&RULES, &Lag::default(), round);
    (findings.violations.iter().map(|violation| violation.promise).collect(), findings)
}

fn broken(sessions: Vec<Facts>, told: &[(u64, Sight)]) -> Vec<Promise> {
    judged(&round(sessions, told)).0
}

fn stop(from: u64, until: u64) -> Fault {
    let from = Moment::at(from * MS);
    Fault { kind: FaultKind::GatewayPause, place: Some(0), from, healed: Some(until * MS) }
}

use Sight::{Offline, Online};

#[test]
fn what_comes_in_time_is_right_and_measured() {
    let sessions = vec![session(1_000, Some((10_000, Ending::Closed)))];
    let told = [(100, Offline), (1_050, Online), (11_030, Offline)];
    let (broken, findings) = judged(&round(sessions, &told));
    assert_eq!(broken, []);
    assert_eq!(findings.online_us, [50 * MS]);
    assert_eq!(
        findings.latest[&Cause::Closed],
        Extreme { checked: 1, worst_us: 1_030 * MS, broken: 0 }
    );
    assert_eq!(findings.earliest[&Cause::Closed].worst_us, 1_030 * MS);
    assert_eq!((findings.states, findings.presences, findings.absences), (3, 1, 1));
}

#[test]
fn a_late_offline_and_a_ghost_are_told_apart_by_whether_it_ever_came() {
    let gone = || vec![session(1_000, Some((10_000, Ending::Bye)))];
    assert_eq!(broken(gone(), &[(2_000, Online), (12_000, Offline)]), [Promise::LateOffline]);
    assert_eq!(broken(gone(), &[(2_000, Online)]), [Promise::Ghost]);
    assert_eq!(
        broken(gone(), &[(2_000, Online), (10_500, Offline), (15_000, Online)]),
        [Promise::Ghost]
    );
}

#[test]
fn an_offline_before_the_grace_or_the_ttl_is_early() {
    let closed = vec![session(1_000, Some((10_000, Ending::Closed)))];
    assert_eq!(broken(closed, &[(3_000, Online), (10_400, Offline)]), [Promise::EarlyOffline]);
    let frozen = vec![session(1_000, Some((10_000, Ending::Frozen)))];
    assert_eq!(broken(frozen, &[(3_000, Online), (13_400, Offline)]), [Promise::EarlyOffline]);
}

#[test]
fn an_offline_of_a_living_user_is_false() {
    let living = || vec![session(1_000, None)];
    let told = [(3_000, Online), (9_000, Offline), (9_100, Online)];
    assert_eq!(broken(living(), &told), [Promise::FalseOffline]);
    // A watcher that comes later is told as well.
    assert_eq!(broken(living(), &[(9_000, Offline), (9_100, Online)]), [Promise::FalseOffline]);
}

#[test]
fn a_return_within_grace_that_is_shown_is_a_flap() {
    let sessions = || vec![session(1_000, Some((10_000, Ending::Closed))), session(10_500, None)];
    let told = [(3_000, Online), (11_020, Offline), (11_030, Online)];
    assert_eq!(broken(sessions(), &told), [Promise::Flap]);
    let (kept, findings) = judged(&round(sessions(), &told[..1]));
    assert_eq!((kept, findings.returns), (vec![], 1));
}

#[test]
fn an_offline_is_about_the_departure_nearest_before_it() {
    let what = |sessions: Vec<Facts>, at| {
        let told = [(3_000, Online), (at, Offline), (at + 1, Online)];
        let violation = judged(&round(sessions, &told)).1.violations.swap_remove(0);
        (violation.promise, violation.what)
    };
    let left = session(1_000, Some((13_303, Ending::Closed)));
    let returned = vec![left, session(13_330, None)];
    let (promise, about) = what(returned.clone(), 14_310);
    assert_eq!(promise, Promise::Flap);
    assert!(about.contains("left at 13.303 s, back at 13.340 s"), "{about}");
    // Ten seconds later it cannot be about that.
    let (promise, about) = what(returned.clone(), 23_998);
    assert_eq!(promise, Promise::FalseOffline);
    assert!(!about.contains("back at"), "{about}");
    // Nor when another device closed since.
    let tab = session(13_400, Some((13_900, Ending::Closed)));
    let (promise, about) = what([returned, vec![tab]].concat(), 14_310);
    assert_eq!(promise, Promise::FalseOffline);
    assert!(about.contains("closed its socket at 13.900 s"), "{about}");
}

#[test]
fn an_online_that_does_not_come_is_late() {
    let living = || vec![session(5_000, None)];
    assert_eq!(broken(living(), &[(100, Offline), (6_500, Online)]), [Promise::LateOnline]);
    assert_eq!(broken(living(), &[(100, Offline)]), [Promise::LateOnline]);
}

#[test]
fn a_figure_and_its_verdict_are_of_the_same_samples() {
    let kept = |worst: u64| Extreme { checked: 1, worst_us: worst * MS, broken: 0 };
    let broken = |worst: u64| Extreme { broken: 1, ..kept(worst) };
    let closed = || vec![session(1_000, Some((10_000, Ending::Closed)))];
    let findings = |told: &[(u64, Sight)]| judged(&round(closed(), told)).1;
    let early = findings(&[(3_000, Online), (10_088, Offline)]);
    assert_eq!(early.earliest[&Cause::Closed], broken(88));
    let late = findings(&[(3_000, Online), (12_500, Offline)]);
    assert_eq!(late.latest[&Cause::Closed], broken(2_500));
    // In time at first, then not until too late.
    let again = [(3_000, Online), (11_100, Offline), (11_200, Online), (12_500, Offline)];
    assert_eq!(findings(&again).latest[&Cause::Closed], broken(2_500));
    assert_eq!(findings(&again[..3]).violations[0].promise, Promise::Ghost);
    assert!(findings(&again[..3]).latest.is_empty());
    // A gateway that was stopped for its TTL may be taken for dead: nothing is too early then.
    let mut stopped = round(closed(), &[(3_000, Online), (10_088, Offline)]);
    stopped.faults = vec![stop(5_000, 9_500)];
    let (promises, findings) = judged(&stopped);
    assert_eq!(promises, []);
    assert!(findings.earliest.is_empty() && findings.latest.is_empty());
    assert_eq!(findings.after_faults, kept(588));
}

#[test]
fn what_a_stopped_gateway_or_one_that_ended_delays_has_rows_of_its_own() {
    let rules = Rules { ttl: 30_000 * MS, ..RULES };
    let frozen = vec![session(1_000, Some((10_000, Ending::Frozen)))];
    let mut stopped = round(frozen, &[(3_000, Online), (43_000, Offline)]);
    stopped.faults = vec![stop(10_000, 12_500)];
    let findings = judge(&rules, &Lag::default(), &stopped);
    assert_eq!(findings.violations, []);
    assert!(findings.latest.is_empty(), "{findings:?}");
    let worst_us = (43_000 - 9_500 - 2_500 - 1_000) * MS;
    assert_eq!(findings.after_deafness, Extreme { checked: 1, worst_us, broken: 0 });
    let closed = vec![session(1_000, Some((10_000, Ending::Closed)))];
    let mut ended = round(closed, &[(3_000, Online), (15_000, Offline)]);
    ended.faults = vec![Fault { kind: FaultKind::GatewayKill, ..stop(10_100, 30_000) }];
    let (promises, findings) = judged(&ended);
    assert_eq!(promises, []);
    assert_eq!(findings.untold, Extreme { checked: 1, worst_us: 4_900 * MS, broken: 0 });
}

#[test]
fn what_nobody_watched_is_not_judged() {
    let sessions = vec![session(1_000, Some((10_000, Ending::Bye)))];
    assert_eq!(broken(sessions, &[(3_000, Online), (9_000, Sight::Unwatched)]), []);
}

#[test]
fn a_fault_excuses_lateness() {
    let mut round = round(
        vec![session(1_000, Some((10_000, Ending::Bye)))],
        &[(2_000, Online), (21_000, Offline)],
    );
    let from = Moment::at(9_000 * MS);
    let healed = Some(20_000 * MS);
    round.faults = vec![Fault { kind: FaultKind::RedisPause, place: None, from, healed }];
    let (broken, findings) = judged(&round);
    assert_eq!(broken, []);
    assert_eq!(findings.after_faults.worst_us, 1_000 * MS);
    assert!(findings.latest.is_empty());
}

#[test]
fn what_a_hung_primary_lost_may_have_to_expire_when_it_is_awake() {
    for (told, promises) in [(31_000, vec![]), (31_001, vec![Promise::LateOffline])] {
        let mut round = round(
            vec![session(1_000, Some((10_000, Ending::Bye)))],
            &[(2_000, Online), (told, Offline)],
        );
        round.faults =
            vec![Fault { kind: FaultKind::ClusterHang, place: None, ..stop(9_000, 20_000) }];
        let (broken, findings) = judged(&round);
        assert_eq!(broken, promises);
        assert_eq!(findings.after_hangs.worst_us, (told - 20_000) * MS);
    }
}

#[test]
fn what_this_tool_read_late_is_not_held_against_anybody() {
    let told = [(2_000, Online), (11_900, Offline)];
    let round = round(vec![session(1_000, Some((10_000, Ending::Bye)))], &told);
    assert_eq!(judged(&round).0, [Promise::LateOffline]);
    let mut lag = Lag::default();
    lag.note(10_800 * MS, 11_850 * MS);
    let findings = judge(&RULES, &lag, &round);
    assert_eq!(findings.violations, []);
    assert_eq!(findings.widened, Widened { verdicts: 1, most_us: 900 * MS, too_far: 0 });
    assert!(findings.latest.is_empty(), "no row has its figure");
}

#[test]
fn what_is_late_by_more_than_the_shortest_bound_is_not_excused_but_not_judged() {
    let gone = vec![session(1_000, Some((10_000, Ending::Bye)))];
    let mut lag = Lag::default();
    lag.note(10_800 * MS, 12_400 * MS);
    for (told, too_far) in [(12_000, 0), (12_001, 1)] {
        let round = round(gone.clone(), &[(2_000, Online), (told, Offline)]);
        let widened = judge(&RULES, &lag, &round).widened;
        assert_eq!((widened.verdicts, widened.too_far), (1, too_far), "told at {told}");
    }
}

#[test]
fn what_is_too_early_by_less_than_this_tool_was_late_is_counted_as_excused() {
    let sessions = vec![session(1_000, Some((10_000, Ending::Closed)))];
    let round = round(sessions, &[(1_900, Online), (2_100, Offline), (2_150, Online)]);
    assert_eq!(judged(&round).0, [Promise::EarlyOffline, Promise::Ghost]);
    let mut lag = Lag::default();
    lag.note(1_900 * MS, 2_100 * MS);
    let findings = judge(&RULES, &lag, &round);
    assert_eq!(findings.widened.verdicts, 1);
    assert_eq!(findings.widened.most_us, 90 * MS);
}

#[test]
fn a_watcher_that_did_not_read_is_told_what_was_true_meanwhile() {
    let sessions = vec![session(1_000, Some((10_000, Ending::Bye))), session(11_500, None)];
    let mut round = round(sessions, &[(2_000, Online), (13_000, Offline), (13_000, Online)]);
    assert!(!judged(&round).0.is_empty());
    round.watchers[0].stalls = vec![Span { start: 9_900 * MS, end: 12_990 * MS }];
    assert_eq!(judged(&round).0, []);
}

#[test]
fn a_socket_that_a_gateway_closes_needs_a_reason() {
    let cut = |code| vec![session(1_000, Some((10_000, Ending::Cut(code))))];
    assert_eq!(broken(cut(Some(4005)), &[]), [Promise::SocketLost]);
    assert_eq!(broken(cut(None), &[]), [Promise::SocketLost]);
    let mut drained = round(cut(Some(1012)), &[]);
    let from = Moment::at(9_000 * MS);
    let (kind, healed) = (FaultKind::GatewayRestart, Some(12_000 * MS));
    drained.faults = vec![Fault { kind, place: Some(0), from, healed }];
    assert_eq!(judged(&drained).0, []);
}

fn state(version: u64, show: Option<Show>, text: Option<&str>, devices: &[&str]) -> UserState {
    UserState {
        user: crate::verify::world::user_id(BO),
        state: Availability::Online,
        version,
        since: None,
        show,
        text: text.map(|text| StatusText::new(text).unwrap()),
        devices: devices.iter().map(|label| Device::new(label).unwrap()).collect(),
    }
}

#[test]
fn a_version_that_goes_backwards_is_found_and_not_taken_over() {
    let mut told = Told::default();
    told.watch(0, &[BO]);
    told.hear(1, BO, state(5, None, None, &[]));
    told.hear(2, BO, state(4, Some(Show::Away), None, &[]));
    assert_eq!(told.view[&BO].as_ref().unwrap().version, 5);
    let (seen, backward) = told.take(3);
    assert_eq!((seen.len(), backward.len()), (1, 1));
    let mut round = round(vec![session(0, None)], &[]);
    round.watchers[0].backward = backward;
    assert_eq!(judged(&round).0, [Promise::Backward]);
}

#[test]
fn the_look_of_a_user_is_what_its_living_sessions_amount_to() {
    let status = |at: u64, show| {
        Some(SetStatus { set: Moment::at(at * MS), show, text: "mood 1".to_owned() })
    };
    let mut phone = session(0, None);
    (phone.device, phone.status) = (Some("ios"), status(9_000, Show::Away));
    let mut laptop = session(0, None);
    (laptop.device, laptop.status) = (Some("web"), status(5_000, Show::Busy));
    let mut gone = session(0, Some((20_000, Ending::Closed)));
    (gone.device, gone.status) = (Some("tv"), status(15_000, Show::Online));
    let look = Look::of(&[phone.clone(), laptop.clone(), gone], &[]).unwrap();
    let right = state(1, Some(Show::Away), Some("mood 1"), &["ios", "web"]);
    assert_eq!(look.mismatch(&right), None);
    for wrong in [
        state(1, Some(Show::Busy), Some("mood 1"), &["ios", "web"]),
        state(1, Some(Show::Away), None, &["ios", "web"]),
        state(1, Some(Show::Away), Some("mood 1"), &["ios"]),
        UserState { state: Availability::Offline, ..right },
    ] {
        assert!(look.mismatch(&wrong).is_some(), "{wrong:?}");
    }
    let sessions = [phone.clone(), laptop.clone()];
    let stopped = Fault {
        kind: FaultKind::GatewayPause,
        place: Some(laptop.place),
        from: Moment::at(4_900 * MS),
        healed: Some(10_000 * MS),
    };
    let look = Look::of(&sessions, &[stopped]).unwrap();
    assert_eq!(look.status, None, "both waited in the gateway");
    laptop.status = status(8_900, Show::Busy);
    assert_eq!(Look::of(&[phone, laptop], &[]).unwrap().status, None);
}

#[test]
fn it_is_not_quiet_before_the_last_of_several_sessions_is_known_to_have_ended() {
    let sessions = vec![session(1_000, Some((10_000, Ending::Frozen))), session(2_000, None)];
    assert_eq!(round(sessions, &[]).last_deadline(&RULES), 15_500 * MS);
}
