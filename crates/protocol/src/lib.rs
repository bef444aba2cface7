//! What a client and a gateway say to each other: messages, states, close codes and both encodings.
//!
//! Pure data and pure functions: no I/O, no clock, no tokio.
//! The contract in prose is `docs/protocol.md`; `vectors.tsv` in this crate holds it to examples.

mod close;
mod codec;
mod format;
mod frame;
mod grant;
mod ids;
mod message;
mod state;
mod status;
mod text;

pub use close::{CloseReason, Retry};
pub use codec::{
    DECODE_MESSAGE_LEN_MAX, DecodeError, NESTING_MAX, decode_client, decode_gateway, encode_client,
    encode_gateway,
};
pub use format::{
    Format, NegotiateError, Negotiated, SUBPROTOCOL_JSON, SUBPROTOCOL_MSGPACK, negotiate,
};
pub use frame::{States, encode_state, presence_frame, presence_frame_of_one, snapshot_frame};
pub use grant::Grant;
pub use ids::{
    DEVICE_LEN_MAX, Device, DeviceError, INTEGER_MAX, REQUEST_ID_LEN_MAX, RequestId,
    RequestIdError, SessionId, USER_ID_LEN_MAX, UserId, UserIdError,
};
pub use message::{ClientMessage, ErrorCode, ErrorMessage, GatewayMessage, Hello, Welcome};
pub use state::{Availability, UserState};
pub use status::{STATUS_TEXT_LEN_MAX, Show, Status, StatusText, StatusTextError};
