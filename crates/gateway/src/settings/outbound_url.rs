//! A URL that the gateway itself calls: https, or http on this machine.

use std::fmt;
use std::net::IpAddr;

use hyper::Uri;

/// Where the gateway calls. Shown without its query, which may hold a key.
#[derive(Clone, PartialEq, Eq)]
pub struct OutboundUrl(Uri);

impl OutboundUrl {
    /// Checks it. The error ends a sentence that has named the setting, and does not quote the URL.
    pub fn new(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("is no URL ({error})"))?;
        let (scheme, Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err("has no host".to_owned());
        };
        if authority.as_str().contains('@') {
            return Err(
                "has a user or a password before its host, which would not be sent: leave \
                them away"
                    .to_owned(),
            );
        }
        match scheme {
            Some("https") => Ok(Self(uri)),
            Some("http") if is_loopback(authority.host()) => Ok(Self(uri)),
            Some("http") => {
                Err("is plain http to another machine, where anybody on the way could \
                change what it answers"
                    .to_owned())
            }
            _ => Err("must start with https://".to_owned()),
        }
    }

    /// The whole URL, for the call.
    pub fn uri(&self) -> &Uri {
        &self.0
    }
}

impl fmt::Display for OutboundUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.0.authority().map_or("", |authority| authority.as_str());
        write!(f, "{}://{host}{}", self.0.scheme_str().unwrap_or("https"), self.0.path())?;
        if self.0.query().is_some() { f.write_str("?[secret]") } else { Ok(()) }
    }
}

impl fmt::Debug for OutboundUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
