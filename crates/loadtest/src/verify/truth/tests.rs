//! The promised times, one by one. Times are in ms here.

use super::*;
use crate::verify::record::{Ending, Moment};

const MS: Us = 1000;
const RULES: Rules = Rules { heartbeat: 1000 * MS, ttl: 4000 * MS, grace: 1000 * MS };

/// A session at the first gateway, welcomed 10 ms after its hello, whose last sign of life was
/// 500 ms before its end.
fn session(hello: u64, end: Option<(u64, Ending)>) -> Facts {
    let mut facts = Facts::new(7, 0, None, hello * MS);
    facts.welcome = Some((hello + 10) * MS);
    if let Some((at, ending)) = end {
        facts.beat(Moment::at((at - 500) * MS), Us::MAX);
        facts.end = Some((Moment::at(at * MS), ending));
    }
    facts
}

fn at_place(mut facts: Facts, place: Place) -> Facts {
    facts.place = place;
    facts
}

fn fault(kind: FaultKind, place: Option<Place>, from: u64, healed: u64) -> Fault {
    Fault { kind, place, from: Moment::at(from * MS), healed: Some(healed * MS) }
}

fn timeline(sessions: &[Facts], faults: &[Fault]) -> Timeline {
    RULES.timeline(&sessions.iter().collect::<Vec<_>>(), faults, 1)
}

/// Until when the user may not be shown offline, and from when not online, in ms.
fn window(sessions: &[Facts], faults: &[Fault]) -> (u64, u64) {
    let timeline = timeline(sessions, faults);
    let last = timeline.absent.last().expect("the user is gone in the end");
    let present = timeline.present.last().expect("the user was there");
    (present.span.end / MS, last.span.start / MS)
}

#[test]
fn each_ending_has_its_window() {
    let kill = [fault(FaultKind::GatewayKill, Some(0), 10_000, 20_000)];
    let table: [(Ending, &[Fault], (u64, u64)); 6] = [
        (Ending::Bye, &[], (10_000, 11_000)),
        (Ending::Closed, &[], (11_000, 12_000)),
        (Ending::Frozen, &[], (13_500, 15_500)),
        (Ending::Cut(Some(4004)), &[], (13_500, 15_500)),
        (Ending::Cut(None), &kill, (13_500, 16_000)),
        // Only the sign of life before the last one, the hello, surely came before the close.
        (Ending::Cut(Some(1012)), &[], (4_000, 16_000)),
    ];
    for (ending, faults, expected) in table {
        let found = window(&[session(0, Some((10_000, ending)))], faults);
        assert_eq!(found, expected, "{ending:?}");
    }
}

#[test]
fn online_is_due_a_second_after_the_welcome_and_absence_ends_with_the_hello() {
    let timeline = timeline(&[session(5_000, None)], &[]);
    assert_eq!(timeline.present.len(), 1);
    assert_eq!(timeline.present[0].span, Span { start: 6_010 * MS, end: Us::MAX });
    assert_eq!(timeline.absent.len(), 1);
    assert_eq!(timeline.absent[0].span, Span { start: 0, end: 5_000 * MS });
}

#[test]
fn a_return_in_time_continues_and_a_late_one_does_not() {
    let left = session(0, Some((10_000, Ending::Closed)));
    let back = |hello| at_place(session(hello, None), 1);
    let in_time = timeline(&[left.clone(), back(10_600)], &[]);
    assert_eq!(in_time.present.len(), 1);
    let loss = Loss { left: 10_000 * MS, latest: 12_000 * MS, back: Some(10_610 * MS) };
    assert_eq!(in_time.losses, [loss]);
    let at_the_edge = timeline(&[left.clone(), back(10_800)], &[]);
    assert_eq!(at_the_edge.present.len(), 2);
    assert_eq!(at_the_edge.losses, [Loss { back: None, ..loss }]);
    let late = timeline(&[left, back(13_000)], &[]);
    assert_eq!(late.present.len(), 2);
    assert_eq!(late.absent.last().map(|absent| absent.span.start), Some(12_000 * MS));
}

#[test]
fn one_session_of_several_changes_nothing() {
    let sessions = [session(0, Some((10_000, Ending::Bye))), session(2_000, None)];
    let timeline = timeline(&sessions, &[]);
    assert_eq!(timeline.present.len(), 1);
    assert_eq!(timeline.present[0].span.end, Us::MAX);
    assert!(timeline.losses.is_empty());
}

#[test]
fn a_bye_ends_what_is_held_back_of_earlier_sessions() {
    let sessions =
        [session(0, Some((10_000, Ending::Closed))), session(2_000, Some((10_300, Ending::Bye)))];
    assert_eq!(window(&sessions, &[]), (10_300, 12_000));
}

