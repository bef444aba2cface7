//! Whether the numbers of a scenario go together; each refusal says what would be right.

use std::time::Duration;

use anyhow::{Result, ensure};
use presence_protocol::USER_ID_LEN_MAX;

use crate::scenario::{Gap, Model, Phase, Rate, Scenario, Time};

/// The gateway's limit is 64 KiB; a watch list goes out in one message.
pub(crate) const WATCH_MESSAGE_LEN_MAX: usize = 60_000;

const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Times are kept in 41 bits of µs, which is 25 days.
pub(crate) const DURATION_MAX: Duration = Duration::from_hours(14 * 24);

/// A browser, a phone, a tablet, and so on.
const DEVICES_MAX: u32 = 100;

/// More than any deployment has gateways.
const RESTARTS_MAX: u32 = 1_000;

/// A second.
const RATE_MAX: f64 = 1_000_000.0;

impl Scenario {
    /// Refuses what cannot be done by anybody.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.users > 0, "users: at least 1, or a file of them: people (--people)");
        let devices = self.devices;
        ensure!((1..=DEVICES_MAX).contains(&devices), "devices: 1 to {DEVICES_MAX}");
        let connections = self.connections();
        let most = u64::from(u32::MAX);
        ensure!(connections <= most, "users: {connections} connections are more than {most}");
        ensure!(!self.user_prefix.is_empty(), "user_prefix (--users): at least one letter");
        let user_len = self.user_name(self.users - 1).len();
        ensure!(
            user_len <= USER_ID_LEN_MAX,
            "user_prefix: a user id is at most {USER_ID_LEN_MAX} bytes, and the last one's has \
             {user_len}"
        );
        ensure!(
            (INTERVAL_MIN..=DURATION_MAX).contains(&self.heartbeat.interval.0),
            "heartbeat.interval (--heartbeat): 100ms to 14 days"
        );
        if let Some(back_off) = self.reconnect {
            ensure!(back_off.most().0 <= DURATION_MAX, "reconnect: at most 14 days");
        }
        self.check_contacts(user_len)?;
        self.check_phases()
    }

    fn check_contacts(&self, user_len: usize) -> Result<()> {
        let others = self.users - 1;
        let fit = WATCH_MESSAGE_LEN_MAX / (user_len + 3);
        let most = self.contacts.watched_max();
        let key = match self.contacts {
            Model::PowerLaw { mean, max, exponent } => {
                ensure!(
                    exponent > 1.0 && exponent <= 10.0,
                    "contacts.exponent: above 1 and up to 10, such as 2.5, not {exponent}"
                );
                ensure!(
                    mean > 0.0 && mean < f64::from(max),
                    "contacts.mean: above 0 and below max, which is {max}, not {mean}"
                );
                "contacts.max"
            }
            Model::Listed { .. } => {
                ensure!(
                    self.people.is_some(),
                    "contacts.model: listed is for those of a file of users: people (--people)"
                );
                // Where the file was read, each list was checked.
                return Ok(());
            }
            _ => "contacts.count (--watch)",
        };
        ensure!(
            most <= others,
            "{key}: {most} are too many, since each of {} users has {others} others to watch: use \
             {others} or fewer, or more users",
            self.users
        );
        ensure!(
            most as usize <= fit,
            "{key}: {most} are too many, at most {fit} users with ids as long as these fit in one \
             message"
        );
        Ok(())
    }

    fn check_phases(&self) -> Result<()> {
        let first = self.phases.first();
        ensure!(
            matches!(first, Some(Phase::Ramp { .. })),
            "phases: the first one is a ramp, since it opens the connections"
        );
        for (place, phase) in self.phases.iter().enumerate() {
            let name = format!("phases[{place}] ({})", phase.name());
            match *phase {
                Phase::Ramp { rate } => {
                    ensure!(place == 0, "{name}: only the first is a ramp");
                    check_rate(&format!("{name}.rate (--rate)"), rate.most())?;
                }
                Phase::Storm { share, within, duration } => {
                    ensure!(
                        share > 0.0 && share <= 1.0,
                        "{name}.share: above 0 and up to 1, not {share}"
                    );
                    check_within(&name, within, duration)?;
                }
                Phase::Silent { count, within, duration } => {
                    let connections = self.connections();
                    ensure!(
                        u64::from(count) <= connections,
                        "{name}.count: at most the {connections} connections there are"
                    );
                    check_within(&name, within, duration)?;
                }
                Phase::Restart { count, .. } => {
                    ensure!(
                        self.reconnect.is_some(),
                        "{name}: needs reconnect = \"500ms..10s\", or nobody would come back"
                    );
                    ensure!(
                        count <= RESTARTS_MAX,
                        "{name}.count: at most {RESTARTS_MAX}, not {count}"
                    );
                }
                Phase::Churn { rate, gap, duration } | Phase::SignOut { rate, gap, duration } => {
                    self.check_leaving(&name, rate, "gap", gap, duration)?;
                }
                Phase::Flaky { rate, freeze, duration } => {
                    self.check_leaving(&name, rate, "freeze", freeze, duration)?;
                }
                Phase::Hold { .. } => {}
            }
        }
        let total = self.timeline().end_us();
        ensure!(
            Duration::from_micros(total) <= DURATION_MAX,
            "phases: all together at most 14 days, not {}",
            Time(Duration::from_micros(total))
        );
        Ok(())
    }

    /// Of those connected some must always be left to leave, or to freeze.
    fn check_leaving(
        &self,
        name: &str,
        rate: Rate,
        key: &str,
        away: Gap,
        duration: Time,
    ) -> Result<()> {
        check_rate(&format!("{name}.rate"), rate)?;
        let longest = away.most();
        ensure!(longest.0 <= DURATION_MAX, "{name}.{key}: at most 14 days, not {longest}");
        let at_once = rate.per_second() * longest.min(duration).0.as_secs_f64();
        let most = self.connections() as f64 / 2.0;
        ensure!(
            at_once <= most,
            "{name}: at {rate}, each away for up to {longest}, {at_once:.0} connections would be \
             away at once: at most {most:.0}, half of all, so use a lower rate or a shorter {key}"
        );
        Ok(())
    }
}

