//! Why a socket closes: one enum that is the close code, the metric's label and the sentence sent.

/// Why the gateway closes a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// 1000: the client said `bye`.
    Bye,
    /// 1001: the gateway is stopping.
    GoingAway,
    /// 1002: the peer broke the WebSocket protocol itself.
    ProtocolError,
    /// 1003: text on a `MessagePack` socket, or binary on a JSON one.
    WrongFrameKind,
    /// 1007: a text frame that is not UTF-8.
    NotUtf8,
    /// 1009: a frame over the limit.
    TooLarge,
    /// 1012: the gateway is draining.
    Draining,
    /// 1013: too many connections, a reconnect storm being spread, or a token that cannot be checked now.
    Overloaded,
    /// 4001: no `hello` in time, or another message before it.
    NoHello,
    /// 4002: the token is not valid.
    BadToken,
    /// 4003: the token has expired.
    TokenExpired,
    /// 4004: no heartbeat for the TTL.
    NoHeartbeat,
    /// 4005: nothing could be written for the write timeout.
    TooSlow,
    /// 4006: over the rate limit, repeatedly.
    RateLimited,
    /// 4007: disconnected by the backend.
    Disconnected,
    /// 4008: the user has too many sessions, and this was the oldest.
    Replaced,
    /// 4009: the user has too many sessions already.
    TooManySessions,
}

/// Whether, and how, a client may come back after a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Not by itself: it was asked for, or the same would happen again.
    No,
    /// Yes, at once the first time, then with backoff and jitter.
    Yes,
    /// Yes, but never at once: after `reconnect_after_ms` if told, else with backoff and jitter.
    AfterDelay,
    /// Yes, with another token than the last one.
    WithNewToken,
}

impl CloseReason {
    /// Every reason there is, by code.
    pub const ALL: [Self; 17] = [
        Self::Bye,
        Self::GoingAway,
        Self::ProtocolError,
        Self::WrongFrameKind,
        Self::NotUtf8,
        Self::TooLarge,
        Self::Draining,
        Self::Overloaded,
        Self::NoHello,
        Self::BadToken,
        Self::TokenExpired,
        Self::NoHeartbeat,
        Self::TooSlow,
        Self::RateLimited,
        Self::Disconnected,
        Self::Replaced,
        Self::TooManySessions,
    ];

    /// The WebSocket close code.
    pub fn code(self) -> u16 {
        match self {
            Self::Bye => 1000,
            Self::GoingAway => 1001,
            Self::ProtocolError => 1002,
            Self::WrongFrameKind => 1003,
            Self::NotUtf8 => 1007,
            Self::TooLarge => 1009,
            Self::Draining => 1012,
            Self::Overloaded => 1013,
            Self::NoHello => 4001,
            Self::BadToken => 4002,
            Self::TokenExpired => 4003,
            Self::NoHeartbeat => 4004,
            Self::TooSlow => 4005,
            Self::RateLimited => 4006,
            Self::Disconnected => 4007,
            Self::Replaced => 4008,
            Self::TooManySessions => 4009,
        }
    }

    /// The inverse of [`CloseReason::code`]; none for a code the gateway never sends.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// The label in metrics and logs.
    pub fn label(self) -> &'static str {
        match self {
            Self::Bye => "bye",
            Self::GoingAway => "going_away",
            Self::ProtocolError => "protocol_error",
            Self::WrongFrameKind => "wrong_frame_kind",
            Self::NotUtf8 => "not_utf8",
            Self::TooLarge => "too_large",
            Self::Draining => "draining",
            Self::Overloaded => "overloaded",
            Self::NoHello => "no_hello",
            Self::BadToken => "bad_token",
            Self::TokenExpired => "token_expired",
            Self::NoHeartbeat => "no_heartbeat",
            Self::TooSlow => "too_slow",
            Self::RateLimited => "rate_limited",
            Self::Disconnected => "disconnected",
            Self::Replaced => "replaced",
            Self::TooManySessions => "too_many_sessions",
        }
    }

    /// The sentence in the close frame, which holds at most 123 bytes.
    pub fn text(self) -> &'static str {
        match self {
            Self::Bye => "Signed out.",
            Self::GoingAway => "The gateway is stopping, reconnect with backoff and jitter.",
            Self::ProtocolError => "The frame breaks the WebSocket protocol.",
            Self::WrongFrameKind => "JSON travels in text frames, MessagePack in binary ones.",
            Self::NotUtf8 => "A text frame must be UTF-8.",
            Self::TooLarge => "The frame is over the size limit.",
            Self::Draining => "The gateway is draining, reconnect after the delay it told.",
            Self::Overloaded => {
                "No room or no keys for tokens now, reconnect with backoff and jitter."
            }
            Self::NoHello => "The first message must be hello, and in time.",
            Self::BadToken => "The token is not valid, come back with another one.",
            Self::TokenExpired => "The token has expired, come back with a fresh one.",
            Self::NoHeartbeat => "No heartbeat arrived for the TTL.",
            Self::TooSlow => "Nothing could be written for the write timeout.",
            Self::RateLimited => "Too many messages, reconnect with backoff.",
            Self::Disconnected => "Disconnected by the backend.",
            Self::Replaced => {
                "The user signed in elsewhere too often, and this was the oldest session."
            }
            Self::TooManySessions => {
                "The user has too many sessions, reconnect with backoff and jitter."
            }
        }
    }

    /// Whether the client may come back.
    pub fn retry(self) -> Retry {
        match self {
            Self::Bye
            | Self::ProtocolError
            | Self::WrongFrameKind
            | Self::NotUtf8
            | Self::TooLarge
            | Self::Disconnected
            | Self::Replaced => Retry::No,
            Self::NoHello | Self::NoHeartbeat | Self::TooSlow => Retry::Yes,
            Self::GoingAway
            | Self::Draining
            | Self::Overloaded
            | Self::RateLimited
            | Self::TooManySessions => Retry::AfterDelay,
            Self::BadToken | Self::TokenExpired => Retry::WithNewToken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_found_by_its_code() {
        for reason in CloseReason::ALL {
            assert_eq!(CloseReason::from_code(reason.code()), Some(reason));
        }
        assert_eq!(CloseReason::from_code(1006), None);
    }

    #[test]
    fn every_sentence_fits_a_close_frame_and_no_label_is_used_twice() {
        for (index, reason) in CloseReason::ALL.into_iter().enumerate() {
            assert!(reason.text().len() <= 123 && reason.text().ends_with('.'), "{reason:?}");
            assert!(CloseReason::ALL[..index].iter().all(|r| r.label() != reason.label()));
        }
    }

    #[test]
    fn a_client_that_was_told_to_stay_away_does_not_come_back() {
        assert_eq!(CloseReason::Disconnected.retry(), Retry::No);
        assert_eq!(CloseReason::TokenExpired.retry(), Retry::WithNewToken);
        assert_eq!(CloseReason::Draining.retry(), Retry::AfterDelay);
        assert_eq!(CloseReason::NoHeartbeat.retry(), Retry::Yes);
    }
}
