//! Whether Redis could be reached lately. Tells when there was trouble, and notices a recovery.
//!
//! While this process is stopped nothing is answered either, and calls fail of old age as soon as it goes on. That is no
//! trouble: others were served meanwhile, and who did not vouch is dead.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tracing::debug;

use crate::store::{Ailment, StoreError};

/// For so long trouble is remembered after it ended: the scripts are forgiving meanwhile.
pub(super) const REMEMBER: Duration = Duration::from_secs(8);

/// Trouble that took no longer is a *blip*: most calls were answered before and after it.
const BLIP: Duration = Duration::from_millis(1500);

/// Within so long after trouble, gateways have told what they could not tell meanwhile. Trouble that begins sooner belongs
/// to it: holds that it revived have not ended yet.
pub(super) const RETURN: Duration = Duration::from_secs(4);

/// And for so much longer at most where a gateway has yet to be heard of. All of it is within [`REMEMBER`].
pub(super) const OWED_MAX: Duration = Duration::from_secs(3);

/// The same after a blip: what is told of it comes late by so long at most, however often there are any. When calls were
/// answered for so long, what begins then is a blip, or none, by itself.
const BLIP_RETURN: Duration = Duration::from_secs(1);

/// Trouble that began again so often, and goes on for so long, makes changes come late for as long as it lasts.
const BREAKS: u32 = 3;
const BREAKING: Duration = Duration::from_secs(3);

/// Connections that did not break for so long do not break any more.
const STEADY: Duration = Duration::from_secs(2);

/// A call that took so long waited for a Redis that was stopped.
const SLOW: Duration = Duration::from_secs(1);

/// How often this process shows itself that it runs.
const BEAT: Duration = Duration::from_millis(250);

/// Without a beat for so long it was stopped.
const STOPPED: Duration = Duration::from_secs(1);

/// A call that took so long shows that all were held up for a moment.
const STALL: Duration = Duration::from_millis(150);

/// For so long after a stall, what others could not send during it may not have arrived.
const STALL_CATCH_UP: Duration = Duration::from_millis(500);

/// A connection over which no call was answered for so long is replaced.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);

/// What calls and reconnects tell of the way to Redis.
pub(super) struct Reach {
    started: Instant,
    trouble: Mutex<Option<Spell>>,
    /// When this process last showed that it runs, in ms since `started`.
    ran_ms: AtomicU64,
    /// When it was stopped last.
    stop: Mutex<Option<Window>>,
    /// When a call was answered last, or a connection made, in ms since `started`.
    answered_ms: AtomicU64,
    /// When the calls began that are not answered yet, in ms since `started`.
    waiting: Mutex<Vec<u64>>,
    /// When a call ended last that was held up, in ms since `started`.
    stalled_ms: AtomicU64,
    /// Whether the latest call that says anything about it failed as unreachable.
    down: AtomicBool,
    /// Whether nothing is heard of what others tell, for so long that clients are to know.
    deaf: AtomicBool,
    recovered: Notify,
}

/// From when to when nothing was answered, in ms since the start.
#[derive(Debug, Clone, Copy)]
struct Window {
    since_ms: u64,
    until_ms: u64,
}

impl Window {
    fn time(&self) -> Duration {
        Duration::from_millis(self.until_ms.saturating_sub(self.since_ms))
    }

    /// How much of it lies between these moments.
    fn overlap_ms(&self, since_ms: u64, until_ms: u64) -> u64 {
        self.until_ms.min(until_ms).saturating_sub(self.since_ms.max(since_ms))
    }
}

/// Trouble, as long as holds that it revived may not have ended.
#[derive(Debug, Clone, Copy)]
struct Spell {
    since_ms: u64,
    /// The last piece of it: since calls were answered for [`BLIP_RETURN`].
    piece: Window,
    /// How often the piece began again, after something was answered.
    again: u32,
    return_until_ms: u64,
}

impl Spell {
    fn new(piece: Window) -> Self {
        Self { since_ms: piece.since_ms, piece, again: 0, return_until_ms: 0 }
            .until_all_is_told_of(piece)
    }

