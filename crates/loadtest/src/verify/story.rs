//! The history of a user, told for a broken promise: what its sessions did, what broke meanwhile,
//! and what the watcher was told, in the order of time. Pure.

use crate::verify::args::name_of;
use crate::verify::judge::{Round, Violation, secs};
use crate::verify::record::{Ending, Facts, Sight, Us, User};

/// So much before and after the violation is told.
const AROUND: Us = 20_000_000;

/// The longest story, in lines.
const LINES_MAX: usize = 60;

/// The story of a violation, a line for each thing that happened.
pub(crate) fn tell(violation: &Violation, round: &Round) -> String {
    let mut lines: Vec<(Us, String)> = Vec::new();
    if let Some(user) = violation.user {
        for facts in round.sessions.get(&user).into_iter().flatten() {
            sessions(facts, &mut lines);
        }
        if let Some(number) = violation.watcher {
            watcher(round, number, user, &mut lines);
        }
    }
    for fault in &round.faults {
        let place = fault.place.map_or_else(String::new, |place| format!(" {}", place + 1));
        let name = name_of(&fault.kind);
        lines.push((fault.from.after, format!("fault     {name}{place}")));
        if let Some(healed) = fault.healed {
            lines.push((healed, format!("healed    {name}{place}")));
        }
    }
    lines.push((violation.at, format!("BROKEN    {}", violation.what)));
    lines.retain(|(at, _)| at.abs_diff(violation.at) <= AROUND);
    lines.sort_by_key(|(at, _)| *at);
    lines.truncate(LINES_MAX);
    let line = |(at, what): &(Us, String)| format!("    {:>12}  {what}\n", secs(*at));
    lines.iter().map(line).collect()
}

fn sessions(facts: &Facts, lines: &mut Vec<(Us, String)>) {
    let place = facts.place + 1;
    lines.push((facts.hello, format!("user      hello to gateway {place}")));
    if let Some(welcome) = facts.welcome {
        lines.push((welcome, format!("user      welcomed by gateway {place}")));
    }
    for silence in &facts.silences {
        lines.push((
            silence.start,
            format!("user      gives no sign of life until {}", secs(silence.end)),
        ));
    }
    if let Some(status) = &facts.status {
        let text = format!("user      status {} {:?}", status.show.as_str(), status.text);
        lines.push((status.set.after, text));
    }
    let Some((end, ending)) = facts.end else { return };
    lines.push((facts.beat.by, format!("user      last sign of life to gateway {place}")));
    let what = match ending {
        Ending::Bye => "says bye to".to_owned(),
        Ending::Closed => "closes its socket to".to_owned(),
        Ending::Frozen => "is frozen from now on before".to_owned(),
        Ending::Cut(Some(code)) => format!("is closed with {code} by"),
        Ending::Cut(None) => "loses its socket to".to_owned(),
    };
    lines.push((end.by, format!("user      {what} gateway {place}")));
}

fn watcher(round: &Round, number: usize, user: User, lines: &mut Vec<(Us, String)>) {
    let watcher = &round.watchers[number];
    let place = watcher.place + 1;
    for seen in watcher.seen.iter().filter(|seen| seen.user == user) {
        let what = match seen.what {
            Sight::Online => format!("is told online, version {}", seen.version),
            Sight::Offline => format!("is told offline, version {}", seen.version),
            Sight::Unwatched => "does not watch any more".to_owned(),
        };
        lines.push((
            seen.at,
            format!("watcher   (user {} on gateway {place}) {what}", watcher.user),
        ));
    }
}
