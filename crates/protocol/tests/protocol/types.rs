//! The rules of the small types, and what they never show.

use std::collections::HashSet;

use presence_protocol::{
    Availability, Device, DeviceError, ErrorCode, Format, Hello, INTEGER_MAX, RequestId, Show,
    Status, StatusText, UserId, UserIdError, UserState, encode_state,
};

#[test]
fn a_user_id_is_1_to_128_bytes_of_any_text() {
    for id in ["u", "žofie", "\0", " ", &"u".repeat(128), &"é".repeat(64)] {
        assert_eq!(UserId::new(id).unwrap().as_str(), id);
    }
    assert_eq!(UserId::new(""), Err(UserIdError::Empty));
    assert_eq!(UserId::new(&"u".repeat(129)), Err(UserIdError::TooLong { len: 129 }));
}

#[test]
fn a_user_id_is_16_bytes_and_is_found_by_its_text() {
    assert_eq!(size_of::<UserId>(), 16);
    let users: HashSet<_> = ["ana", "bo"].map(|id| UserId::new(id).unwrap()).into();
    assert!(users.contains("ana") && !users.contains("cy"));
}

#[test]
fn a_device_is_1_to_32_bytes_of_a_few_characters() {
    for label in ["ios", "web_2-b", "0", &"d".repeat(32)] {
        assert_eq!(Device::new(label).unwrap().as_str(), label);
    }
    assert_eq!(Device::new(""), Err(DeviceError::Length { len: 0 }));
    assert_eq!(Device::new(&"d".repeat(33)), Err(DeviceError::Length { len: 33 }));
    for (label, found) in [("iOS", 'O'), ("a b", ' '), ("é", 'é'), ("a.b", '.')] {
        assert_eq!(Device::new(label), Err(DeviceError::Character { found }));
    }
}

#[test]
fn a_status_text_is_at_most_256_bytes_without_control_characters() {
    for text in ["", "in a meeting", "☕", &"t".repeat(256)] {
        assert_eq!(StatusText::new(text).unwrap().as_str(), text);
    }
    for text in ["t".repeat(257), "a\nb".into(), "\u{7f}".into(), "\u{85}".into()] {
        assert!(StatusText::new(&text).is_err(), "{text:?}");
    }
}

#[test]
fn serde_lets_nothing_past_the_rules() {
    assert!(serde_json::from_str::<UserId>(r#""""#).is_err());
    assert!(serde_json::from_str::<Device>(r#""iOS""#).is_err());
    assert!(serde_json::from_str::<StatusText>(r#""a\nb""#).is_err());
    assert!(serde_json::from_str::<Status>(r#"{"text":"no show"}"#).is_err());
    for id in ["-1", "1.5", "9007199254740992", "null", "true", "[1]"] {
        assert!(serde_json::from_str::<RequestId>(id).is_err(), "{id}");
    }
}

#[test]
fn a_request_id_keeps_its_kind() {
    for (json, id) in [
        ("7", RequestId::Number(7)),
        (r#""7""#, RequestId::Text("7".into())),
        ("9007199254740991", RequestId::Number(INTEGER_MAX)),
    ] {
        assert_eq!(serde_json::from_str::<RequestId>(json).unwrap(), id);
        assert_eq!(serde_json::to_string(&id).unwrap(), json);
    }
    assert!(RequestId::number(INTEGER_MAX + 1).is_err());
    assert!(RequestId::text(&"i".repeat(65)).is_err());
}

#[test]
fn a_state_never_writes_invisible_and_never_needs_to_write_online() {
    let mut state = UserState::never_seen(UserId::new("bo").unwrap());
    let plain = encode_state(Format::Json, &state);
    assert_eq!(plain, r#"{"user":"bo","state":"offline","version":0}"#);
    for show in [Show::Online, Show::Invisible] {
        state.show = Some(show);
        for format in Format::ALL {
            let written = encode_state(format, &state);
            state.show = None;
            assert_eq!(written, encode_state(format, &state));
            state.show = Some(show);
        }
    }
}

#[test]
fn an_invisible_state_is_not_read_either() {
    let json = r#"{"user":"bo","state":"online","version":1,"show":"invisible"}"#;
    assert_eq!(serde_json::from_str::<UserState>(json).unwrap().show, None);
}

#[test]
fn debug_of_hello_hides_the_token() {
    let hello = Hello { token: Some("c2VjcmV0".into()), ..Hello::default() };
    let shown = format!("{hello:?}");
    assert!(!shown.contains("c2VjcmV0") && shown.contains("hidden"), "{shown}");
}

#[test]
fn words_on_the_wire_are_those_of_serde() {
    for show in Show::ALL {
        assert_eq!(serde_json::to_value(show).unwrap(), show.as_str());
        assert_eq!(Show::parse(show.as_str()), Some(show));
    }
    for code in ErrorCode::ALL {
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        assert_eq!(ErrorCode::parse(code.as_str()), Some(code));
    }
    for state in [Availability::Online, Availability::Offline] {
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        assert_eq!(Availability::parse(state.as_str()), Some(state));
    }
    assert_eq!(Show::parse("Online"), None);
}
