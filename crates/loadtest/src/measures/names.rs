//! What is counted and timed, and what reports call it.

/// An enum whose variants have names in reports, and stand for places in an array.
macro_rules! named {
    ($(#[$doc:meta])* $kind:ident { $($(#[$of:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $kind { $($(#[$of])* $variant,)+ }

        impl $kind {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name in reports.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

named! {
    /// What is counted.
    Count {
        /// Connections begun, returns included.
        Started = "started",
        /// Connections that got their `welcome`.
        Connected = "connected",
        /// Those for which it was the first.
        CameUp = "came_up",
        /// Connections that never did.
        Failed = "failed",
        /// Connections that the other side ended after it.
        Dropped = "dropped",
        /// Attempts that failed, each followed by another.
        Retried = "retried",
        /// Ended or sent away by the other side, to come back.
        SentAway = "sent_away",
        /// Those of them that were not asked to go before.
        Lost = "lost",
        /// Closed here with no `bye`, as the scenario asks.
        ClosedOnPurpose = "closed_on_purpose",
        /// Connections whose users were back within grace.
        ReturnedInGrace = "returned_in_grace",
        SignedOut = "signed_out",
        /// From now on nothing is read or sent, and the socket stays.
        FellSilent = "fell_silent",
        Froze = "froze",
        Thawed = "thawed",
        /// Ended by the gateway while frozen, as it should be.
        FrozenOut = "frozen_out",
        /// Acts for which nobody was connected.
        ActsSkipped = "acts_skipped",
        Pings = "pings",
        Pongs = "pongs",
        /// Pings of which no Pong came until long after.
        UnansweredPings = "unanswered_pings",
        /// Pongs that answered the gateway's own Pings.
        PongsSent = "pongs_sent",
        HeartbeatsSent = "heartbeats_sent",
        /// Watches that were refused for good: those views are compared with nothing.
        WatchesRefused = "watches_refused",
        /// Other messages that were refused, and watches that are to be asked for again.
        MessagesRefused = "messages_refused",
        SnapshotStates = "snapshot_states",
        PushedOnline = "pushed_online",
        PushedOffline = "pushed_offline",
        /// States that are not newer than what was known, or of nobody watched.
        Backward = "backward",
        EarlyOffline = "early_offline",
        /// Shown offline while online for more than a second.
        FalseOffline = "false_offline",
        /// Shown offline although back within grace.
        FlapsShown = "flaps_shown",
        /// Pairs of a watcher and a user whose view was wrong at the end, or never showed offline
        /// while the user was gone for long.
        LostChanges = "lost_changes",
        /// Those of them where offline was to be shown.
        OfflineUntold = "offline_untold",
        /// Pairs of a watcher and a user who fell silent, told.
        SilentTold = "silent_told",
        /// The same, still shown online at the end.
        SilentUntold = "silent_untold",
        /// Pairs of a watcher and a watched user at the end.
        Views = "views",
        ViewsOnline = "views_online",
        BytesIn = "bytes_in",
        BytesOut = "bytes_out",
    }
}

named! {
    /// What is timed.
    Timing {
        Connect = "connect",
        Return = "return",
        Snapshot = "snapshot",
        ContactsShown = "contacts shown",
        Ping = "ping",
        OnlinePush = "online push",
        OfflineBye = "offline, bye",
        OfflineClosed = "offline, closed",
        OfflineSilent = "offline, silent",
        TesterLate = "tester late",
    }
}

impl Timing {
    /// What is measured, in a sentence.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Connect => "From when a connection was due to its welcome.",
            Self::Return => "From when a gateway ended a connection to its next welcome.",
            Self::Snapshot => "From a watch to its snapshot.",
            Self::ContactsShown => {
                "From when a connection was due, or ended by a gateway, to its snapshot."
            }
            Self::Ping => "From when a Ping was due to its Pong.",
            Self::OnlinePush => "From a user's hello to a watcher's push that says online.",
            Self::OfflineBye => "From a user's bye to a watcher's push that says offline.",
            Self::OfflineClosed => "From a closed socket, plus grace, to the push of offline.",
            Self::OfflineSilent => {
                "From a last heartbeat, plus TTL and grace, to the push of offline."
            }
            Self::TesterLate => "How late the tester itself was with what was due.",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_differ() {
        let counts = Count::ALL.iter().map(|count| count.name());
        let names: Vec<&str> =
            counts.chain(Timing::ALL.iter().map(|timing| timing.name())).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), distinct.len());
    }
}
