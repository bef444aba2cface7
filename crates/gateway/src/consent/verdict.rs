//! What the app's backend says of one user and another.

use presence::Veils;
use presence_protocol::{INTEGER_MAX, UserId};
use serde::Deserialize;

/// Whether a user may watch another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Said")]
pub(crate) enum Verdict {
    Allowed,
    Refused,
    /// The other looks as if signed out at this time, in µs since the Unix epoch: nobody is told of a refusal.
    Veiled(u64),
}

/// As it is written.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Allowed(bool),
    SinceUs(u64),
}

/// The year 2001: a time that is earlier was meant in another unit.
const SINCE_US_MIN: u64 = 1_000_000_000_000_000;

impl TryFrom<Said> for Verdict {
    type Error = &'static str;

    fn try_from(said: Said) -> Result<Self, &'static str> {
        match said {
            Said::Allowed(true) => Ok(Self::Allowed),
            Said::Allowed(false) => Ok(Self::Refused),
            Said::SinceUs(1..SINCE_US_MIN) => Err("a time is in microseconds since 1970"),
            Said::SinceUs(since_us) => Ok(Self::Veiled(since_us.clamp(1, INTEGER_MAX))),
        }
    }
}

/// What verdicts on a list of users amount to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdicts {
    /// Who may be asked for, in the order of the list.
    pub(crate) users: Vec<UserId>,
    /// Those of them who are to look as if signed out.
    pub(crate) veils: Veils,
    pub(crate) refused: Vec<UserId>,
}

impl Verdicts {
    pub(crate) fn new(users: Vec<UserId>, verdicts: &[Verdict]) -> Self {
        let mut found = Self::default();
        for (user, verdict) in users.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Refused => {
                    found.refused.push(user);
                    continue;
                }
                Verdict::Allowed => {}
                Verdict::Veiled(since_us) => drop(found.veils.insert(user.clone(), *since_us)),
            }
            found.users.push(user);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_true_false_or_a_time() {
        let verdicts: Vec<Verdict> =
            serde_json::from_str("[true,false,1732900000000123,0]").unwrap();
        let since = Verdict::Veiled(1_732_900_000_000_123);
        assert_eq!(verdicts, [Verdict::Allowed, Verdict::Refused, since, Verdict::Veiled(1)]);
        for bad in ["null", "-1", "1.5", "\"yes\"", "[]", "1732900000000", "1"] {
            assert!(serde_json::from_str::<Verdict>(bad).is_err(), "{bad}");
        }
        let users = ["bo", "cy", "di"].map(|name| UserId::new(name).unwrap());
        let [bo, cy, di] = users.clone();
        let found = Verdicts::new(users.to_vec(), &verdicts);
        let veils = Veils::from([(di.clone(), 1_732_900_000_000_123)]);
        assert_eq!(found, Verdicts { users: vec![bo, di], veils, refused: vec![cy] });
    }
}
