//! `presence` and `snapshot`, read in one go.
//!
//! A tree of values costs far more, and who watches thousands reads little else. Whatever is not just as a gateway writes it
//! is left to the tree, which takes what may be taken, and says what is wrong with the rest: what is read here is what the
//! tree would give.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::value::parse_as;
use crate::format::Format;
use crate::ids::{Device, INTEGER_MAX, RequestId, UserId};
use crate::message::GatewayMessage;
use crate::state::{Availability, UserState};
use crate::status::{Show, StatusText};

/// None for any other message, and for one that is to be looked at more closely.
pub(super) fn read(format: Format, frame: &[u8]) -> Option<GatewayMessage> {
    parse_as(format, frame, Message).ok()
}

struct Message;

impl<'de> DeserializeSeed<'de> for Message {
    type Value = GatewayMessage;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<GatewayMessage, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Message {
    type Value = GatewayMessage;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a message with states")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<GatewayMessage, A::Error> {
        let (mut kind, mut id, mut users) = (None, None, None);
        while let Some(Text(name)) = fields.next_key()? {
            match name {
                "type" => once(&mut kind, fields.next_value::<Text>()?.0)?,
                "id" => once(&mut id, fields.next_value::<Option<Id>>()?)?,
                "users" => once(&mut users, fields.next_value::<List<State>>()?)?,
                _ => return Err(left_to_the_tree()),
            }
        }
        let users: List<State> = users.ok_or_else(left_to_the_tree)?;
        let users = users.0.into_iter().map(|state| state.0).collect();
        match kind {
            Some("presence") => Ok(GatewayMessage::Presence { users }),
            Some("snapshot") => {
                Ok(GatewayMessage::Snapshot { id: id.flatten().map(|id| id.0), users })
            }
            _ => Err(left_to_the_tree()),
        }
    }
}

struct State(UserState);

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(StateVisitor)
    }
}

struct StateVisitor;

impl<'de> Visitor<'de> for StateVisitor {
    type Value = State;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a state")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<State, A::Error> {
        let (mut user, mut state, mut version, mut since) = (None, None, None, None);
        let (mut show, mut text, mut devices) = (None, None, None);
        while let Some(Text(name)) = fields.next_key()? {
            match name {
                "user" => once(&mut user, fields.next_value::<Text>()?.0)?,
                "state" => once(&mut state, fields.next_value::<Text>()?.0)?,
                "version" => once(&mut version, fields.next_value::<u64>()?)?,
                "since" => once(&mut since, fields.next_value::<Option<u64>>()?)?,
                "show" => once(&mut show, fields.next_value::<Option<Text>>()?)?,
                "text" => once(&mut text, fields.next_value::<Option<Text>>()?)?,
                "devices" => once(&mut devices, fields.next_value::<Option<List<Text>>>()?)?,
                _ => return Err(left_to_the_tree()),
            }
        }
        let devices = devices.flatten().map_or_else(Vec::new, |labels| labels.0);
        let devices = devices.into_iter().map(|label| right(Device::new(label.0).ok()));
        let show = show.flatten().map(|word| right(Show::parse(word.0))).transpose()?;
        let text = text.flatten().map(|text| right(StatusText::new(text.0).ok())).transpose()?;
        Ok(State(UserState {
            user: right(UserId::new(right(user)?).ok())?,
            state: right(Availability::parse(right(state)?))?,
            version: integer(right(version)?)?,
            since: since.flatten().map(integer).transpose()?,
            show: show.filter(|show| show.is_written_in_states()),
            text,
            devices: devices.collect::<Result<_, _>>()?,
        }))
    }
}

/// A list that grows by what is really there, whatever length is claimed.
struct List<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Not as a sequence: for that, binary would do.
        from.deserialize_any(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<List<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(List(list))
    }
}

/// Text, and not binary that could be text.
struct Text<'de>(&'de str);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a text without escapes")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(text))
    }
}

struct Id(RequestId);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl<'de> Visitor<'de> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a request's id")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Id, E> {
        right(RequestId::number(number).ok()).map(Id)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Id, E> {
        right(RequestId::text(text).ok()).map(Id)
    }
}

fn once<T, E: Error>(place: &mut Option<T>, value: T) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(left_to_the_tree()),
    }
}

fn right<T, E: Error>(value: Option<T>) -> Result<T, E> {
    value.ok_or_else(left_to_the_tree)
}