#[test]
fn a_bye_to_a_stopped_gateway_ends_them_when_it_goes_on() {
    let signed_out = session(0, Some((10_000, Ending::Bye)));
    let closed = at_place(session(2_000, Some((10_500, Ending::Closed))), 1);
    let sessions = [signed_out, closed];
    let stop = fault(FaultKind::GatewayPause, Some(0), 9_000, 11_000);
    assert_eq!(window(&sessions, &[]).0, 11_500);
    assert_eq!(window(&sessions, &[stop]).0, 10_000);
    // It goes on a moment before, and has more to do.
    let stop = |until| [fault(FaultKind::GatewayPause, Some(0), 8_000, until)];
    assert_eq!(window(&sessions, &stop(9_600)).0, 10_000);
    assert_eq!(window(&sessions, &stop(9_400)).0, 11_500);
}

#[test]
fn whoever_comes_back_to_a_gateway_that_is_stopped_at_once_may_be_shown_offline_meanwhile() {
    let left = session(0, Some((10_000, Ending::Closed)));
    let back = at_place(session(10_100, None), 2);
    let stop = fault(FaultKind::GatewayPause, Some(2), 10_112, 14_000);
    assert_eq!(timeline(&[left.clone(), back.clone()], &[]).present.len(), 1);
    let present = timeline(&[left, back], &[stop]).present;
    assert_eq!(present.len(), 2, "{present:?}");
    assert_eq!(present[0].span.end, 11_000 * MS);
    assert!(present[1].span.start >= 14_000 * MS);
}

#[test]
fn whoever_comes_and_goes_before_anybody_must_be_told_need_not_be_shown() {
    let brief = session(5_000, Some((5_600, Ending::Closed)));
    assert_eq!(timeline(&[brief], &[]).present, []);
    let longer = session(5_000, Some((6_100, Ending::Closed)));
    assert_eq!(timeline(&[longer], &[]).present.len(), 1);
    // But it makes the grace of the one before longer.
    let left = session(0, Some((10_000, Ending::Closed)));
    let back = at_place(session(10_500, Some((10_520, Ending::Closed))), 1);
    assert_eq!(window(&[left, back], &[]).0, 11_520);
}

#[test]
fn who_comes_back_after_a_drain_leaves_no_place_behind() {
    let mut sent_away = session(0, Some((10_000, Ending::Cut(Some(1012)))));
    sent_away.beat_before = 9_000 * MS;
    assert_eq!(window(&[sent_away.clone()], &[]).0, 13_000);
    let back = at_place(session(10_500, Some((11_000, Ending::Closed))), 1);
    let timeline = timeline(&[sent_away, back], &[]);
    assert_eq!(timeline.present.len(), 1, "the return continues the session before the drain");
    assert_eq!(timeline.present[0].span.end, 12_000 * MS, "and its grace is the only one");
}

#[test]
fn who_reads_late_of_a_drain_was_sent_away_before_the_gateway_ended() {
    let mut sent_away = session(0, Some((14_000, Ending::Cut(Some(1012)))));
    sent_away.beat_before = 13_000 * MS;
    let drain = fault(FaultKind::GatewayRestart, Some(0), 10_000, 12_000);
    let restart = fault(FaultKind::RedisKill, None, 11_000, 11_500);
    assert_eq!(window(&[sent_away], &[drain, restart]).0, 12_000, "its place is forgotten");
}

#[test]
fn faults_excuse_lateness_and_never_earliness() {
    let closed = [session(0, Some((10_000, Ending::Closed)))];
    let table = [
        (fault(FaultKind::RedisPause, None, 9_000, 30_000), 36_000),
        (fault(FaultKind::SubscriberKill, None, 10_500, 10_500), 16_500),
        (fault(FaultKind::ClusterHang, None, 9_000, 19_000), 30_000),
        (fault(FaultKind::GatewayPause, Some(0), 9_000, 12_000), 18_000),
        // The watcher's.
        (fault(FaultKind::GatewayPause, Some(1), 9_000, 12_000), 18_000),
        // Somebody else's.
        (fault(FaultKind::GatewayPause, Some(2), 9_000, 12_000), 12_000),
        // It began when all was told, or was over before.
        (fault(FaultKind::RedisPause, None, 12_001, 30_000), 12_000),
        (fault(FaultKind::RedisPause, None, 1_000, 2_000), 12_000),
        // What was not told yet died with the gateway.
        (fault(FaultKind::GatewayKill, Some(0), 10_100, 20_000), 16_100),
        (fault(FaultKind::GatewayKill, Some(2), 10_100, 20_000), 12_000),
    ];
    for (fault, latest) in table {
        assert_eq!(window(&closed, &[fault]), (11_000, latest), "{fault:?}");
    }
}

#[test]
fn online_is_late_with_good_reason_when_redis_is_away() {
    let away = [fault(FaultKind::RedisKill, None, 4_500, 7_000)];
    let timeline = timeline(&[session(5_000, None)], &away);
    assert_eq!(timeline.present[0].span.start, 13_000 * MS);
    assert!(timeline.present[0].excused);
}

