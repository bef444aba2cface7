//! The names of counts and timings that a report is read by; what they mean stands in `measures`.
//! Others are shown as they come.

use crate::measures::{Count, Timing};

pub(crate) const STARTED: &str = Count::Started.name();
pub(crate) const CONNECTED: &str = Count::Connected.name();
pub(crate) const CAME_UP: &str = Count::CameUp.name();
pub(crate) const FAILED: &str = Count::Failed.name();
pub(crate) const DROPPED: &str = Count::Dropped.name();
pub(crate) const LOST: &str = Count::Lost.name();
pub(crate) const PINGS: &str = Count::Pings.name();
pub(crate) const UNANSWERED_PINGS: &str = Count::UnansweredPings.name();
pub(crate) const WATCHES_REFUSED: &str = Count::WatchesRefused.name();
pub(crate) const MESSAGES_REFUSED: &str = Count::MessagesRefused.name();
pub(crate) const RETURNED_IN_GRACE: &str = Count::ReturnedInGrace.name();
pub(crate) const SILENT_TOLD: &str = Count::SilentTold.name();
pub(crate) const SNAPSHOT_STATES: &str = Count::SnapshotStates.name();
pub(crate) const PUSHED_ONLINE: &str = Count::PushedOnline.name();
pub(crate) const PUSHED_OFFLINE: &str = Count::PushedOffline.name();
pub(crate) const VIEWS: &str = Count::Views.name();
pub(crate) const BACKWARD: &str = Count::Backward.name();
pub(crate) const EARLY_OFFLINE: &str = Count::EarlyOffline.name();
pub(crate) const FALSE_OFFLINE: &str = Count::FalseOffline.name();
pub(crate) const FLAPS_SHOWN: &str = Count::FlapsShown.name();
pub(crate) const LOST_CHANGES: &str = Count::LostChanges.name();
pub(crate) const OFFLINE_UNTOLD: &str = Count::OfflineUntold.name();
pub(crate) const SILENT_UNTOLD: &str = Count::SilentUntold.name();

/// Signs of life sent.
pub(crate) const SIGNS_OF_LIFE: [&str; 3] =
    [PINGS, Count::PongsSent.name(), Count::HeartbeatsSent.name()];

pub(crate) const CONNECT: &str = Timing::Connect.name();
pub(crate) const PING: &str = Timing::Ping.name();
pub(crate) const ONLINE_PUSH: &str = Timing::OnlinePush.name();
pub(crate) const TESTER_LATE: &str = Timing::TesterLate.name();

/// How late offline was shown, by cause.
pub(crate) const OFFLINE: [&str; 3] =
    [Timing::OfflineBye.name(), Timing::OfflineClosed.name(), Timing::OfflineSilent.name()];

/// A kind of [`Server`](super::Server).
pub(crate) const GATEWAYS: &str = "gateways";
/// The other kind.
pub(crate) const REDIS: &str = "redis";
/// What Redis did, among its figures.
pub(crate) const COMMANDS: &str = "commands";

/// A name as people read it.
pub(crate) fn spoken(name: &str) -> String {
    name.replace('_', " ")
}
