//! What a gateway may send, field by field.

use super::fields::{Fields, Wrong, quote};
use crate::message::{ErrorCode, ErrorMessage, GatewayMessage, Welcome};

/// Reads the message that `kind`, its `type`, names. Fields that it does not have are ignored.
pub(super) fn read(kind: &str, fields: &Fields) -> Result<GatewayMessage, Wrong> {
    Ok(match kind {
        "presence" => GatewayMessage::Presence { users: fields.required("users")? },
        "snapshot" => GatewayMessage::Snapshot {
            id: fields.optional("id")?,
            users: fields.required("users")?,
        },
        "welcome" => GatewayMessage::Welcome(welcome(fields)?),
        "degraded" => GatewayMessage::Degraded { since: fields.optional("since")? },
        "draining" => {
            GatewayMessage::Draining { reconnect_after_ms: fields.required("reconnect_after_ms")? }
        }
        "error" => GatewayMessage::Error(error(fields)?),
        unknown => return Err(unknown_type(unknown)),
    })
}

fn welcome(fields: &Fields) -> Result<Welcome, Wrong> {
    Ok(Welcome {
        user: fields.required("user")?,
        session: fields.required("session")?,
        heartbeat_ms: fields.required("heartbeat_ms")?,
        ttl_ms: fields.required("ttl_ms")?,
        grace_ms: fields.required("grace_ms")?,
        max_watch: fields.required("max_watch")?,
    })
}

fn error(fields: &Fields) -> Result<ErrorMessage, Wrong> {
    Ok(ErrorMessage {
        code: fields.required("code")?,
        message: fields.required("message")?,
        id: fields.optional("id")?,
        users: fields.optional("users")?.unwrap_or_default(),
    })
}

fn unknown_type(kind: &str) -> Wrong {
    let fault = format!(
        "type: a gateway sends welcome, snapshot, presence, degraded, draining or error, not {}",
        quote(kind)
    );
    Wrong::new(ErrorCode::UnknownType, fault)
}
