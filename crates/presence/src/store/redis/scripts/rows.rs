//! What the scripts are given and answer, in the forms that their headers state.

use std::collections::HashMap;
use std::time::Duration;

use presence_protocol::{Device, StatusText, UserId};
use serde::{Deserialize, Serialize};

use super::super::RedisOptions;
use super::super::channels::Address;
use super::super::lease::Known;
use super::super::reach::{Contact, OWED_MAX, RETURN};
use crate::store::bucket::bucket_of;
use crate::store::view::View;
use crate::store::{Cause, Change, Claim, Contribution, Held, Standing, StoreError};

/// ARGV[1].
#[derive(Serialize)]
pub(super) struct Setup<'a> {
    prefix: &'a str,
    gateway: &'a str,
    ttl_ms: u64,
    grace_ms: u64,
    last_seen_ms: u64,
    away_since_ms: u64,
    return_until_ms: u64,
    came_after: (u64, u64),
    answered_ms: u64,
    sent_ms: u64,
    born_us: u64,
    late: HashMap<String, u64>,
    late_until_ms: u64,
    good_until_ms: u64,
    doubt_until_ms: u64,
    publish: &'static str,
    channel: String,
}

impl<'a> Setup<'a> {
    /// `is_sent`: at once, and not when there is a connection again. Then the sender lives all the time that it waits.
    pub(super) fn new(
        options: &'a RedisOptions,
        contact: Contact,
        known: Known,
        address: Address,
        is_sent: bool,
    ) -> Self {
        let config = &options.config;
        let now_ms = known.store_now_ms();
        let then_ms = |ago: Duration| now_ms.saturating_sub(millis(ago));
        let (away_since_ms, return_until_ms) = time_of_return(contact, &known, config.grace);
        Self {
            prefix: &options.prefix,
            gateway: &options.gateway,
            ttl_ms: millis(config.ttl),
            grace_ms: millis(config.grace),
            last_seen_ms: millis(config.last_seen),
            away_since_ms,
            return_until_ms,
            came_after: came_after(&known),
            answered_ms: then_ms(contact.answered),
            sent_ms: if is_sent { now_ms } else { 0 },
            born_us: known.born_us,
            late: known.late,
            late_until_ms: known.late_until_ms,
            good_until_ms: known.good_until_ms,
            doubt_until_ms: known.doubt_until_ms,
            publish: address.command(),
            channel: address.channel,
        }
    }
}

/// Since when (ms, by the store's clock) the store was away, and until when what could not be told meanwhile may still come; 0 for
/// both in quiet times. Of several absences those count that may still have something to tell: of one that is over, all is told.
fn time_of_return(contact: Contact, known: &Known, grace: Duration) -> (u64, u64) {
    let now_ms = known.store_now_ms();
    let then_ms = |ago: Duration| now_ms.saturating_sub(millis(ago));
    let after = |(since_ms, back_ms)| (since_ms, back_ms + millis(RETURN));
    let noticed =
        contact.trouble.map(|t| (then_ms(t.began), then_ms(t.ended) + millis(t.return_time)));
    let is_blip = contact.trouble.is_some_and(|trouble| trouble.return_time < RETURN);
    let (blip, noticed) = if is_blip { (noticed, None) } else { (None, noticed) };
    let told = known.away.map(after);
    let reborn = known.reborn_ms.map(|ms| after((ms, ms)));
    let owed_until = |&(since_ms, until_ms): &(u64, u64)| {
        let is_all_told = !known.is_any_unheard_since(since_ms);
        until_ms + if is_all_told { 0 } else { millis(owed_to_unheard(grace)) }
    };
    let absences = [noticed, told, reborn].into_iter().flatten();
    let open = absences.filter(|absence| owed_until(absence) > now_ms);
    // What is owed counts from whoever was back first: Redis was back by then.
    let owed_until_ms = open.clone().map(|absence| owed_until(&absence)).min().unwrap_or(0);
    let blip = blip.into_iter().filter(|(_, until_ms)| *until_ms > now_ms);
    let all = open.chain(blip).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    let (since_ms, until_ms) = all.unwrap_or_default();
    (since_ms, until_ms.max(owed_until_ms))
}

/// From when to when the store was away before this gateway came, while what could not be told may still come.
fn came_after(known: &Known) -> (u64, u64) {
    let is_open = |(_, back_ms): &(u64, u64)| back_ms + millis(RETURN) > known.store_now_ms();
    known.away_before.filter(is_open).unwrap_or_default()
}

/// A gateway that lived when the store went away, and of which nothing was heard since, was stopped just when it came back, or is
/// dead. What it has to tell is waited for so much longer: still within the promised five seconds and the grace.
fn owed_to_unheard(grace: Duration) -> Duration {
    grace.saturating_sub(Duration::from_millis(500)).min(OWED_MAX)
}

/// A claim as `apply.lua` reads it: written as a list, in this order.
#[derive(Serialize)]
pub(super) struct ClaimRow<'a> {
    pub(super) bucket: u16,
    user: &'a UserId,
    contribution: String,
    /// -1 when none was set.
    status_age_ms: i64,
    cause: &'static str,
    hold_ms: u64,
    due_in_ms: i64,
    silence_ms: u64,
    online_ms: u64,
}

