//! One watched user: what watchers were shown, what is held back, and how news is taken over.

use bytes::Bytes;
use presence_protocol::{Format, UserId, UserState, presence_frame_of_one};
use tokio::time::Instant;

use crate::session::outbox::ConnId;
use crate::store::view::View;
use crate::store::{Change, Standing};
use crate::watch::untraced::Untraced;

/// A user that is watched here.
pub(super) struct Watched {
    pub(super) user: UserId,
    pub(super) watchers: Vec<ConnId>,
    /// Since when (µs) the user seems to be offline to these watchers, whatever is true; 0 for what is true.
    pub(super) veil: u64,
    /// Nothing is answered from here before the store was asked after this moment. What was read or told earlier, and
    /// arrives late, may be older than what a client was already shown from elsewhere.
    since: Instant,
    known: bool,
    /// What watchers are shown, once that is known.
    shown: Option<View>,
    /// A loss that is held back.
    pending: Option<Box<Pending>>,
    encoded: [Option<Box<Encoded>>; 2],
}

/// A loss that is not shown before it is due, and was confirmed then.
struct Pending {
    due: Instant,
    /// The view to show; none when the store has no trace of the user.
    view: Option<View>,
    /// What brought it about, where that was told.
    change: Option<Change>,
}

/// A state in one format: as a fragment, and as a frame of its own. They share their bytes.
pub(super) struct Encoded {
    pub(super) fragment: Bytes,
    pub(super) frame: Bytes,
}

/// What came of the news about a user. The default: nothing that watchers could tell.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Absorbed {
    /// These watchers are to be told.
    pub(crate) tell: Vec<ConnId>,
    /// A loss is held back until then.
    pub(crate) hold: Option<Instant>,
    /// A loss that was held back is over before anybody saw it.
    pub(crate) flap: bool,
    /// Watchers see, now or after a hold, what they would not have seen without this.
    pub(crate) news: bool,
    /// What watchers are shown now, if that is told to them.
    pub(crate) shown: Option<Shown>,
    /// The version that is known here, where the store answers with an older one that looks otherwise: that cannot be shown.
    pub(crate) ahead: Option<u64>,
}

/// A view that watchers are shown from now on, for those who measure how late that is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) version: u64,
    pub(crate) is_loss: bool,
    /// What brought it about; none when nobody told of it, and it was found by comparing.
    pub(crate) change: Option<Change>,
}

impl Watched {
    pub(super) fn new(user: UserId) -> Self {
        Self {
            user,
            watchers: Vec::new(),
            veil: 0,
            since: Instant::now(),
            known: false,
            shown: None,
            pending: None,
            encoded: [None, None],
        }
    }

    /// Shows this view from now on, and no other.
    pub(super) fn draw_veil(&mut self, veil: u64, view: View) {
        (self.veil, self.shown) = (veil, Some(view));
    }

    pub(super) fn become_known(&mut self) {
        self.known = true;
    }

