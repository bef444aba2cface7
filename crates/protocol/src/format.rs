//! The two encodings, and how client and gateway agree on one in the upgrade request.

use thiserror::Error;

/// The sub-protocol of JSON in text frames.
pub const SUBPROTOCOL_JSON: &str = "presence.v1.json";

/// The sub-protocol of `MessagePack` in binary frames.
pub const SUBPROTOCOL_MSGPACK: &str = "presence.v1.msgpack";

/// How messages are written on one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// One JSON object in each text frame.
    Json,
    /// One `MessagePack` map in each binary frame.
    MsgPack,
}

impl Format {
    /// Both, JSON first.
    pub const ALL: [Self; 2] = [Self::Json, Self::MsgPack];

    /// The word for it where it is told: `json` or `msgpack`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::MsgPack => "msgpack",
        }
    }

    /// Its name in `Sec-WebSocket-Protocol`.
    pub fn subprotocol(self) -> &'static str {
        match self {
            Self::Json => SUBPROTOCOL_JSON,
            Self::MsgPack => SUBPROTOCOL_MSGPACK,
        }
    }

    fn from_subprotocol(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.subprotocol() == name)
    }
}

/// What a gateway answers to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// How messages are written from now on.
    pub format: Format,
    /// What to echo in `Sec-WebSocket-Protocol`; none when the client offered none.
    pub subprotocol: Option<&'static str>,
}

/// The client offered sub-protocols, and none is ours. Its text belongs in the HTTP 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "none of the offered sub-protocols is known here, offer {SUBPROTOCOL_JSON} or \
     {SUBPROTOCOL_MSGPACK}"
)]
pub struct NegotiateError;

/// Picks the first sub-protocol we know in the client's order of preference.
///
/// `offered` is the value of `Sec-WebSocket-Protocol`, several headers joined by commas.
/// No offer at all means JSON.
pub fn negotiate(offered: Option<&str>) -> Result<Negotiated, NegotiateError> {
    let mut names =
        offered.unwrap_or("").split(',').map(str::trim).filter(|name| !name.is_empty()).peekable();
    if names.peek().is_none() {
        return Ok(Negotiated { format: Format::Json, subprotocol: None });
    }
    let format = names.find_map(Format::from_subprotocol).ok_or(NegotiateError)?;
    Ok(Negotiated { format, subprotocol: Some(format.subprotocol()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_offer_means_json_and_nothing_to_echo() {
        let plain = Ok(Negotiated { format: Format::Json, subprotocol: None });
        for offered in [None, Some(""), Some("  "), Some(" , ,")] {
            assert_eq!(negotiate(offered), plain, "{offered:?}");
        }
    }

    #[test]
    fn the_first_known_in_the_clients_order_wins() {
        let table = [
            ("presence.v1.json", Format::Json),
            ("presence.v1.msgpack", Format::MsgPack),
            ("presence.v1.msgpack, presence.v1.json", Format::MsgPack),
            ("presence.v1.json,presence.v1.msgpack", Format::Json),
            ("chat.v2 ,\tpresence.v1.msgpack", Format::MsgPack),
        ];
        for (offered, format) in table {
            let expected = Negotiated { format, subprotocol: Some(format.subprotocol()) };
            assert_eq!(negotiate(Some(offered)), Ok(expected), "{offered}");
        }
    }

    #[test]
    fn only_unknown_ones_are_refused_with_a_sentence_that_names_both() {
        for offered in ["chat.v2", "presence.v2.json", "PRESENCE.V1.JSON", "presence.v1.json;q=1"] {
            let refusal = negotiate(Some(offered)).unwrap_err().to_string();
            assert!(refusal.contains(SUBPROTOCOL_JSON) && refusal.contains(SUBPROTOCOL_MSGPACK));
        }
    }
}
