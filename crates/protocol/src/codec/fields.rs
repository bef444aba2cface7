//! Picking typed fields out of a map, and saying precisely what was wrong with one.

use std::fmt;

use super::value::{Map, Value};
use crate::message::ErrorCode;

/// How much of the peer's own text a refusal quotes, in bytes.
const QUOTE_LEN_MAX: usize = 40;

/// What is wrong with one field, and where: the path grows on the way out.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) code: ErrorCode,
    path: String,
    fault: String,
}

impl Wrong {
    pub(super) fn new(code: ErrorCode, fault: impl fmt::Display) -> Self {
        Self { code, path: String::new(), fault: fault.to_string() }
    }

    /// A value that breaks its own rule, or is of the wrong kind.
    pub(super) fn bad_message(fault: impl fmt::Display) -> Self {
        Self::new(ErrorCode::BadMessage, fault)
    }

    pub(super) fn expected(right: &str, found: impl fmt::Display) -> Self {
        Self::bad_message(format_args!("expected {right}, found {found}"))
    }

    /// Puts the name of the field it was found in before its path.
    pub(super) fn within(mut self, field: &str) -> Self {
        let join = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{field}{join}{}", self.path);
        self
    }

    /// Puts the index of the list item it was found in before its path.
    fn at(self, index: usize) -> Self {
        self.within(&format!("[{index}]"))
    }

    /// Puts the message it was found in before its path.
    pub(super) fn of_message(mut self, kind: &str) -> Self {
        self.path = format!("{kind}: {}", self.path);
        self
    }
}

/// `watch: users[3]: expected ..., found ...`
impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.fault)
    }
}

/// A type that a field can have.
pub(super) trait Field: Sized {
    /// What would be right, after the word "expected".
    const EXPECTED: &'static str;
    /// What would be right of a list of these.
    const EXPECTED_LIST: &'static str = "a list";

    fn read(value: &Value) -> Result<Self, Wrong>;
}

impl<T: Field> Field for Vec<T> {
    const EXPECTED: &'static str = T::EXPECTED_LIST;

    fn read(value: &Value) -> Result<Self, Wrong> {
        let Value::List(items) = value else {
            return Err(Wrong::expected(Self::EXPECTED, value));
        };
        let read_item = |(index, item)| T::read(item).map_err(|wrong| wrong.at(index));
        items.iter().enumerate().map(read_item).collect()
    }
}

/// The fields of a message or of a state.
#[derive(Clone, Copy)]
pub(super) struct Fields<'f, 'de>(&'f [(Value<'de>, Value<'de>)]);

impl<'f, 'de> Fields<'f, 'de> {
    pub(super) fn of(map: &'f Map<'de>) -> Self {
        Self(map)
    }

    /// The `type` of the message.
    pub(super) fn message_type(&self) -> Result<&'f str, Wrong> {
        match self.find("type")? {
            Some(Value::Text(kind)) => Ok(kind),
            Some(other) => Err(Wrong::expected("a string", other).within("type")),
            None => Err(Wrong::expected("a string", "nothing").within("type")),
        }
    }

    /// A field that must be there.
    pub(super) fn required<T: Field>(&self, name: &str) -> Result<T, Wrong> {
        let found = match self.find(name)? {
            Some(value) => T::read(value),
            None => Err(Wrong::expected(T::EXPECTED, "nothing")),
        };
        found.map_err(|wrong| wrong.within(name))
    }

    /// A field that may be absent, for which null stands as well.
    pub(super) fn optional<T: Field>(&self, name: &str) -> Result<Option<T>, Wrong> {
        match self.find(name)? {
            None | Some(Value::Null) => Ok(None),
            Some(value) => T::read(value).map(Some).map_err(|wrong| wrong.within(name)),
        }
    }

    fn find(&self, name: &str) -> Result<Option<&'f Value<'de>>, Wrong> {
        let is_named = |key: &Value| matches!(key, Value::Text(text) if text == name);
        let mut values = self.0.iter().filter(|(key, _)| is_named(key)).map(|(_, value)| value);
        let first = values.next();
        match values.next() {
            None => Ok(first),
            Some(_) => Err(Wrong::bad_message("the field is there twice").within(name)),
        }
    }
}

/// What was found instead, in a few words and with little of the peer's own text.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Integer(number) => return write!(f, "{number}"),
            Self::Negative => "a negative number",
            Self::Float => "a floating-point number",
            Self::Text(_) => "a string",
            Self::Binary => "bytes that are not text",
            Self::Extension => "a MessagePack extension",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        })
    }
}

/// The start of the peer's own text in backquotes, with nothing in it that could garble a log.
pub(super) fn quote(text: &str) -> String {
    let start = clip(text, QUOTE_LEN_MAX);
    let more = if start.len() < text.len() { "..." } else { "" };
    format!("`{}{more}`", start.replace(char::is_control, "?"))
}

/// The longest start of a text that fits in so many bytes.
pub(super) fn clip(text: &str, len_max: usize) -> &str {
    &text[..text.floor_char_boundary(len_max)]
}