fn check_rate(key: &str, rate: Rate) -> Result<()> {
    ensure!(
        rate.per_second() <= RATE_MAX,
        "{key}: at most {RATE_MAX}/s, since no tester can do more, not {rate}"
    );
    Ok(())
}

fn check_within(name: &str, within: Time, duration: Time) -> Result<()> {
    ensure!(within <= duration, "{name}.within: at most the duration, which is {duration}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Heartbeat, Notation};

    use super::*;

    fn scenario() -> Scenario {
        Scenario {
            name: "test".to_owned(),
            users: 100,
            devices: 1,
            seed: 1,
            user_prefix: "load".to_owned(),
            format: Notation::Msgpack,
            heartbeat: Heartbeat::default(),
            contacts: Model::Fixed { count: 20 },
            people: None,
            reconnect: None,
            phases: vec![
                Phase::Ramp { rate: "10/s".parse().unwrap() },
                Phase::Hold { duration: Time::from_secs(5) },
            ],
        }
    }

    fn refused(named: &str, change: impl FnOnce(&mut Scenario)) {
        let mut scenario = scenario();
        change(&mut scenario);
        let refusal = format!("{:#}", scenario.check().unwrap_err());
        assert!(refusal.contains(named), "{refusal}");
    }

    #[test]
    fn what_can_be_done_is_not_refused() {
        scenario().check().unwrap();
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_key_named() {
        refused("users", |scenario| scenario.users = 0);
        refused("devices", |scenario| scenario.devices = 0);
        refused("user_prefix", |scenario| scenario.user_prefix = "x".repeat(128));
        refused("contacts.count", |scenario| scenario.contacts = Model::Fixed { count: 100 });
        refused("fit in one message", |scenario| {
            scenario.users = 100_000;
            scenario.contacts = Model::Fixed { count: 9_000 };
        });
        refused("contacts.mean", |scenario| {
            scenario.contacts = Model::PowerLaw { mean: 90.0, max: 80, exponent: 2.5 };
        });
        refused("heartbeat.interval", |scenario| {
            scenario.heartbeat.interval = Time(Duration::from_millis(1));
        });
        refused("the first one is a ramp", |scenario| scenario.phases.clear());
        refused("phases[2] (ramp)", |scenario| {
            scenario.phases.push(Phase::Ramp { rate: "1/s".parse().unwrap() });
        });
        let time = Time::from_secs;
        refused("phases[2] (storm).share", |scenario| {
            let storm = Phase::Storm { share: 1.5, within: time(1), duration: time(2) };
            scenario.phases.push(storm);
        });
        refused("phases[2] (silent).within", |scenario| {
            let silent = Phase::Silent { count: 1, within: time(3), duration: time(2) };
            scenario.phases.push(silent);
        });
        refused("heartbeat.interval", |scenario| scenario.heartbeat.interval = time(u64::MAX));
        refused("reconnect: at most 14 days", |scenario| {
            scenario.reconnect = Some("1s..1year".parse().unwrap());
        });
        refused("phases[0] (ramp).rate (--rate): at most 1000000/s", |scenario| {
            scenario.phases[0] = Phase::Ramp { rate: "1/s..1e18/s".parse().unwrap() };
        });
        refused("phases[2] (restart).count: at most 1000", |scenario| {
            scenario.reconnect = Some("1s..2s".parse().unwrap());
            scenario.phases.push(Phase::Restart { count: 4_000_000_000, duration: time(9) });
        });
    }

    #[test]
    fn who_is_away_at_once_must_be_half_of_all_at_most() {
        let duration = Time::from_secs(60);
        let phases = |rate: &str, gap: &str| {
            let (rate, gap): (Rate, Gap) = (rate.parse().unwrap(), gap.parse().unwrap());
            [
                Phase::Churn { rate, gap, duration },
                Phase::SignOut { rate, gap, duration },
                Phase::Flaky { rate, freeze: gap, duration },
            ]
        };
        for (rate, gap, named) in [
            ("1e18/s", "0s", ".rate: at most 1000000/s"),
            ("1/s", "1s..1year", "at most 14 days"),
            ("6/s", "1s..10s", "60 connections would be away at once: at most 50"),
        ] {
            for phase in phases(rate, gap) {
                refused(named, |scenario| scenario.phases.push(phase));
            }
        }
        // More than the phase lasts nobody can leave.
        for (rate, gap) in [("5/s", "1s..10s"), ("0.5/s", "1h")] {
            for phase in phases(rate, gap) {
                let mut scenario = scenario();
                scenario.phases.push(phase);
                scenario.check().unwrap();
            }
        }
    }
}
