//! A frame as a tree of values, borrowed from the frame where its format allows.
//!
//! Nothing is reserved on a length that the peer claims: lists grow by the values that are really
//! there, so the tree takes at most some 64 bytes per byte of the frame, and only while it is read.

use std::borrow::Cow;
use std::fmt;

use rmp_serde::decode::Error as MsgPackError;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::format::Format;

/// How deep lists and maps may nest, the message's own map included.
pub const NESTING_MAX: u8 = 32;

/// A map in the order of the frame. Keys may be of any kind: those that are no text are ignored.
pub(super) type Map<'de> = Vec<(Value<'de>, Value<'de>)>;

/// What a field holds.
#[derive(Debug)]
pub(super) enum Value<'de> {
    Null,
    Bool,
    Integer(u64),
    Negative,
    Float,
    Text(Cow<'de, str>),
    /// `MessagePack` binary, or a `MessagePack` string that is not UTF-8.
    Binary,
    /// A `MessagePack` extension.
    Extension,
    List(Vec<Self>),
    Map(Map<'de>),
}

/// Reads the whole frame into `map`. After a fault, a sentence, `map` keeps what came before it.
pub(super) fn parse<'de>(
    format: Format,
    frame: &'de [u8],
    map: &mut Map<'de>,
) -> Result<(), String> {
    parse_as(format, frame, MessageMap(map))
}

/// Reads the whole frame, which is a map, as `seed` does. A fault is told as a sentence.
pub(super) fn parse_as<'de, S: DeserializeSeed<'de>>(
    format: Format,
    frame: &'de [u8],
    seed: S,
) -> Result<S::Value, String> {
    match format {
        Format::Json => parse_json(frame, seed),
        Format::MsgPack => parse_msgpack(frame, seed),
    }
}

fn parse_json<'de, S: DeserializeSeed<'de>>(frame: &'de [u8], seed: S) -> Result<S::Value, String> {
    if frame.trim_ascii_start().first() != Some(&b'{') {
        return Err("a message is a JSON object with a string `type`".to_owned());
    }
    let mut from = serde_json::Deserializer::from_slice(frame);
    let read = seed.deserialize(&mut from).and_then(|read| from.end().map(|()| read));
    read.map_err(|error| format!("not valid JSON: {error}"))
}

fn parse_msgpack<'de, S: DeserializeSeed<'de>>(
    frame: &'de [u8],
    seed: S,
) -> Result<S::Value, String> {
    if !matches!(frame.first(), Some(0x80..=0x8f | 0xde | 0xdf)) {
        return Err("a message is a MessagePack map with a string `type`".to_owned());
    }
    let mut from = rmp_serde::Deserializer::from_read_ref(frame);
    let read = seed.deserialize(&mut from).map_err(|error| match error {
        // Of a frame that is whole in memory nothing else can fail to be read.
        MsgPackError::InvalidMarkerRead(_) | MsgPackError::InvalidDataRead(_) => {
            "not valid MessagePack: it ends too early".to_owned()
        }
        error => format!("not valid MessagePack: {error}"),
    })?;
    // The reader does not tell where it stands, but only at the end does the next marker fail.
    match u8::deserialize(&mut from) {
        Err(MsgPackError::InvalidMarkerRead(_)) => Ok(read),
        _ => Err("not valid MessagePack: bytes follow after the message".to_owned()),
    }
}

/// Reads the outermost map into a place that outlives a fault.
struct MessageMap<'m, 'de>(&'m mut Map<'de>);

impl<'de> DeserializeSeed<'de> for MessageMap<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MessageMap<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<(), A::Error> {
        AnyValue { nesting_left: NESTING_MAX }.read_map(entries, self.0)
    }
}

/// Reads one value of whatever kind.
#[derive(Clone, Copy)]
struct AnyValue {
    nesting_left: u8,
}

impl AnyValue {
    /// For what is inside a list or map of this level.
    fn inner<E: Error>(self) -> Result<Self, E> {
        let too_deep = || E::custom(format_args!("lists and maps nest at most {NESTING_MAX} deep"));
        let nesting_left = self.nesting_left.checked_sub(1).ok_or_else(too_deep)?;
        Ok(Self { nesting_left })
    }

    fn read_map<'de, A: MapAccess<'de>>(
        self,
        mut entries: A,
        map: &mut Map<'de>,
    ) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while let Some(key) = entries.next_key_seed(inner)? {
            map.push((key, entries.next_value_seed(inner)?));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value<'de>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value<'de>, E> {
        Ok(Value::Integer(number))
    }

    /// `MessagePack` may write a positive integer in a signed form.
    fn visit_i64<E>(self, number: i64) -> Result<Value<'de>, E> {
        Ok(u64::try_from(number).map_or(Value::Negative, Value::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value<'de>, E> {
        Ok(Value::Float)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Value<'de>, E> {
        Ok(Value::Binary)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<Value<'de>, D::Error> {
        IgnoredAny::deserialize(from).map(|_| Value::Extension)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value<'de>, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Value<'de>, A::Error> {
        let mut map = Map::new();
        self.read_map(entries, &mut map)?;
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_small_enough_for_what_the_module_promises() {
        assert!(size_of::<Value>() <= 32);
    }
}
