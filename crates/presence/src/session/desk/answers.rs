//! Answers and refusals on their way to a client's outbox, which holds only so many.

use bytes::Bytes;
use presence_protocol::{ErrorCode, ErrorMessage, GatewayMessage, RequestId, encode_gateway};
use tracing::debug;

use super::Asked;
use super::queue::LEN_MAX;
use crate::engine::Core;
use crate::session::outbox::Outbox;
use crate::watch::UserRef;

/// An answer that carries the latest state of these users, so that they need not be pushed as well. When too many answers
/// wait already it is dropped, and they are pushed after all.
pub(crate) fn answer(
    core: &Core,
    outbox: &Outbox,
    covered: &[UserRef],
    encode: impl FnOnce() -> Bytes,
) {
    if !outbox.reply_with(core.config.unsent_bytes_max, covered, encode) {
        core.metrics.answers_dropped.inc();
    }
}

/// More users than a watch list holds.
pub(super) fn refuse_long(core: &Core, outbox: &Outbox, asked: Asked) {
    let Asked { what, users_len, id } = asked;
    let max = core.config.watch_len_max;
    let message = format!("{what}: at most {max} users at a time, {users_len} were named");
    refuse(core, outbox, ErrorCode::TooManyWatches, message, id);
}

/// Too many requests wait, or requests that name too many users.
pub(super) fn refuse_busy(core: &Core, outbox: &Outbox, asked: Asked) {
    let message =
        format!("at most {LEN_MAX} requests may wait for an answer, and not with many users each");
    refuse(core, outbox, ErrorCode::RateLimited, message, asked.id);
}

pub(super) fn refuse(
    core: &Core,
    outbox: &Outbox,
    why: ErrorCode,
    message: String,
    id: Option<RequestId>,
) {
    refuse_with(core, outbox, ErrorMessage { code: why, message, id, users: Vec::new() });
}

/// Every refusal of a session's message goes this way, and is counted.
pub(crate) fn refuse_with(core: &Core, outbox: &Outbox, error: ErrorMessage) {
    debug!(
        session = outbox.origin.number,
        code = error.code.as_str(),
        message = error.message,
        "refused"
    );
    core.metrics.refused_messages.get_or_create(&error.code.into()).inc();
    answer(core, outbox, &[], || encode_gateway(outbox.format, &GatewayMessage::Error(error)));
}
