//! Any message there can be, for the properties. No assertions here.

use presence_protocol::{
    Availability, ClientMessage, Device, ErrorCode, ErrorMessage, Format, GatewayMessage, Grant,
    Hello, INTEGER_MAX, RequestId, SessionId, Show, Status, StatusText, UserId, UserState, Welcome,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn format() -> impl Strategy<Value = Format> {
    select(&Format::ALL)
}

/// Short ids and long ones, of any characters at all.
pub(crate) fn user() -> impl Strategy<Value = UserId> {
    prop_oneof!["[a-z]{1,8}", "(?s).{1,32}", "[ -~]{100,128}"]
        .prop_map(|id| UserId::new(&id).expect("at most 32 characters of at most 4 bytes"))
}

fn users() -> impl Strategy<Value = Vec<UserId>> {
    vec(user(), 0..20)
}

/// Integers of every encoded size.
fn integer() -> impl Strategy<Value = u64> {
    (0..=INTEGER_MAX, 0..53_u32).prop_map(|(number, shift)| number >> shift)
}

pub(crate) fn id() -> impl Strategy<Value = RequestId> {
    prop_oneof![
        integer().prop_map(RequestId::Number),
        "(?s).{0,16}".prop_map(|text| RequestId::Text(text.into())),
    ]
}

fn device() -> impl Strategy<Value = Device> {
    "[a-z0-9_-]{1,32}".prop_map(|label| Device::new(&label).expect("within the rule"))
}

fn text() -> impl Strategy<Value = StatusText> {
    "\\PC{0,64}".prop_map(|text| StatusText::new(&text).expect("at most 64 of at most 4 bytes"))
}

fn show() -> impl Strategy<Value = Show> {
    select(&Show::ALL)
}

prop_compose! {
    fn hello()(
        token in of(".{0,300}"),
        user in of(user()),
        device in of(device()),
        show in of(show()),
        text in of(text()),
    ) -> Hello {
        Hello { token, user, device, show, text }
    }
}

prop_compose! {
    pub(crate) fn state()(
        user in user(),
        state in select(&[Availability::Online, Availability::Offline]),
        version in integer(),
        since in of(integer()),
        show in of(select(&[Show::Away, Show::Busy])),
        text in of(text()),
        devices in vec(device(), 0..4),
    ) -> UserState {
        UserState { user, state, version, since, show, text, devices }
    }
}

pub(crate) fn states() -> impl Strategy<Value = Vec<UserState>> {
    vec(state(), 0..20)
}

prop_compose! {
    fn welcome()(
        user in user(),
        session in ".{0,40}",
        [heartbeat_ms, ttl_ms, grace_ms, max_watch] in [integer(), integer(), integer(), integer()],
    ) -> Welcome {
        let session = SessionId::new(session);
        Welcome { user, session, heartbeat_ms, ttl_ms, grace_ms, max_watch }
    }
}

prop_compose! {
    fn error()(
        code in select(&ErrorCode::ALL),
        message in ".{0,80}",
        id in of(id()),
        users in users(),
    ) -> ErrorMessage {
        ErrorMessage { code, message, id, users }
    }
}

fn grant() -> impl Strategy<Value = Grant> {
    ".{0,40}".prop_map(Grant::new)
}

pub(crate) fn client_message() -> impl Strategy<Value = ClientMessage> {
    prop_oneof![
        hello().prop_map(ClientMessage::Hello),
        (users(), of(id()), of(grant())).prop_map(|(users, id, grant)| ClientMessage::Watch {
            users,
            id,
            grant
        }),
        users().prop_map(|users| ClientMessage::Unwatch { users }),
        (users(), of(id()), of(grant())).prop_map(|(users, id, grant)| ClientMessage::Query {
            users,
            id,
            grant
        }),
        Just(ClientMessage::Heartbeat),
        (show(), of(text())).prop_map(|(show, text)| ClientMessage::Status(Status { show, text })),
        Just(ClientMessage::Bye),
    ]
}

pub(crate) fn gateway_message() -> impl Strategy<Value = GatewayMessage> {
    prop_oneof![
        welcome().prop_map(GatewayMessage::Welcome),
        (of(id()), states()).prop_map(|(id, users)| GatewayMessage::Snapshot { id, users }),
        states().prop_map(|users| GatewayMessage::Presence { users }),
        of(integer()).prop_map(|since| GatewayMessage::Degraded { since }),
        integer().prop_map(|ms| GatewayMessage::Draining { reconnect_after_ms: ms }),
        error().prop_map(GatewayMessage::Error),
    ]
}
