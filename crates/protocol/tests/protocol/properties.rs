//! What holds for every message and for every sequence of bytes.

use presence_protocol::{
    DECODE_MESSAGE_LEN_MAX, DecodeError, ErrorCode, Format, GatewayMessage, States, UserState,
    decode_client, decode_gateway, encode_client, encode_gateway, encode_state, presence_frame,
    presence_frame_of_one, snapshot_frame,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::any;

proptest! {
    #[test]
    fn a_client_message_comes_back_as_it_was(
        format in any::format(),
        message in any::client_message(),
    ) {
        let frame = encode_client(format, &message);
        prop_assert_eq!(decode_client(format, &frame), Ok(message));
    }

    #[test]
    fn a_gateway_message_comes_back_as_it_was(
        format in any::format(),
        message in any::gateway_message(),
    ) {
        let frame = encode_gateway(format, &message);
        prop_assert_eq!(decode_gateway(format, &frame), Ok(message));
    }

    #[test]
    fn a_presence_frame_is_byte_for_byte_the_encoded_message(
        format in any::format(),
        users in any::states(),
    ) {
        let frame = presence_frame(&encoded(format, &users));
        prop_assert_eq!(frame, encode_gateway(format, &GatewayMessage::Presence { users }));
    }

    #[test]
    fn a_frame_of_one_state_is_that_frame_and_the_state_is_in_it(
        format in any::format(),
        state in any::state(),
    ) {
        let (frame, fragment) = presence_frame_of_one(format, &state);
        prop_assert_eq!(&fragment, &encode_state(format, &state));
        prop_assert_eq!(&frame, &presence_frame(&encoded(format, &[state])));
        prop_assert!(frame.as_ptr_range().contains(&fragment.as_ptr()), "they share their bytes");
    }

    #[test]
    fn a_snapshot_frame_is_byte_for_byte_the_encoded_message(
        format in any::format(),
        id in proptest::option::of(any::id()),
        users in any::states(),
    ) {
        let frame = snapshot_frame(id.as_ref(), &encoded(format, &users));
        prop_assert_eq!(frame, encode_gateway(format, &GatewayMessage::Snapshot { id, users }));
    }

    #[test]
    fn a_state_read_by_serde_is_the_state_written(state in any::state()) {
        let json = encode_state(Format::Json, &state);
        prop_assert_eq!(serde_json::from_slice::<UserState>(&json).unwrap(), state.clone());
        let msgpack = encode_state(Format::MsgPack, &state);
        prop_assert_eq!(rmp_serde::from_slice::<UserState>(&msgpack).unwrap(), state);
    }

    #[test]
    fn random_bytes_are_refused(format in any::format(), frame in vec(any::<u8>(), 0..300)) {
        is_a_fair_refusal(&decode_client(format, &frame).unwrap_err())?;
        is_a_fair_refusal(&decode_gateway(format, &frame).unwrap_err())?;
    }

    #[test]
    fn a_mutated_client_frame_is_read_or_refused(
        format in any::format(),
        message in any::client_message(),
        mutations in vec(mutation(), 1..6),
    ) {
        let frame = mutated(&encode_client(format, &message), &mutations);
        match decode_client(format, &frame) {
            Ok(read) => {
                let again = encode_client(format, &read);
                prop_assert_eq!(decode_client(format, &again), Ok(read));
            }
            Err(refusal) => is_a_fair_refusal(&refusal)?,
        }
    }

    #[test]
    fn a_mutated_gateway_frame_is_read_or_refused(
        format in any::format(),
        message in any::gateway_message(),
        mutations in vec(mutation(), 1..6),
    ) {
        let frame = mutated(&encode_gateway(format, &message), &mutations);
        match decode_gateway(format, &frame) {
            Ok(read) => {
                let again = encode_gateway(format, &read);
                prop_assert_eq!(decode_gateway(format, &again), Ok(read));
            }
            Err(refusal) => is_a_fair_refusal(&refusal)?,
        }
    }

    #[test]
    fn a_frame_cut_short_is_refused(
        format in any::format(),
        message in any::client_message(),
        cut in any::<Index>(),
    ) {
        let frame = encode_client(format, &message);
        is_a_fair_refusal(&decode_client(format, &frame[..cut.index(frame.len())]).unwrap_err())?;
    }
}

#[test]
fn assembled_lists_of_every_header_size_equal_the_encoded_message() {
    for len in [0, 1, 15, 16, 17, 65_535, 65_536] {
        let user = |n| presence_protocol::UserId::new(&format!("u{n}")).unwrap();
        let users: Vec<_> = (0..len).map(|n| UserState::never_seen(user(n))).collect();
        for format in Format::ALL {
            let frame = presence_frame(&encoded(format, &users));
            let message = GatewayMessage::Presence { users: users.clone() };
            assert!(frame == encode_gateway(format, &message), "{format:?} with {len}");
            assert_eq!(decode_gateway(format, &frame).unwrap(), message);
        }
    }
}

fn encoded(format: Format, users: &[UserState]) -> States {
    let mut states = States::with_room_for(users.len(), format);
    for state in users {
        states.push(&encode_state(format, state));
    }
    states
}

/// Short enough to send, and of a code that a decoder may answer.
fn is_a_fair_refusal(refusal: &DecodeError) -> Result<(), TestCaseError> {
    prop_assert!(!refusal.message.is_empty() && refusal.message.len() <= DECODE_MESSAGE_LEN_MAX);
    let codes = [ErrorCode::BadMessage, ErrorCode::BadUserId, ErrorCode::UnknownType];
    prop_assert!(codes.contains(&refusal.code));
    Ok(())
}

#[derive(Clone, Debug)]
enum Mutation {
    Replace(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    Truncate(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        any::<(Index, u8)>().prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        any::<(Index, u8)>().prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        any::<Index>().prop_map(Mutation::Remove),
        any::<Index>().prop_map(Mutation::Truncate),
    ]
}

fn mutated(frame: &[u8], mutations: &[Mutation]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for mutation in mutations {
        match mutation {
            _ if frame.is_empty() => {}
            Mutation::Replace(at, byte) => *at.get_mut(&mut frame) = *byte,
            Mutation::Insert(at, byte) => frame.insert(at.index(frame.len()), *byte),
            Mutation::Remove(at) => drop(frame.remove(at.index(frame.len()))),
            Mutation::Truncate(at) => frame.truncate(at.index(frame.len())),
        }
    }
    frame
}