    pub(super) fn is_known(&self) -> bool {
        self.known
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.due <= now)
    }

    /// Whether the user, as last heard, has a session on this gateway.
    pub(super) fn is_on(&self, gateway: &str) -> bool {
        self.latest().is_some_and(|view| view.is_on(gateway))
    }

    /// The latest view that is known: the one that is held back, or else the one that is shown.
    fn latest(&self) -> Option<&View> {
        let pending = self.pending.as_ref().and_then(|pending| pending.view.as_ref());
        pending.or(self.shown.as_ref())
    }

    /// The list grows by a quarter, since it is most of what a watched user costs, and would be half empty at worst.
    pub(super) fn add_watcher(&mut self, conn: ConnId) {
        if self.watchers.len() == self.watchers.capacity() {
            self.watchers.reserve_exact(self.watchers.len() / 4 + 2);
        }
        self.watchers.push(conn);
    }

    pub(super) fn remove_watcher(&mut self, conn: ConnId) {
        if let Some(at) = self.watchers.iter().position(|watcher| *watcher == conn) {
            self.watchers.swap_remove(at);
        }
        if self.watchers.capacity() > 8 && self.watchers.len() < self.watchers.capacity() / 4 {
            self.watchers.shrink_to(self.watchers.len() * 2);
        }
    }

    pub(super) fn state(&self) -> Option<UserState> {
        self.shown.as_ref().filter(|_| self.known).map(|view| view.to_state(self.user.clone()))
    }

    pub(super) fn encoded(&mut self, format: Format) -> Option<&Encoded> {
        let slot = match format {
            Format::Json => 0,
            Format::MsgPack => 1,
        };
        if self.encoded[slot].is_none() {
            let (frame, fragment) = presence_frame_of_one(format, &self.state()?);
            self.encoded[slot] = Some(Box::new(Encoded { fragment, frame }));
        }
        self.encoded[slot].as_deref()
    }

    /// Takes over what the store told.
    pub(super) fn hear(
        &mut self,
        standing: &Standing,
        now: Instant,
        untraced: &Untraced,
    ) -> Absorbed {
        let absorbed = self.absorb(standing, now, untraced);
        if self.known {
            return absorbed;
        }
        Absorbed { tell: Vec::new(), shown: None, ..absorbed }
    }

    /// Takes over what the store answered to a question that was asked at `asked`. Nobody is told when that is the first
    /// that is known: whoever watches has asked as well, and is answered.
    pub(super) fn learn(
        &mut self,
        standing: &Standing,
        asked: Instant,
        now: Instant,
        untraced: &Untraced,
    ) -> Absorbed {
        if self.known {
            let ahead = self.ahead_of(&standing.view);
            return Absorbed { ahead, ..self.absorb(standing, now, untraced) };
        }
        if asked < self.since {
            return Absorbed::default();
        }
        self.known = true;
        let absorbed = self.absorb(standing, now, untraced);
        Absorbed { tell: Vec::new(), news: false, shown: None, ..absorbed }
    }

    /// Takes over where the user stands in the store.
    ///
    /// What is not newer than what is known is covered by it, with two exceptions. A held loss becomes final when the
    /// store confirms it at its end. And a user of whom the store has no trace, though it was seen online, is gone if
    /// that is still so after the time that [`Untraced`] gives it.
    fn absorb(&mut self, standing: &Standing, now: Instant, untraced: &Untraced) -> Absorbed {
        let view = &standing.view;
        if view.is_no_trace() && self.shown.as_ref().is_some_and(View::is_online) {
            return self.absorb_no_trace(view.version, now, untraced);
        }
        let held = standing.held.as_ref().filter(|held| !self.comes_back(view, &held.before));
        let Some(held) = held else {
            if self.is_news(standing) {
                return self.show(view.clone(), standing.change);
            }
            self.note_gateways(view);
            return Absorbed::default();
        };
        let due = now + held.remaining;
        let repeated = self.latest().is_some_and(|latest| latest.version == view.version);
        if let Some(pending) = self.pending.as_mut().filter(|_| repeated) {
            // Which word is the later one is not known: a hold may have been made shorter since, and one that was made longer
            // is asked about again when it is due.
            pending.due = if pending.due > now { pending.due.min(due) } else { due };
            pending.change = pending.change.or(standing.change);
            return Absorbed { hold: Some(pending.due), ..Absorbed::default() };
        }
        if !self.is_news(standing) {
            return Absorbed::default();
        }
        let older = |shown: &View| shown.version < held.before.version;
        let absorbed = if self.shown.as_ref().is_none_or(older) {
            self.show(held.before.clone(), None)
        } else {
            Absorbed::default()
        };
        let pending = Pending { due, view: Some(view.clone()), change: standing.change };
        self.pending = Some(Box::new(pending));
        Absorbed { hold: Some(due), news: true, ..absorbed }
    }

    /// Watchers were shown a loss that the store holds back all the same, since it was away: a gain on top of it is shown.
    fn comes_back(&self, view: &View, before: &View) -> bool {
        let lost = |shown: &View| !shown.is_online() && shown.version > before.version;
        view.is_online() && self.shown.as_ref().is_some_and(lost)
    }

    pub(super) fn begin_no_trace_anew(&mut self) {
        self.pending.take_if(|pending| pending.view.is_none());
    }

    fn ahead_of(&self, view: &View) -> Option<u64> {
        let version = self.latest()?.version;
        let is_shown = self.shown.as_ref().is_some_and(|shown| shown.looks_like(view));
        (version > view.version && !is_shown && !view.is_no_trace()).then_some(version)
    }

    fn is_news(&self, standing: &Standing) -> bool {
        let Some(latest) = self.latest() else { return true };
        let settled = self.pending.is_some() && standing.held.is_none();
        standing.view.version > latest.version
            || (standing.view.version == latest.version && settled)
    }

    /// A user may come to live on other gateways with nothing to be seen of it.
    fn note_gateways(&mut self, view: &View) {
        if let Some(shown) = self.shown.as_mut().filter(|shown| shown.version == view.version) {
            shown.gateways.clone_from(&view.gateways);
        }
    }

    /// The answer may also be an old one, read before the user first came: then a later one shows the user alive.
    fn absorb_no_trace(&mut self, born: u64, now: Instant, untraced: &Untraced) -> Absorbed {
        let hold_until = untraced.hold_until(self.latest(), born, now);
        let (due, news) = match self.pending.as_deref() {
            Some(Pending { due, view: Some(_), .. }) if *due > now => return Absorbed::default(),
            // A gateway that was waited for may have found out since, or it may be another's turn.
            Some(Pending { due, view: None, .. }) => {
                let waits = *due <= now && untraced.is_missing(self.latest(), now);
                (if waits { hold_until } else { hold_until.min(*due) }, false)
            }
            // Also where a loss was held: its user may have come back while the store was away.
            _ => (hold_until, true),
        };
        if due > now {
            self.pending = Some(Box::new(Pending { due, view: None, change: None }));
            return Absorbed { hold: Some(due), news, ..Absorbed::default() };
        }
        let known = self.latest().map_or(0, |latest| latest.version);
        self.show(View { version: born.max(known + 1), ..View::NO_TRACE }, None)
    }

    fn show(&mut self, view: View, change: Option<Change>) -> Absorbed {
        let pending = self.pending.take().filter(|pending| pending.view.is_some());
        let before = self.shown.replace(view);
        let Some(view) = &self.shown else { return Absorbed::default() };
        self.encoded = [None, None];
        if before.as_ref().is_some_and(|before| before.looks_like(view)) {
            return Absorbed { flap: pending.is_some(), ..Absorbed::default() };
        }
        let was_held = pending.filter(|pending| {
            pending.view.as_ref().is_some_and(|held| held.version == view.version)
        });
        let shown = Shown {
            version: view.version,
            is_loss: !view.is_online() && before.is_some_and(|before| before.is_online()),
            change: was_held.and_then(|pending| pending.change).or(change),
        };
        let tell = self.watchers.clone();
        Absorbed { tell, news: true, shown: Some(shown), ..Absorbed::default() }
    }
}