fn integer<E: Error>(number: u64) -> Result<u64, E> {
    right(Some(number).filter(|number| *number <= INTEGER_MAX))
}

fn left_to_the_tree<E: Error>() -> E {
    E::custom("left to the tree")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::{decode, encode_gateway, gateway};

    fn state() -> impl Strategy<Value = UserState> {
        let words = (
            any::<bool>(),
            proptest::option::of(0..Show::ALL.len()),
            proptest::option::of(".{0,20}"),
        );
        let numbers = (0..=INTEGER_MAX, proptest::option::of(0..=INTEGER_MAX));
        let devices = proptest::collection::vec("[a-z0-9_-]{1,9}", 0..3);
        (".{1,20}", words, numbers, devices).prop_map(|(user, words, numbers, devices)| UserState {
            user: UserId::new(&user).expect("it is short enough"),
            state: if words.0 { Availability::Online } else { Availability::Offline },
            version: numbers.0,
            since: numbers.1,
            show: words.1.map(|place| Show::ALL[place]),
            text: words.2.and_then(|text| StatusText::new(&text).ok()),
            devices: devices.iter().map(|label| Device::new(label).expect("it is one")).collect(),
        })
    }

    fn message() -> impl Strategy<Value = GatewayMessage> {
        let ids = prop_oneof![
            (0..=INTEGER_MAX).prop_map(RequestId::Number),
            "[ -~]{0,9}".prop_map(|text| RequestId::Text(text.into())),
        ];
        let users = proptest::collection::vec(state(), 0..4);
        (users, proptest::option::of(ids), any::<bool>()).prop_map(|(users, id, pushed)| {
            if pushed {
                GatewayMessage::Presence { users }
            } else {
                GatewayMessage::Snapshot { id, users }
            }
        })
    }

    /// Some bytes of a frame are others, or gone, or there twice.
    fn garbled(frame: &[u8], at: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        for (place, byte, how) in at {
            let place = place.index(frame.len().max(1));
            match how % 4 {
                0 if !frame.is_empty() => drop(frame.remove(place)),
                1 => frame.insert(place, *byte),
                2 => frame.extend_from_within(place.min(frame.len())..),
                _ if !frame.is_empty() => frame[place] = *byte,
                _ => {}
            }
        }
        frame
    }

    proptest! {
        #[test]
        fn what_is_read_in_one_go_is_what_the_tree_gives(
            message in message(),
            at in proptest::collection::vec(any::<(prop::sample::Index, u8, u8)>(), 0..3),
        ) {
            for format in [Format::Json, Format::MsgPack] {
                let frame = garbled(&encode_gateway(format, &message), &at);
                if let Some(read) = read(format, &frame) {
                    prop_assert_eq!(Ok(read), decode(format, &frame, gateway::read));
                }
            }
        }
    }

    #[test]
    fn binary_is_no_text_and_no_list() {
        let state =
            |user: &[u8]| [b"\x83\xa4user", user, b"\xa5state\xa6online\xa7version\x01"].concat();
        let presence = |users: &[u8]| [b"\x82\xa4type\xa8presence\xa5users", users].concat();
        let of_one = |user: &[u8]| presence(&[b"\x91".to_vec(), state(user)].concat());
        assert!(read(Format::MsgPack, &of_one(b"\xa3ana")).is_some());
        assert_eq!(read(Format::MsgPack, &of_one(b"\xc4\x03ana")), None);
        assert_eq!(read(Format::MsgPack, &presence(b"\xc4\x00")), None);
    }

    #[test]
    fn frames_as_gateways_write_them_need_no_tree() {
        let user = UserId::new("ana").unwrap();
        let away = UserState {
            state: Availability::Online,
            version: 7,
            since: Some(5),
            show: Some(Show::Away),
            text: Some(StatusText::new("at lunch").unwrap()),
            devices: vec![Device::new("ios").unwrap()],
            ..UserState::never_seen(user.clone())
        };
        let users = vec![UserState::never_seen(user), away];
        for format in [Format::Json, Format::MsgPack] {
            for id in [None, Some(RequestId::Number(3)), Some(RequestId::Text("b".into()))] {
                let snapshot = GatewayMessage::Snapshot { id, users: users.clone() };
                assert_eq!(read(format, &encode_gateway(format, &snapshot)), Some(snapshot));
            }
            let push = GatewayMessage::Presence { users: users.clone() };
            assert_eq!(read(format, &encode_gateway(format, &push)), Some(push));
        }
    }
}
