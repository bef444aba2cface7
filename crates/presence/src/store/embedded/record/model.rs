//! One user's record through random claims, refreshes, reads and lapses of three gateways, against the rules as the
//! documents state them.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use presence_protocol::{Availability, Device, Show, StatusText, UserId};

use super::{Moment, Record, Times, View};
use crate::store::{Cause, Claim, Contribution, SetStatus, Standing};

const TTL: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(3);
const GATEWAYS: [&str; 3] = ["g1", "g2", "g3"];
const DEVICES: [&str; 3] = ["android", "ios", "web"];

/// What others could tell apart: state, show, devices, text.
type Look = (Availability, Option<Show>, Vec<Device>, Option<StatusText>);

fn look(view: &View) -> Look {
    (view.state, view.show, view.devices.clone(), view.text.clone())
}

fn offline() -> Look {
    (Availability::Offline, None, Vec::new(), None)
}

/// What a gateway last claimed, when, and until when it vouches for it. One that keeps the place claims nothing.
struct Part {
    gateway: &'static str,
    claimed_at: Moment,
    until: Moment,
    claimed: Option<Contribution>,
}

/// The rules.
struct Model {
    parts: Vec<Part>,
    look: Look,
    /// The gateways that contribute to it.
    on: Vec<&'static str>,
    held: Option<Held>,
}

/// A loss that is held back: until when, and what was before it, on which gateways.
#[derive(Clone)]
struct Held {
    until: Moment,
    look: Look,
    on: Vec<&'static str>,
}

impl Model {
    /// Online with all devices, as the status that was set last says, unless that says invisible.
    fn truth(&self) -> Look {
        let claims =
            || self.parts.iter().filter_map(|part| Some((part.claimed_at, part.claimed.as_ref()?)));
        let statuses = claims().filter_map(|(at, claimed)| Some((at, claimed.status.as_ref()?)));
        let status = statuses.max_by_key(|(at, status)| *at - status.age).map(|(_, s)| s.clone());
        let show = status.as_ref().map(|status| status.show).filter(|show| *show != Show::Online);
        if claims().count() == 0 || show == Some(Show::Invisible) {
            return offline();
        }
        let mut devices: Vec<_> =
            claims().flat_map(|(_, claimed)| claimed.devices.clone()).collect();
        devices.sort();
        devices.dedup();
        (Availability::Online, show, devices, status.and_then(|status| status.text))
    }

    fn shown(&self, now: Moment) -> &Look {
        self.held.as_ref().filter(|held| held.until > now).map_or(&self.look, |held| &held.look)
    }

    /// The hold rule. `until` is when the cause lets a loss be shown, `own` the same without the places that are kept.
    fn change(
        &mut self,
        cause: Cause,
        by: Vec<&'static str>,
        (own, until): (Moment, Moment),
        now: Moment,
    ) {
        let (shown, held) = (self.shown(now).clone(), self.held.take());
        let held = held.filter(|held| held.until > now);
        let before = std::mem::take(&mut self.on);
        self.on = self.parts.iter().filter(|p| p.claimed.is_some()).map(|p| p.gateway).collect();
        let new = self.truth();
        let was_here = !held.as_ref().map_or(&before, |held| &held.on).is_empty();
        let both_online = shown.0 == Availability::Online && new.0 == Availability::Online;
        self.held = if new == self.look {
            let told = cause != Cause::Expired && !matches!(cause, Cause::Joined | Cause::Status);
            held.map(|held| {
                // A late bye, or any loss on the one gateway, explains what is held back already. Another, of a session that
                // nobody was told of, is held back as long as any.
                let explains = cause == Cause::Bye || held.on == by;
                let ends_early = explains && until + Duration::from_millis(100) < held.until;
                let moves = told && new.0 == Availability::Offline;
                match (moves, ends_early) {
                    (true, true) => Held { until, ..held },
                    (true, false) if cause != Cause::Bye && until >= held.until => {
                        // The later loss is the one to be explained.
                        let on = if own >= held.until { by.clone() } else { held.on };
                        Held { until, on, look: held.look }
                    }
                    _ => held,
                }
            })
            .filter(|held| held.until > now)
        } else if new == shown {
            None
        } else if until > now && was_here {
            let owed = held.as_ref().map_or(until, |held| held.until.max(until));
            let on = match held {
                None => before,
                Some(held) if !by.is_empty() && own >= held.until => by,
                Some(held) => held.on,
            };
            Some(Held { until: owed, look: shown, on })
        } else {
            // Who comes back piece by piece stays held.
            held.filter(|_| cause == Cause::Joined && both_online)
        };
        self.look = new;
    }