    /// With trouble that was noticed then. `breaks`: a connection did, or a call was not answered.
    fn with(self, trouble: Window, breaks: bool) -> Self {
        let Window { since_ms, until_ms } = trouble;
        if since_ms >= self.return_until_ms {
            return Self::new(trouble);
        }
        let steady_ms = since_ms.saturating_sub(self.piece.until_ms);
        let is_same_piece = Duration::from_millis(steady_ms) < BLIP_RETURN;
        let (piece, again) = if is_same_piece {
            let since_ms = self.piece.since_ms.min(since_ms);
            let again = self.again + u32::from(breaks && steady_ms > 0);
            (Window { since_ms, until_ms }, again)
        } else {
            (trouble, 0)
        };
        let goes_on = steady_ms == 0 || again >= BREAKS;
        let latest = if goes_on { piece } else { trouble };
        Self { since_ms: self.since_ms.min(since_ms), piece, again, ..self }
            .until_all_is_told_of(latest)
    }

    /// A call that was slow just after the store was back is not as long an absence once more.
    fn until_all_is_told_of(self, latest: Window) -> Self {
        let time = if latest.time() > BLIP { RETURN } else { BLIP_RETURN };
        let return_until_ms = self.return_until_ms.max(latest.until_ms + time.as_millis() as u64);
        Self { return_until_ms, ..self }
    }
}

/// How the way to Redis was lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contact {
    /// How long ago a call was answered last.
    pub(super) answered: Duration,
    /// The latest trouble; none in quiet times.
    pub(super) trouble: Option<Trouble>,
}

/// Trouble that is over since a short while, or is not over yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trouble {
    /// How long ago it began.
    pub(super) began: Duration,
    /// How long ago it ended, as far as is known.
    pub(super) ended: Duration,
    /// Within so long after its end, all is told that could not be told meanwhile.
    pub(super) return_time: Duration,
}

