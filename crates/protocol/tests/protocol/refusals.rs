//! What a refusal says, and what a hostile frame can and cannot do. Its codes are in `vectors.tsv`.

use presence_protocol::{
    ClientMessage, DECODE_MESSAGE_LEN_MAX, DecodeError, Format, NESTING_MAX, RequestId,
    decode_client, decode_gateway, encode_client,
};

fn refusal(json: &str) -> DecodeError {
    decode_client(Format::Json, json.as_bytes()).expect_err(json)
}

#[test]
fn a_refusal_says_which_field_was_wrong_and_what_would_be_right() {
    let table = [
        (
            r#"{"type":"watch","users":["a","b","c",""]}"#,
            "watch: users[3]: a user id is 1 to 128 bytes, this one is empty",
        ),
        (
            r#"{"type":"watch","users":["a",5]}"#,
            "watch: users[1]: expected a user id, a string of 1 to 128 bytes, found 5",
        ),
        (r#"{"type":"query"}"#, "query: users: expected a list of user ids, found nothing"),
        (
            r#"{"type":"watch","users":[],"id":-1}"#,
            "watch: id: expected an integer from 0 to 2^53-1 or a string of at most 64 bytes, \
             found a negative number",
        ),
        (
            r#"{"type":"watch","users":[],"id":9007199254740992}"#,
            "watch: id: a numeric id is an integer from 0 to 2^53-1, this one is 9007199254740992",
        ),
        (
            r#"{"type":"status","show":"dnd"}"#,
            "status: show: expected online, away, busy or invisible, found `dnd`",
        ),
        (
            r#"{"type":"status","show":"away","text":"a\nb"}"#,
            "status: text: a status text has no control characters, this one has U+000A",
        ),
        (
            r#"{"type":"hello","device":"iOS"}"#,
            "hello: device: a device is made of a-z, 0-9, _ and -, this one has 'O'",
        ),
        (r#"{"type":"hello","token":[]}"#, "hello: token: expected a string, found a list"),
        (r#"{"type":"bye","type":"bye"}"#, "type: the field is there twice"),
        (r"{}", "type: expected a string, found nothing"),
        (r"[]", "a message is a JSON object with a string `type`"),
        (
            r#"{"type":"subscribe"}"#,
            "type: a client sends hello, watch, unwatch, query, heartbeat, status or bye, not \
             `subscribe`",
        ),
    ];
    for (frame, sentence) in table {
        assert_eq!(refusal(frame).message, sentence);
    }
}

#[test]
fn a_frame_that_ends_too_early_is_refused_in_words_for_people() {
    let message =
        ClientMessage::Watch { users: Vec::new(), id: RequestId::text("x").ok(), grant: None };
    let whole = encode_client(Format::MsgPack, &message);
    for len in 1..whole.len() {
        let refusal = decode_client(Format::MsgPack, &whole[..len]).unwrap_err();
        assert_eq!(refusal.message, "not valid MessagePack: it ends too early", "{len} bytes");
    }
}

#[test]
fn a_refused_hello_is_known_as_one() {
    for (frame, is_hello) in [
        (r#"{"type":"hello","device":"iOS"}"#, true),
        (r#"{"user":5,"type":"hello"}"#, true),
        (r#"{"type":"hello","user":"#, true),
        (r#"{"type":"watch","users":5}"#, false),
        (r#"{"type":"hallo"}"#, false),
        (r#"{"hello":true}"#, false),
        (r#""hello""#, false),
    ] {
        assert_eq!(refusal(frame).is_hello, is_hello, "{frame}");
    }
}

#[test]
fn a_refused_state_is_named_by_its_place() {
    let frame = br#"{"type":"presence","users":[{"user":"bo","state":"gone","version":1}]}"#;
    let refusal = decode_gateway(Format::Json, frame).unwrap_err();
    assert_eq!(
        refusal.message,
        "presence: users[0].state: expected online or offline, found `gone`"
    );
}

#[test]
fn the_id_is_carried_over_whenever_it_could_be_read() {
    let seven = Some(RequestId::Number(7));
    for frame in [
        r#"{"type":"watch","users":5,"id":7}"#,
        r#"{"id":7,"type":"watch","users":[""]}"#,
        r#"{"type":"subscribe","id":7}"#,
        r#"{"id":7}"#,
        r#"{"id":7,"type":"watch","users":["#,
        r#"{"type":"heartbeat","id":7} {}"#,
    ] {
        assert_eq!(refusal(frame).id, seven, "{frame}");
    }
    assert_eq!(refusal(r#"{"type":"watch","id":[7]}"#).id, None);
    assert_eq!(refusal(r#"{"type":"watch","id":7,"id":8}"#).id, None);
}

#[test]
fn a_refusal_quotes_little_of_a_hostile_frame() {
    let long = "\u{e9}\u{1}".repeat(10_000);
    for frame in [
        serde_json::json!({ "type": long }),
        serde_json::json!({ "type": "status", "show": long }),
        serde_json::json!({ "type": "watch", "users": [long] }),
        serde_json::json!({ "type": "hello", "device": "d", "text": long }),
        serde_json::json!(long),
    ] {
        let refusal = refusal(&frame.to_string());
        assert!(refusal.message.len() <= DECODE_MESSAGE_LEN_MAX);
        assert!(refusal.message.matches('\u{e9}').count() <= 20, "{refusal}");
        assert!(!refusal.message.contains(char::is_control), "{refusal}");
    }
}

#[test]
fn nesting_is_allowed_to_its_limit_and_no_deeper() {
    for format in Format::ALL {
        let lists_inside_the_message = usize::from(NESTING_MAX) - 1;
        let allowed = heartbeat_with_nested_lists(format, lists_inside_the_message);
        assert_eq!(decode_client(format, &allowed), Ok(ClientMessage::Heartbeat));
        let refused = heartbeat_with_nested_lists(format, lists_inside_the_message + 1);
        let refusal = decode_client(format, &refused).unwrap_err();
        assert!(refusal.message.contains("nest at most 32 deep"), "{refusal}");
    }
}

#[test]
fn endless_nesting_does_not_need_a_large_stack() {
    let read = || {
        for format in Format::ALL {
            let frame = heartbeat_with_nested_lists(format, 1_000_000);
            decode_client(format, &frame).unwrap_err();
        }
    };
    std::thread::Builder::new().stack_size(128 * 1024).spawn(read).unwrap().join().unwrap();
}

#[test]
fn a_frame_of_tiny_values_is_read_without_fuss() {
    let mut frame = b"\x82\xa4type\xa9heartbeat\xa1x\xdd\x00\x10\x00\x00".to_vec();
    frame.resize(frame.len() + (1 << 20), 0xc0);
    assert_eq!(decode_client(Format::MsgPack, &frame), Ok(ClientMessage::Heartbeat));
}

#[test]
fn an_empty_frame_is_refused() {
    for format in Format::ALL {
        assert!(decode_client(format, b"").is_err());
        assert!(decode_gateway(format, b"").is_err());
    }
}

fn heartbeat_with_nested_lists(format: Format, depth: usize) -> Vec<u8> {
    match format {
        Format::Json => {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            format!(r#"{{"type":"heartbeat","x":{open}{close}}}"#).into_bytes()
        }
        Format::MsgPack => {
            let mut frame = b"\x82\xa4type\xa9heartbeat\xa1x".to_vec();
            frame.resize(frame.len() + depth - 1, 0x91);
            frame.push(0x90);
            frame
        }
    }
}
