//! Times, rates and gaps, as people write them: `30s`, `100/s`, `1s..20s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::measures::micros;

/// A duration, as `30s` or `250ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Time(pub(crate) Duration);

/// So many a second, as `2000/s`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Rate(f64);

/// How many a second while all of them are begun, as `2000/s`; or a rate that changes evenly with time from the first to the
/// last, as `1000/s..200/s`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Pace {
    first: Rate,
    last: Rate,
}

/// A time between two, each as likely, as `1s..20s`; or always the same, as `5s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Gap {
    least: Time,
    most: Time,
}

impl Time {
    pub(crate) const fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    pub(crate) fn us(self) -> u64 {
        micros(self.0)
    }
}

impl Rate {
    pub(crate) fn per_second(self) -> f64 {
        self.0
    }
}

impl Pace {
    pub(crate) fn most(self) -> Rate {
        Rate(self.first.0.max(self.last.0))
    }

    /// How long so many take, in µs.
    pub(crate) fn length_us(self, count: u64) -> u64 {
        (2.0 * count as f64 / (self.first.0 + self.last.0) * 1e6) as u64
    }

    /// The share of the time after which so large a share of them has begun.
    pub(crate) fn share_of_time(self, share: f64) -> f64 {
        let Self { first: Rate(first), last: Rate(last) } = self;
        let now = (first * first + (last * last - first * first) * share).sqrt();
        share * (first + last) / (first + now)
    }
}

impl Gap {
    pub(crate) fn most(self) -> Time {
        self.most
    }

    /// How long to wait after so many failures, in µs: any time up to the shorter of the two, doubled each time, as far as
    /// to the longer.
    pub(crate) fn back_off(self, failures: u8, rng: &mut Rng) -> u64 {
        let doubled = self.least.us().saturating_mul(1 << failures.min(30));
        rng.u64(0..=doubled.min(self.most.us()))
    }

    /// One of its times, in µs.
    pub(crate) fn roll(self, rng: &mut Rng) -> u64 {
        rng.u64(self.least.us()..=self.most.us())
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = humantime::parse_duration(text);
        read.map(Self).map_err(|_| format!("a time is written as 30s or 250ms, not {text:?}"))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix("/s").unwrap_or(text).trim();
        match number.parse::<f64>() {
            Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(Self(rate)),
            _ => Err(format!("a rate is a number above 0 a second, such as 2000/s, not {text:?}")),
        }
    }
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        Ok(Self { first: first.trim().parse()?, last: last.trim().parse()? })
    }
}

impl FromStr for Gap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        match (least.trim().parse(), most.trim().parse()) {
            (Ok(least), Ok(most)) if least <= most => Ok(Self { least, most }),
            _ => Err(format!(
                "a gap is two times, the shorter one first, such as 1s..20s, not {text:?}"
            )),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = humantime::format_duration(self.0).to_string();
        f.pad(&text.replace(' ', ""))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.last == self.first { Ok(()) } else { write!(f, "..{}", self.last) }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.least, self.most)
    }
}

/// What serde needs of a type that is written as text.
macro_rules! written_as_text {
    ($($kind:ident),+) => {$(
        impl TryFrom<String> for $kind {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$kind> for String {
            fn from(value: $kind) -> Self {
                value.to_string()
            }
        }
    )+};
}

written_as_text!(Time, Rate, Pace, Gap);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for text in ["30s", "1h30m", "250ms"] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), text);
        }
        assert_eq!("2000/s".parse::<Rate>().unwrap().to_string(), "2000/s");
        assert_eq!("0.5".parse::<Rate>().unwrap().to_string(), "0.5/s");
        for text in ["2000/s", "1000/s..200/s"] {
            assert_eq!(text.parse::<Pace>().unwrap().to_string(), text);
        }
        assert_eq!("1s..20s".parse::<Gap>().unwrap().to_string(), "1s..20s");
        assert_eq!("5s".parse::<Gap>().unwrap(), "5s..5s".parse().unwrap());
    }

    #[test]
    fn a_bad_value_is_told_with_what_would_be_right() {
        for bad in ["", "0", "-1/s", "inf", "NaN", "10/m", "many"] {
            assert!(bad.parse::<Rate>().unwrap_err().contains("such as 2000/s"), "{bad}");
        }
        for bad in ["", "1000/s..", "..5/s", "10/s..0"] {
            assert!(bad.parse::<Pace>().unwrap_err().contains("such as 2000/s"), "{bad}");
        }
        for bad in ["", "1s..", "20s..1s", "1..2"] {
            assert!(bad.parse::<Gap>().unwrap_err().contains("such as 1s..20s"), "{bad}");
        }
        assert!("1 fortnight".parse::<Time>().unwrap_err().contains("30s"));
    }

    #[test]
    fn a_pace_changes_evenly_and_ends_when_all_have_begun() {
        let seconds = 10.0;
        for text in ["100/s", "150/s..50/s", "50/s..150/s"] {
            let pace: Pace = text.parse().unwrap();
            assert_eq!(Duration::from_micros(pace.length_us(1_000)).as_secs(), 10, "{text}");
            let begun_by = |n: u32| pace.share_of_time(f64::from(n) / 1_000.0) * seconds;
            assert!((begun_by(1_000) - seconds).abs() < 1e-9, "{text}");
            let rate = |n: u32| 1.0 / (begun_by(n + 1) - begun_by(n));
            assert!((rate(0) - pace.first.0).abs() < 1.0, "{text}: {}", rate(0));
            assert!((rate(999) - pace.last.0).abs() < 1.0, "{text}: {}", rate(999));
        }
    }

    #[test]
    fn a_gap_is_rolled_between_its_ends() {
        let gap: Gap = "1s..2s".parse().unwrap();
        let mut rng = Rng::with_seed(1);
        assert!((0..100).all(|_| (1_000_000..=2_000_000).contains(&gap.roll(&mut rng))));
    }
}