impl Reach {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            trouble: Mutex::default(),
            ran_ms: AtomicU64::new(0),
            stop: Mutex::default(),
            answered_ms: AtomicU64::new(0),
            waiting: Mutex::default(),
            stalled_ms: AtomicU64::new(NEVER),
            down: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            recovered: Notify::new(),
        }
    }

    /// Makes a call, learns from how it went, and hands its result through.
    pub(super) async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.note_running();
        let began_ms = self.elapsed_ms();
        let waiting = Waiting::new(self, began_ms);
        let result = call.await;
        drop(waiting);
        self.note_running();
        if self.elapsed_ms().saturating_sub(began_ms) > SLOW.as_millis() as u64 {
            self.trouble_since(began_ms, true);
        }
        self.note(result)
    }

    /// Shows that this process runs, for as long as it is polled.
    pub(super) async fn beat(&self) {
        loop {
            sleep(BEAT).await;
            self.note_running();
        }
    }

    /// Whether this process was stopped, and went on only after that.
    pub(super) fn was_stopped_since(&self, at: Instant) -> bool {
        self.note_running();
        let at_ms = at.saturating_duration_since(self.started).as_millis() as u64;
        self.stop.lock().is_some_and(|stop| stop.until_ms > at_ms)
    }

    fn note_running(&self) {
        let now_ms = self.elapsed_ms();
        let ran_ms = self.ran_ms.swap(now_ms, Relaxed);
        if now_ms.saturating_sub(ran_ms) > STOPPED.as_millis() as u64 {
            *self.stop.lock() = Some(Window { since_ms: ran_ms, until_ms: now_ms });
        }
    }

    fn note<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        let unreachable = matches!(result, Err(StoreError::Unreachable(_)));
        // Also one that refuses, as a full Redis does, keeps gateways from vouching.
        if result.is_err() {
            self.trouble(unreachable);
        }
        if unreachable {
            self.down.store(true, Relaxed);
            return result;
        }
        // An answer, of whatever kind.
        if self.down.load(Relaxed) && self.down.swap(false, Relaxed) {
            self.trouble(true);
            self.recovered.notify_one();
        }
        self.answered_ms.store(self.elapsed_ms(), Relaxed);
        result
    }

    /// Whether calls are held up, or were a moment ago.
    pub(super) fn has_stalled(&self) -> bool {
        let now_ms = self.elapsed_ms();
        let longer = |since_ms: u64, than: Duration| {
            now_ms.saturating_sub(since_ms) > than.as_millis() as u64
        };
        let stalled_ms = self.stalled_ms.load(Relaxed);
        stalled_ms != NEVER && !longer(stalled_ms, STALL_CATCH_UP)
            || self.waiting.lock().iter().any(|began_ms| longer(*began_ms, STALL))
    }

    /// The connection was lost and is back. Everybody is told of that, so the next success is no news.
    pub(super) fn reconnected(&self) {
        self.trouble(true);
        self.answered_ms.store(self.elapsed_ms(), Relaxed);
        self.down.store(false, Relaxed);
    }

    /// Waits for the first answer after calls that failed as unreachable.
    pub(super) async fn recovered(&self) {
        self.recovered.notified().await;
    }

    /// Whether the connection is to be replaced, since nothing was answered for so long. A new one is given as much time, and
    /// that in which this process was stopped is not the connection's fault.
    pub(super) fn gives_up(&self) -> bool {
        self.note_running();
        let (now_ms, answered_ms) = (self.elapsed_ms(), self.answered_ms.load(Relaxed));
        let stopped_ms = self.stop.lock().map_or(0, |stop| stop.overlap_ms(answered_ms, now_ms));
        let silent_ms = now_ms.saturating_sub(answered_ms + stopped_ms);
        let gives_up = Duration::from_millis(silent_ms) > GIVE_UP_AFTER;
        if gives_up {
            self.answered_ms.store(now_ms, Relaxed);
        }
        gives_up
    }

    /// How the way to Redis is and was.
    pub(super) fn contact(&self) -> Contact {
        let ago = |ms| Duration::from_millis(self.elapsed_ms().saturating_sub(ms));
        let trouble = self.trouble.lock().map(|spell| Trouble {
            began: ago(spell.since_ms),
            ended: ago(spell.piece.until_ms),
            return_time: Duration::from_millis(spell.return_until_ms - spell.piece.until_ms),
        });
        Contact {
            answered: ago(self.answered_ms.load(Relaxed)),
            trouble: trouble.filter(|trouble| trouble.ended < REMEMBER),
        }
    }

    /// What is wrong though calls are answered.
    pub(super) fn ailment(&self) -> Option<Ailment> {
        if self.is_deaf() {
            return Some(Ailment::Deaf);
        }
        let now_ms = self.elapsed_ms();
        let is_breaking = |spell: &Spell| {
            let steady = Duration::from_millis(now_ms.saturating_sub(spell.piece.until_ms));
            spell.again >= BREAKS && spell.piece.time() >= BREAKING && steady < STEADY
        };
        self.trouble.lock().filter(is_breaking).map(|_| Ailment::Breaking)
    }

    /// Whether the latest call failed as unreachable.
    pub(super) fn is_down(&self) -> bool {
        self.down.load(Relaxed)
    }

    pub(super) fn is_deaf(&self) -> bool {
        self.deaf.load(Relaxed)
    }

    pub(super) fn set_deaf(&self, deaf: bool) {
        self.deaf.store(deaf, Relaxed);
    }

    fn trouble(&self, breaks: bool) {
        self.trouble_since(self.answered_ms.load(Relaxed), breaks);
    }

    /// There was, or is, trouble from then until now, unless it was only this process that was stopped.
    fn trouble_since(&self, since_ms: u64, breaks: bool) {
        let now_ms = self.elapsed_ms();
        let stopped_ms = self.stop.lock().map_or(0, |stop| stop.overlap_ms(since_ms, now_ms));
        if stopped_ms > 0 && now_ms - since_ms - stopped_ms <= SLOW.as_millis() as u64 {
            return;
        }
        let mut trouble = self.trouble.lock();
        let window = Window { since_ms, until_ms: now_ms };
        let spell = trouble.map_or(Spell::new(window), |spell| spell.with(window, breaks));
        let all_told_ms = spell.return_until_ms.saturating_sub(now_ms);
        debug!(lasted_ms = now_ms - since_ms, all_told_ms, "the store was slow or out of reach");
        *trouble = Some(spell);
    }

    fn elapsed_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}

/// `stalled_ms` of a way to Redis that never stalled.
const NEVER: u64 = u64::MAX;

/// A call that is not answered yet; dropped when it is, or is given up.
struct Waiting<'a> {
    reach: &'a Reach,
    began_ms: u64,
}

impl<'a> Waiting<'a> {
    fn new(reach: &'a Reach, began_ms: u64) -> Self {
        reach.waiting.lock().push(began_ms);
        Self { reach, began_ms }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Self { reach, began_ms } = self;
        let mut waiting = reach.waiting.lock();
        if let Some(place) = waiting.iter().position(|began| began == began_ms) {
            waiting.swap_remove(place);
        }
        let now_ms = reach.elapsed_ms();
        if now_ms.saturating_sub(*began_ms) > STALL.as_millis() as u64 {
            reach.stalled_ms.store(now_ms, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
