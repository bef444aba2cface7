//! How each type that a field can have is read, and what is said when it cannot be.

use super::fields::{Field, Fields, Wrong, quote};
use super::value::Value;
use crate::grant::Grant;
use crate::ids::{Device, INTEGER_MAX, RequestId, SessionId, UserId};
use crate::message::ErrorCode;
use crate::state::{Availability, UserState};
use crate::status::{Show, StatusText};

/// The text of a field that must be one.
fn text<'v, T: Field>(value: &'v Value) -> Result<&'v str, Wrong> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(Wrong::expected(T::EXPECTED, other)),
    }
}

/// The one word of a closed set that a field must hold.
fn word<T: Field>(value: &Value, parse: fn(&str) -> Option<T>) -> Result<T, Wrong> {
    let word = text::<T>(value)?;
    parse(word).ok_or_else(|| Wrong::expected(T::EXPECTED, quote(word)))
}

impl Field for String {
    const EXPECTED: &'static str = "a string";

    fn read(value: &Value) -> Result<Self, Wrong> {
        text::<Self>(value).map(str::to_owned)
    }
}

impl Field for Grant {
    const EXPECTED: &'static str = String::EXPECTED;

    fn read(value: &Value) -> Result<Self, Wrong> {
        String::read(value).map(Self::new)
    }
}

impl Field for u64 {
    const EXPECTED: &'static str = "an integer from 0 to 2^53-1";

    fn read(value: &Value) -> Result<Self, Wrong> {
        match value {
            Value::Integer(number @ 0..=INTEGER_MAX) => Ok(*number),
            other => Err(Wrong::expected(Self::EXPECTED, other)),
        }
    }
}

impl Field for UserId {
    const EXPECTED: &'static str = "a user id, a string of 1 to 128 bytes";
    const EXPECTED_LIST: &'static str = "a list of user ids";

    fn read(value: &Value) -> Result<Self, Wrong> {
        let id = text::<Self>(value)?;
        Self::new(id).map_err(|error| Wrong::new(ErrorCode::BadUserId, error))
    }
}

impl Field for SessionId {
    const EXPECTED: &'static str = "a string";

    fn read(value: &Value) -> Result<Self, Wrong> {
        String::read(value).map(Self::new)
    }
}

impl Field for Device {
    const EXPECTED: &'static str = "a string of 1 to 32 bytes of a-z, 0-9, _ and -";
    const EXPECTED_LIST: &'static str = "a list of device labels";

    fn read(value: &Value) -> Result<Self, Wrong> {
        Self::new(text::<Self>(value)?).map_err(Wrong::bad_message)
    }
}

impl Field for RequestId {
    const EXPECTED: &'static str = "an integer from 0 to 2^53-1 or a string of at most 64 bytes";

    fn read(value: &Value) -> Result<Self, Wrong> {
        match value {
            Value::Integer(number) => Self::number(*number).map_err(Wrong::bad_message),
            Value::Text(text) => Self::text(text).map_err(Wrong::bad_message),
            other => Err(Wrong::expected(Self::EXPECTED, other)),
        }
    }
}

impl Field for Show {
    const EXPECTED: &'static str = "online, away, busy or invisible";

    fn read(value: &Value) -> Result<Self, Wrong> {
        word(value, Self::parse)
    }
}

impl Field for StatusText {
    const EXPECTED: &'static str = "a string of at most 256 bytes without control characters";

    fn read(value: &Value) -> Result<Self, Wrong> {
        Self::new(text::<Self>(value)?).map_err(Wrong::bad_message)
    }
}

impl Field for Availability {
    const EXPECTED: &'static str = "online or offline";

    fn read(value: &Value) -> Result<Self, Wrong> {
        word(value, Self::parse)
    }
}

impl Field for ErrorCode {
    const EXPECTED: &'static str = "an error code";

    fn read(value: &Value) -> Result<Self, Wrong> {
        word(value, Self::parse)
    }
}

impl Field for UserState {
    const EXPECTED: &'static str = "a state, a map with user, state and version";
    const EXPECTED_LIST: &'static str = "a list of states";

    fn read(value: &Value) -> Result<Self, Wrong> {
        let Value::Map(map) = value else {
            return Err(Wrong::expected(Self::EXPECTED, value));
        };
        let fields = Fields::of(map);
        Ok(Self {
            user: fields.required("user")?,
            state: fields.required("state")?,
            version: fields.required("version")?,
            since: fields.optional("since")?,
            show: fields.optional("show")?.filter(|show: &Show| show.is_written_in_states()),
            text: fields.optional("text")?,
            devices: fields.optional("devices")?.unwrap_or_default(),
        })
    }
}
