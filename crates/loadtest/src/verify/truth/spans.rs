//! What the departures of a user's sessions amount to. Pure.

use crate::verify::record::{Ending, Facts, Fault, Span, Us};
use crate::verify::truth::{Absence, Cause, Departure, Loss, RETURN_MARGIN, acted_on};

/// A `bye` also ends what is held back of sessions that ended before it.
pub(super) fn end_holds_by_bye(
    sessions: &[&Facts],
    departures: &mut [Option<Departure>],
    faults: &[Fault],
) {
    for signed_out in sessions {
        let Some((at, Ending::Bye)) = signed_out.end else { continue };
        let by = acted_on(faults, signed_out.place, at.by);
        for (facts, departure) in sessions.iter().zip(departures.iter_mut()) {
            let ended = facts.end.is_some_and(|(end, _)| end.after <= by);
            if let Some(departure) = departure.as_mut().filter(|_| ended) {
                departure.not_before = departure.not_before.min(at.after);
            }
        }
    }
}

/// Who was sent away, or has lost its gateway, and comes back takes its place again: whether anything else counts that was
/// left behind, is open.
pub(super) fn end_places_by_return(sessions: &[&Facts], departures: &mut [Option<Departure>]) {
    for (facts, departure) in sessions.iter().zip(departures.iter_mut()) {
        let (Some((end, _)), Some(departure)) = (facts.end, departure) else { continue };
        let after = |welcome: &Us| *welcome > end.after;
        let back = sessions.iter().filter_map(|other| other.welcome).filter(after).min();
        let left_behind = matches!(departure.cause, Cause::Drained | Cause::GatewayLost);
        if let Some(back) = back.filter(|_| left_behind) {
            departure.not_before = departure.not_before.min(back + RETURN_MARGIN);
        }
    }
}

/// Takes `[start, end)` out of the spans.
pub(super) fn cut(spans: &mut Vec<Span>, start: Us, end: Us) {
    let rest = |span: &Span| {
        [
            Span { start: span.start, end: span.end.min(start) },
            Span { start: span.start.max(end), end: span.end },
        ]
    };
    *spans = spans.iter().flat_map(rest).filter(|span| !span.is_empty()).collect();
}

/// The times in which no session can be taken for alive.
pub(super) fn absences(sessions: &[&Facts], departures: &[Option<Departure>]) -> Vec<Absence> {
    let mut possible: Vec<(Span, Option<Departure>)> = Vec::new();
    for (facts, departure) in sessions.iter().zip(departures) {
        let end = departure.map_or(Us::MAX, |departure| departure.latest);
        possible.push((Span { start: facts.hello, end }, *departure));
    }
    possible.sort_unstable_by_key(|(span, _)| span.start);
    let mut absences = Vec::new();
    let (mut gone, mut last) = (0, None);
    for (span, departure) in possible {
        if span.start > gone {
            absences.push(Absence { span: Span { start: gone, end: span.start }, after: last });
        }
        let began = |departure: Option<Departure>| departure.map(|departure| departure.from.by);
        if (span.end, began(departure)) > (gone, began(last)) {
            (gone, last) = (span.end, departure);
        }
    }
    if gone < Us::MAX {
        absences.push(Absence { span: Span { start: gone, end: Us::MAX }, after: last });
    }
    absences
}

/// When the user had no session left, and whether it came back in time.
pub(super) fn losses(sessions: &[&Facts], departures: &[Option<Departure>]) -> Vec<Loss> {
    let mut losses = Vec::new();
    for (facts, departure) in sessions.iter().zip(departures) {
        let (Some((end, _)), Some(departure)) = (facts.end, departure) else { continue };
        let lives_on = |other: &&Facts| {
            other.welcome.is_some_and(|welcome| welcome <= end.after)
                && other.end.is_none_or(|(other, _)| other.after > end.after)
        };
        if facts.welcome.is_some() && !sessions.iter().any(lives_on) {
            let back = sessions.iter().filter_map(|other| other.welcome);
            let back = back.filter(|welcome| *welcome > end.after).min();
            let in_time = |back: &Us| back + RETURN_MARGIN <= departure.not_before;
            let (left, latest) = (end.after, departure.latest);
            losses.push(Loss { left, latest, back: back.filter(in_time) });
        }
    }
    losses.sort_unstable_by_key(|loss| loss.left);
    losses
}