impl<'a> ClaimRow<'a> {
    pub(super) fn new(claim: &'a Claim, options: &RedisOptions) -> Self {
        let hold = claim.cause.hold(options.config.ttl, options.config.grace);
        let hold = hold.map(|hold| hold.saturating_sub(claim.age));
        let contribution = claim.contribution.as_ref();
        let status = contribution.and_then(|contribution| contribution.status.as_ref());
        Self {
            bucket: bucket_of(&claim.user),
            user: &claim.user,
            contribution: match contribution {
                _ if claim.cause == Cause::Drained => "drained".to_owned(),
                Some(contribution) => contribution_line(contribution),
                None => String::new(),
            },
            status_age_ms: status.map_or(-1, |status| millis(status.age).cast_signed()),
            cause: claim.cause.as_str(),
            hold_ms: hold.filter(|hold| !hold.is_zero()).map_or(0, whole_hold_ms),
            due_in_ms: claim.due_in_ms(options.config.ttl, options.config.grace),
            silence_ms: millis(claim.silence),
            online_ms: contribution.map_or(0, |contribution| millis(contribution.online_for)),
        }
    }
}

/// An age is a difference of whole milliseconds and may be one too many, and the store takes the time in whole ones,
/// which may be one too few: no loss is shown before its time for that.
fn whole_hold_ms(hold: Duration) -> u64 {
    millis(hold) + 2
}

/// `<show> <devices> <text>`; `.` stands for nothing, and the text, which may hold blanks, ends the line.
fn contribution_line(contribution: &Contribution) -> String {
    let status = contribution.status.as_ref();
    let show = status.map_or(".", |status| status.show.as_str());
    let text = status.and_then(|status| status.text.as_ref()).map_or("", StatusText::as_str);
    let devices: Vec<&str> = contribution.devices.iter().map(Device::as_str).collect();
    let devices = if devices.is_empty() { ".".to_owned() } else { devices.join(",") };
    format!("{show} {devices} {text}")
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

/// What the scripts tell of a user: the view's line, the cause (empty where there is no news), when watchers should see it,
/// for how many ms more a loss is held back, and the line that is shown until then.
#[derive(Deserialize)]
pub(super) struct Row<'a>(UserId, &'a str, &'a str, u64, u64, &'a str);

impl Row<'_> {
    /// `age`: for how long it was on the way.
    pub(super) fn standing(self, age: Duration) -> Result<Standing, StoreError> {
        let Self(user, line, cause, due_ms, hold_ms, before) = self;
        let held = match before {
            "" => None,
            before => {
                let remaining = Duration::from_millis(hold_ms).saturating_sub(age);
                Some(Held { remaining, before: view(before)? })
            }
        };
        let change = match cause {
            "" => None,
            word => {
                let unknown = || StoreError::Nonsense(format!("the cause {word:?}"));
                Some(Change { cause: Cause::parse(word).ok_or_else(unknown)?, due_ms })
            }
        };
        Ok(Standing { view: view(line)?, user, held, change })
    }
}

fn view(line: &str) -> Result<View, StoreError> {
    View::parse_line(line).ok_or_else(|| StoreError::Nonsense(format!("the view {line:?}")))
}

#[cfg(test)]
mod tests {
    use super::super::super::reach::Trouble;
    use super::*;

    const NOW_MS: u64 = 100_000;
    const GRACE: Duration = Duration::from_secs(3);

    /// What counts, where another gateway noticed an absence, this one had trouble, and a lease was renewed last then.
    fn window(away: Option<(u64, u64)>, trouble: Option<Trouble>, late: Option<u64>) -> (u64, u64) {
        let mut known = Known::at(NOW_MS);
        known.away = away;
        known.late.extend(late.map(|renewed_ms| ("g".to_owned(), renewed_ms)));
        time_of_return(Contact { answered: Duration::ZERO, trouble }, &known, GRACE)
    }

    #[test]
    fn what_could_not_be_told_in_an_absence_is_told_within_four_seconds() {
        assert_eq!(window(None, None, None), (0, 0));
        assert_eq!(window(Some((90_000, 97_000)), None, None), (90_000, 101_000));
        assert_eq!(window(Some((90_000, 95_000)), None, None), (0, 0), "that is over");
    }

    #[test]
    fn so_it_is_for_a_gateway_that_has_come_since() {
        for (away_before, expected) in
            [((90_000, 97_000), (90_000, 97_000)), ((90_000, 95_000), (0, 0))]
        {
            let mut known = Known::at(NOW_MS);
            known.away_before = Some(away_before);
            assert_eq!(came_after(&known), expected);
        }
    }

    #[test]
    fn a_gateway_that_has_not_been_heard_of_since_has_longer() {
        for away in [(90_000, 95_000), (90_000, 97_000)] {
            let until_ms = away.1 + 4_000 + 2_500;
            assert_eq!(window(Some(away), None, Some(90_000)), (90_000, until_ms));
            let after = window(Some(away), None, Some(80_000)).1;
            assert!(after <= NOW_MS + 1_000, "it died before");
        }
    }

    #[test]
    fn an_absence_that_is_over_is_no_part_of_the_next_one_though_a_gateway_is_unheard() {
        let ms = Duration::from_millis;
        let absence = Trouble { began: ms(3_000), ended: ms(1_000), return_time: RETURN };
        let window = window(Some((90_000, 93_000)), Some(absence), Some(97_000));
        assert_eq!(window, (97_000, 99_000 + 4_000 + 2_500));
    }

    #[test]
    fn a_blip_is_no_continuation_of_an_absence_that_is_over() {
        let ms = Duration::from_millis;
        let blip = Trouble { began: ms(600), ended: ms(500), return_time: ms(1_000) };
        assert_eq!(window(Some((90_000, 95_000)), Some(blip), None), (99_400, 100_500));
        assert_eq!(window(Some((90_000, 97_000)), Some(blip), None), (90_000, 101_000));
        assert_eq!(window(None, Some(blip), Some(99_400)), (99_400, 100_500), "nor has it longer");
    }
}
