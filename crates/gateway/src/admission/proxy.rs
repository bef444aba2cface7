//! The PROXY header with which a trusted proxy begins each connection: who it speaks for. Both versions, as in
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>.
//!
//! Only the header is read, and not one byte of the request that follows it.

use std::io;
use std::net::IpAddr;

use ppp::{v1, v2};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

/// As many bytes as either version has at least.
const BEGINNING_LEN: usize = 12;

/// The longest line of version 1, its end included.
const LINE_LEN_MAX: usize = 107;
const LINE_BEGINNING: &[u8] = b"PROXY ";
const LINE_END: &[u8] = b"\r\n";

const BINARY_BEGINNING: &[u8; BEGINNING_LEN] = b"\r\n\r\n\0\r\nQUIT\n";
/// What follows that: version and command, family, and the length of the rest.
const BINARY_HEAD_LEN: usize = 4;
/// More than addresses and a few notes of a proxy take; version 2 would allow 64 KiB.
const BINARY_REST_LEN_MAX: usize = 4096;

/// Why a connection of a trusted proxy is of no use.
#[derive(Debug, Error)]
pub(super) enum ProxyHeaderError {
    /// It ended, or failed.
    #[error("it ended early: {0}")]
    Io(#[from] io::Error),
    /// It begins otherwise.
    #[error("it does not begin with a PROXY header")]
    Missing,
    /// The header is longer than it may be.
    #[error("its PROXY header is too long")]
    TooLong,
    /// The header breaks a rule.
    #[error("its PROXY header makes no sense: {0}")]
    Malformed(String),
}

/// Who the proxy speaks for; none where it speaks for itself, as for a health check.
pub(super) async fn read_header(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<IpAddr>, ProxyHeaderError> {
    let mut beginning = [0; BEGINNING_LEN];
    stream.read_exact(&mut beginning).await?;
    if beginning == *BINARY_BEGINNING {
        read_binary(stream).await
    } else if beginning.starts_with(LINE_BEGINNING) {
        read_line(stream, beginning).await
    } else {
        Err(ProxyHeaderError::Missing)
    }
}

async fn read_binary(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<IpAddr>, ProxyHeaderError> {
    let mut head = [0; BINARY_HEAD_LEN];
    stream.read_exact(&mut head).await?;
    let rest_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if rest_len > BINARY_REST_LEN_MAX {
        return Err(ProxyHeaderError::TooLong);
    }
    let mut header = [BINARY_BEGINNING.as_slice(), &head].concat();
    let rest_at = header.len();
    header.resize(rest_at + rest_len, 0);
    stream.read_exact(&mut header[rest_at..]).await?;
    let header = v2::Header::try_from(header.as_slice())
        .map_err(|error| ProxyHeaderError::Malformed(error.to_string()))?;
    Ok(match (header.command, header.addresses) {
        (v2::Command::Proxy, v2::Addresses::IPv4(addresses)) => {
            Some(addresses.source_address.into())
        }
        (v2::Command::Proxy, v2::Addresses::IPv6(addresses)) => {
            Some(addresses.source_address.into())
        }
        _ => None,
    })
}

/// Byte by byte, since nothing tells how long the line is.
async fn read_line(
    stream: &mut (impl AsyncRead + Unpin),
    beginning: [u8; BEGINNING_LEN],
) -> Result<Option<IpAddr>, ProxyHeaderError> {
    let mut line = beginning.to_vec();
    while !line.ends_with(LINE_END) {
        if line.len() == LINE_LEN_MAX {
            return Err(ProxyHeaderError::TooLong);
        }
        line.push(stream.read_u8().await?);
    }
    let header = v1::Header::try_from(line.as_slice())
        .map_err(|error| ProxyHeaderError::Malformed(error.to_string()))?;
    Ok(match header.addresses {
        v1::Addresses::Tcp4(addresses) => Some(addresses.source_address.into()),
        v1::Addresses::Tcp6(addresses) => Some(addresses.source_address.into()),
        v1::Addresses::Unknown => None,
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use futures::FutureExt;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// What is read of these bytes, all of which are there, and how many follow it.
    fn read(mut bytes: &[u8]) -> (Result<Option<IpAddr>, ProxyHeaderError>, usize) {
        let read = read_header(&mut bytes).now_or_never().expect("nothing is waited for");
        (read, bytes.len())
    }

    fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let len = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [BINARY_BEGINNING.as_slice(), &[0x20 | command, family], &len, rest].concat()
    }

    fn line_of(source: IpAddr) -> Vec<u8> {
        let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
        format!("PROXY {family} {source} {source} 4711 443\r\n").into_bytes()
    }

    fn binary_of(source: IpAddr, notes: &[u8]) -> Vec<u8> {
        let ports = [0, 80, 1, 187];
        let (family, addresses) = match source {
            IpAddr::V4(ip) => (0x11, [ip.octets(), ip.octets()].concat()),
            IpAddr::V6(ip) => (0x21, [ip.octets(), ip.octets()].concat()),
        };
        binary(1, family, &[&addresses, ports.as_slice(), notes].concat())
    }

    fn any_ip() -> impl Strategy<Value = IpAddr> {
        let v4 = any::<[u8; 4]>().prop_map(|octets| Ipv4Addr::from(octets).into());
        prop_oneof![v4, any::<[u8; 16]>().prop_map(|octets| Ipv6Addr::from(octets).into())]
    }

    proptest! {
        #[test]
        fn either_version_tells_the_client_and_leaves_the_request_unread(
            source in any_ip(),
            notes in vec(any::<u8>(), 0..9),
            request in vec(any::<u8>(), 0..40),
        ) {
            // A note is a type, a length and so many bytes.
            let note = [&[4, 0, notes.len() as u8], notes.as_slice()].concat();
            for header in [line_of(source), binary_of(source, &[]), binary_of(source, &note)] {
                let (told, left) = read(&[header, request.clone()].concat());
                prop_assert_eq!(told.unwrap(), Some(source));
                prop_assert_eq!(left, request.len());
            }
        }

        #[test]
        fn a_header_that_is_cut_off_is_none(source in any_ip(), share in 0.0..1.0) {
            for header in [line_of(source), binary_of(source, &[])] {
                let cut = (header.len() as f64 * share) as usize;
                let (told, _) = read(&header[..cut]);
                prop_assert!(matches!(told, Err(ProxyHeaderError::Io(_))), "{told:?}");
            }
        }

        #[test]
        fn whatever_comes_is_told_or_refused(bytes in vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let _ = read(&[LINE_BEGINNING, &bytes].concat());
            let _ = read(&[BINARY_BEGINNING.as_slice(), &bytes].concat());
            for (command, family) in [(1, 0x11), (1, 0x21), (1, 0x31), (0, 0)] {
                let _ = read(&binary(command, family, &bytes));
            }
        }

        #[test]
        fn a_byte_that_is_changed_does_no_harm(
            source in any_ip(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            for mut header in [line_of(source), binary_of(source, &[])] {
                let at = at.index(header.len());
                header[at] = byte;
                let _ = read(&[header, b"GET / HTTP/1.1\r\n\r\n".to_vec()].concat());
            }
        }
    }

    #[test]
    fn a_proxy_may_speak_for_itself() {
        let unix = [b'x'; 216];
        for header in [
            b"PROXY UNKNOWN\r\n".to_vec(),
            b"PROXY UNKNOWN ::1 ::1 1 2\r\n".to_vec(),
            binary(0, 0, &[]),
            binary(0, 0x11, &[198, 51, 100, 1, 10, 0, 0, 1, 0, 80, 1, 187]),
            binary(1, 0x31, &unix),
        ] {
            assert_eq!(read(&header).0.unwrap(), None, "{header:?}");
        }
    }

    #[test]
    fn what_is_no_header_or_too_long_a_one_is_refused() {
        use ProxyHeaderError::{Malformed, Missing, TooLong};
        let refusal = |bytes: &[u8]| read(bytes).0.unwrap_err();
        assert!(matches!(refusal(b"GET /ws HTTP/1.1\r\n\r\n"), Missing));
        assert!(matches!(refusal(b"PROXY TCP4 198.51.100.1\r\n"), Malformed(_)));
        assert!(matches!(refusal(b"PROXY TCP4 somebody somewhere 1 2\r\n"), Malformed(_)));
        assert!(matches!(refusal(&[b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat()), TooLong));
        let long = vec![0; BINARY_REST_LEN_MAX + 1];
        assert!(matches!(refusal(&binary(1, 0x11, &long)), TooLong));
        assert!(matches!(refusal(&binary(7, 0x11, &[0; 12])), Malformed(_)));
        assert!(matches!(refusal(&binary(1, 0x11, &[0; 3])), Malformed(_)));
    }
}
