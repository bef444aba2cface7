//! A user's view: what others may see of a user, how it is compared, and the one-line text form in which Redis keeps it.

use std::fmt::Write as _;

use presence_protocol::{Availability, Device, Show, StatusText, UserId, UserState};

/// How a session wants its user shown (the wire's `show`).
pub type Shown = Show;

/// What others may see of a user. An invisible user's view is the one it had when it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Grows with every visible change: µs since the Unix epoch by the store's clock, never below the previous one.
    /// Of a user who was never seen, since when the store remembers.
    pub version: u64,
    /// Online while any session lives that does not ask to be invisible.
    pub state: Availability,
    /// When this state began, in ms since the Unix epoch; for offline the last heartbeat. None when never seen.
    pub since: Option<u64>,
    /// `away` or `busy`; none means plainly online, or offline.
    pub show: Option<Show>,
    /// The distinct device labels of the living sessions, sorted.
    pub devices: Vec<Device>,
    /// The gateways that hold the user's sessions. Never told to clients.
    pub gateways: Vec<String>,
    /// The free text of the status.
    pub text: Option<StatusText>,
}

impl View {
    /// The view of a user of whom there is no trace: never seen, so long as the store remembers. Its version is the
    /// moment since when it does, which the store fills in.
    pub const NO_TRACE: Self = Self {
        version: 0,
        state: Availability::Offline,
        since: None,
        show: None,
        devices: Vec::new(),
        gateways: Vec::new(),
        text: None,
    };

    /// Whether a watcher could tell the two apart by anything but their version and age.
    pub fn looks_like(&self, other: &Self) -> bool {
        self.state == other.state
            && self.show == other.show
            && self.devices == other.devices
            && self.text == other.text
    }

    /// Whether the store has no trace of the user. Who was ever online has a `since`.
    pub fn is_no_trace(&self) -> bool {
        !self.is_online() && self.since.is_none()
    }

    /// Whether the user has a session on this gateway, seen or not.
    pub fn is_on(&self, gateway: &str) -> bool {
        self.gateways.iter().any(|on| on == gateway)
    }

    /// Whether the user is online in this view.
    pub fn is_online(&self) -> bool {
        self.state == Availability::Online
    }

    /// The view as a client is told it.
    pub fn to_state(&self, user: UserId) -> UserState {
        UserState {
            user,
            state: self.state,
            version: self.version,
            since: self.since,
            show: self.show,
            text: self.text.clone(),
            devices: self.devices.clone(),
        }
    }

    /// The text form: `version state since show devices gateways text`, where `.` stands for nothing and the text,
    /// which may hold blanks, ends the line. Example: `1732900000000000 online 1732900000000 away ios,web g7 at lunch`.
    pub fn to_line(&self) -> String {
        let mut line = String::with_capacity(64);
        let state = if self.is_online() { "online" } else { "offline" };
        let _ = write!(line, "{} {state} ", self.version);
        match self.since {
            Some(since) => drop(write!(line, "{since}")),
            None => line.push('.'),
        }
        line.push(' ');
        line.push_str(self.show.map_or(".", Show::as_str));
        line.push(' ');
        push_list(&mut line, self.devices.iter().map(Device::as_str));
        line.push(' ');
        push_list(&mut line, self.gateways.iter().map(String::as_str));
        line.push(' ');
        line.push_str(self.text.as_ref().map_or("", StatusText::as_str));
        line
    }

    /// Reads the text form; None when it is not one.
    pub fn parse_line(line: &str) -> Option<Self> {
        let mut fields = line.splitn(7, ' ');
        let mut next = || fields.next();
        Some(Self {
            version: next()?.parse().ok()?,
            state: match next()? {
                "online" => Availability::Online,
                "offline" => Availability::Offline,
                _ => return None,
            },
            since: match next()? {
                "." => None,
                since => Some(since.parse().ok()?),
            },
            show: match next()? {
                "." => None,
                show => Some(Show::parse(show)?),
            },
            devices: list(next()?).map(Device::new).collect::<Result<_, _>>().ok()?,
            gateways: list(next()?).map(str::to_owned).collect(),
            text: match next()? {
                "" => None,
                text => Some(StatusText::new(text).ok()?),
            },
        })
    }
}

fn push_list<'a>(line: &mut String, items: impl Iterator<Item = &'a str>) {
    let start = line.len();
    for item in items {
        if line.len() > start {
            line.push(',');
        }
        line.push_str(item);
    }
    if line.len() == start {
        line.push('.');
    }
}

fn list(field: &str) -> impl Iterator<Item = &str> {
    field.split(',').filter(|item| *item != ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_the_view_said() {
        let full = View {
            version: 1_732_900_000_000_000,
            state: Availability::Online,
            since: Some(1_732_900_000_000),
            show: Some(Show::Away),
            devices: vec![Device::new("-").unwrap(), Device::new("web").unwrap()],
            gateways: vec!["g7".to_owned()],
            text: Some(StatusText::new("at lunch . back soon").unwrap()),
        };
        for view in [full, View::NO_TRACE] {
            assert_eq!(View::parse_line(&view.to_line()), Some(view));
        }
    }

    #[test]
    fn what_is_not_a_line_is_none() {
        for line in
            ["", "1 online", "x online . . . . ", "1 asleep . . . . ", "1 online . . A,B . "]
        {
            assert_eq!(View::parse_line(line), None, "{line}");
        }
    }
}
