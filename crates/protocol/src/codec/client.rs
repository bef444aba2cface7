//! What a client may send, field by field.

use super::fields::{Fields, Wrong, quote};
use crate::message::{ClientMessage, ErrorCode, Hello};
use crate::status::Status;

/// Reads the message that `kind`, its `type`, names. Fields that it does not have are ignored.
pub(super) fn read(kind: &str, fields: &Fields) -> Result<ClientMessage, Wrong> {
    Ok(match kind {
        "heartbeat" => ClientMessage::Heartbeat,
        "watch" => ClientMessage::Watch {
            users: fields.required("users")?,
            id: fields.optional("id")?,
            grant: fields.optional("grant")?,
        },
        "unwatch" => ClientMessage::Unwatch { users: fields.required("users")? },
        "query" => ClientMessage::Query {
            users: fields.required("users")?,
            id: fields.optional("id")?,
            grant: fields.optional("grant")?,
        },
        "status" => ClientMessage::Status(status(fields)?),
        "hello" => ClientMessage::Hello(hello(fields)?),
        "bye" => ClientMessage::Bye,
        unknown => return Err(unknown_type(unknown)),
    })
}

fn hello(fields: &Fields) -> Result<Hello, Wrong> {
    Ok(Hello {
        token: fields.optional("token")?,
        user: fields.optional("user")?,
        device: fields.optional("device")?,
        show: fields.optional("show")?,
        text: fields.optional("text")?,
    })
}

fn status(fields: &Fields) -> Result<Status, Wrong> {
    Ok(Status { show: fields.required("show")?, text: fields.optional("text")? })
}

fn unknown_type(kind: &str) -> Wrong {
    let fault = format!(
        "type: a client sends hello, watch, unwatch, query, heartbeat, status or bye, not {}",
        quote(kind)
    );
    Wrong::new(ErrorCode::UnknownType, fault)
}