    fn claim(&mut self, gateway: &'static str, claim: &Claim, now: Moment) {
        let drained = claim.cause == Cause::Drained;
        let comes = claim.contribution.is_some() && !drained;
        let look = |claimed: &Contribution| {
            let status = claimed.status.as_ref();
            (claimed.devices.clone(), status.map(|status| (status.show, status.text.clone())))
        };
        let more = |part: &Part| {
            let (before, after) = (part.claimed.as_ref(), claim.contribution.as_ref());
            claim.cause == Cause::Joined && before.map(look) != after.map(look)
        };
        let had_place = self
            .parts
            .iter()
            .any(|part| part.gateway == gateway && part.claimed.is_none() && part.until > now);
        let here = self.parts.iter().filter(|part| part.claimed.is_some());
        let here = here.clone().find(|part| part.gateway == gateway);
        let comes = comes && here.is_none_or(more);
        self.parts.retain(|part| part.until > now && part.gateway != gateway);
        // Places are kept until the user comes elsewhere, or signs out.
        self.parts.retain(|part| part.claimed.is_some() || !(comes || claim.cause == Cause::Bye));
        let place_kept = self.place_kept();
        let claimed = claim.contribution.clone().filter(|_| !drained);
        let hold = match claim.cause {
            Cause::Joined | Cause::Status | Cause::Bye => Duration::ZERO,
            Cause::Closed | Cause::Silent | Cause::Expired => GRACE,
            Cause::Drained => TTL,
        };
        let own = now + hold.saturating_sub(claim.age);
        let lives = self.parts.iter().any(|part| part.claimed.is_some());
        if claimed.is_some() {
            self.parts.push(Part { gateway, claimed_at: now, until: now + TTL, claimed });
        } else if drained || (had_place || lives) && !hold.is_zero() {
            // Whoever loses the last session may have lost it sooner, and tell of it later.
            self.parts.push(Part { gateway, claimed_at: now, until: own, claimed });
        }
        let until = if hold.is_zero() { own } else { own.max(place_kept.unwrap_or(own)) };
        self.change(claim.cause, vec![gateway], (own, until), now);
    }

    fn place_kept(&self) -> Option<Moment> {
        self.parts.iter().filter(|part| part.claimed.is_none()).map(|part| part.until).max()
    }

    /// Those of whom nobody vouched for the TTL are gone, since then.
    fn lapse(&mut self, now: Moment) {
        let living = self.parts.iter().filter(|part| part.claimed.is_some());
        let gone = living.map(|part| part.until).filter(|until| *until <= now).max();
        self.parts.retain(|part| part.until > now);
        if let Some(gone) = gone {
            let until = (gone + GRACE).max(self.place_kept().unwrap_or(gone));
            self.change(Cause::Expired, Vec::new(), (until, until), now);
        }
    }
}

fn random_claim(random: &mut Rng) -> Claim {
    let cause = Cause::ALL[random.usize(..Cause::ALL.len() - 1)];
    let devices = DEVICES.iter().filter(|_| random.bool()).map(|label| Device::new(label).unwrap());
    let devices = devices.collect();
    let status = SetStatus {
        show: Show::ALL[random.usize(..Show::ALL.len())],
        text: random.bool().then(|| StatusText::new("at lunch").unwrap()),
        age: Duration::from_micros(random.u64(..60_000_000)),
    };
    let contribution = Contribution {
        devices,
        status: random.bool().then_some(status),
        online_for: Duration::from_millis(random.u64(..60_000)),
    };
    let here = match cause {
        Cause::Joined | Cause::Status => true,
        _ => random.u8(..4) == 0,
    };
    Claim {
        user: UserId::new("bo").unwrap(),
        contribution: here.then_some(contribution),
        cause,
        age: Duration::from_millis(if random.bool() { 0 } else { random.u64(..4000) }),
        silence: Duration::from_millis(random.u64(..30_000)),
    }
}

#[test]
fn a_record_follows_the_rules_through_any_history() {
    for seed in 0..3000 {
        let mut random = Rng::with_seed(seed);
        let mut now = Moment(1_732_900_000_000_000);
        let (mut record, user) = (Record::new(now), UserId::new("bo").unwrap());
        let mut model = Model { parts: Vec::new(), look: offline(), on: Vec::new(), held: None };
        let mut last = record.standing(user.clone(), now).view;
        for step in 0..random.usize(1..40) {
            // Sometimes no time at all.
            now = now + Duration::from_micros(random.u64(..4_000_000).saturating_sub(400_000));
            if random.u8(..20) == 0 {
                now = now + TTL;
            }
            let (times, at) = (Times { now, ttl: TTL, grace: GRACE }, random.usize(..3));
            let shown = record.standing(user.clone(), now).shown().clone();
            let gateway: Arc<str> = GATEWAYS[at].into();
            let told = match random.u8(..8) {
                0..=4 => {
                    let claim = random_claim(&mut random);
                    model.claim(GATEWAYS[at], &claim, now);
                    record.apply(&gateway, &claim, &times)
                }
                5 => {
                    let part = model.parts.iter_mut();
                    let part =
                        part.filter(|part| part.gateway == &*gateway && part.until > now).last();
                    assert_eq!(record.refresh(&gateway, &times), part.is_some(), "seed {seed}");
                    if let Some(part) = part {
                        part.until = now + TTL;
                    }
                    None
                }
                _ => {
                    model.lapse(now);
                    record.settle(&user, &times)
                }
            };
            let standing = record.standing(user.clone(), now);
            let what = || format!("seed {seed}, step {step}: {last:?}, then {standing:?}");
            assert_eq!(look(&standing.view), model.look, "{}", what());
            assert_eq!(look(standing.shown()), *model.shown(now), "{}", what());
            let remaining = model.held.as_ref().filter(|held| held.until > now);
            let remaining = remaining.map(|held| held.until - now);
            assert_eq!(standing.held.as_ref().map(|held| held.remaining), remaining, "{}", what());
            let moved = look(&last) != look(&standing.view);
            assert_eq!(standing.view.version > last.version, moved, "{}", what());
            assert!(standing.view.version >= last.version, "{}", what());
            if shown.is_online() && standing.shown().is_online() {
                assert_eq!(standing.shown().since, shown.since, "{}", what());
            }
            assert!(told.is_some() || standing.view == last, "not told: {}", what());
            let told = told.map(|told| Standing { change: None, ..told });
            assert!(told.is_none_or(|told| told == standing), "{}", what());
            last = standing.view;
        }
    }
}