#[test]
fn a_gateway_stopped_for_its_ttl_may_be_taken_for_dead_and_must_be_found_alive() {
    let living = [session(0, None)];
    let short = timeline(&living, &[fault(FaultKind::GatewayPause, Some(0), 10_000, 12_500)]);
    assert_eq!(short.present.len(), 1);
    let long = timeline(&living, &[fault(FaultKind::GatewayPause, Some(0), 10_000, 15_000)]);
    let spans: Vec<Span> = long.present.iter().map(|presence| presence.span).collect();
    assert_eq!(spans[0].end, 13_000 * MS);
    assert_eq!(spans[1].end, Us::MAX);
    assert!(spans[1].start >= 21_000 * MS);
}

#[test]
fn a_stopped_gateway_notices_silence_later_by_as_long_and_what_it_works_off() {
    let frozen = [session(0, Some((10_000, Ending::Frozen)))];
    let pause = [fault(FaultKind::GatewayPause, Some(0), 10_000, 12_500)];
    assert_eq!(window(&frozen, &pause), (13_500, 19_000));
    let long_ttl = Rules { ttl: 30_000 * MS, ..RULES };
    let timeline = long_ttl.timeline(&[&frozen[0]], &pause, 1);
    let gone = timeline.absent.last().map(|a| a.span.start);
    assert_eq!(gone, Some((9_500 + 2_500 + 1_000 + 32_000) * MS));
}

#[test]
fn a_gateway_that_is_stopped_before_it_has_told_an_empty_redis_all_leaves_it_open() {
    let living = [session(0, None)];
    let pause = fault(FaultKind::GatewayPause, Some(0), 10_000, 11_000);
    for (back, present) in [(7_900, 1), (8_100, 2), (10_000, 2), (10_100, 1)] {
        let faults = [fault(FaultKind::RedisKill, None, 6_000, back), pause];
        let spans = timeline(&living, &faults).present;
        assert_eq!(spans.len(), present, "Redis was back at {back}: {spans:?}");
    }
}

#[test]
fn a_session_that_nobody_was_told_of_dies_with_its_gateway() {
    let kill = [fault(FaultKind::GatewayKill, Some(0), 5_100, 9_000)];
    let young = timeline(&[session(5_000, Some((5_600, Ending::Cut(None))))], &kill);
    assert!(young.present.is_empty());
}

#[test]
fn what_a_dead_gateway_left_behind_may_be_lost_with_redis() {
    let sessions = [session(0, Some((10_000, Ending::Cut(None))))];
    let faults = [
        fault(FaultKind::GatewayKill, Some(0), 10_000, 20_000),
        fault(FaultKind::RedisKill, None, 11_000, 12_000),
    ];
    assert_eq!(window(&sessions, &faults), (11_000, 18_000));
    // It died while Redis was away, and could not tell it again.
    let faults = [
        fault(FaultKind::RedisKill, None, 9_500, 12_000),
        fault(FaultKind::GatewayKill, Some(0), 10_000, 20_000),
    ];
    assert_eq!(window(&sessions, &faults), (10_000, 18_000));
    let frozen = [session(0, Some((9_800, Ending::Frozen)))];
    assert_eq!(window(&frozen, &faults).0, 9_500);
    // Redis was back, and it died before it had to have told it everything.
    for (kind, away, back, not_before) in [
        (FaultKind::RedisKill, 4_000, 9_000, 10_000),
        (FaultKind::RedisKill, 4_000, 4_900, 13_500),
        (FaultKind::RedisPause, 4_000, 9_000, 10_000),
        (FaultKind::RedisPause, 8_000, 9_000, 13_500),
        (FaultKind::ClusterHang, 4_000, 9_000, 10_000),
    ] {
        let faults =
            [fault(kind, None, away, back), fault(FaultKind::GatewayKill, Some(0), 10_000, 20_000)];
        assert_eq!(window(&sessions, &faults).0, not_before, "{kind:?} until {back}");
    }
}

#[test]
fn a_long_silence_leaves_it_open_until_all_know_better() {
    let mut facts = session(0, None);
    facts.silences.push(Span { start: 5_000 * MS, end: 10_000 * MS });
    let spans: Vec<Span> = timeline(&[facts], &[]).present.iter().map(|p| p.span).collect();
    assert_eq!(spans[0].end, 9_000 * MS);
    assert!(spans[1].start >= 16_000 * MS && spans[1].end == Us::MAX);
}

#[test]
fn a_sign_in_that_was_never_answered_may_count_or_not() {
    let mut facts = session(5_000, Some((7_000, Ending::Closed)));
    facts.welcome = None;
    let timeline = timeline(&[facts], &[]);
    assert!(timeline.present.is_empty());
    assert_eq!(timeline.absent[0].span, Span { start: 0, end: 5_000 * MS });
    assert_eq!(timeline.absent[1].span.start, 9_000 * MS);
}
