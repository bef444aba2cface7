//! The files of the pages that a gateway serves itself, and what a browser lets them do.
//!
//! They are in the binary, and no build step makes them: what is read here is what runs.

use axum::http::{HeaderName, header};

/// Only the files beside a page run, and they talk to nobody but this gateway.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     connect-src 'self' ws: wss:; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// A file with its headers, ready to be a route.
pub(super) type File = ([(HeaderName, &'static str); 5], &'static str);

pub(super) const fn html(text: &'static str) -> File {
    file("text/html; charset=utf-8", text)
}

pub(super) const fn css(text: &'static str) -> File {
    file("text/css; charset=utf-8", text)
}

pub(super) const fn js(text: &'static str) -> File {
    file("text/javascript; charset=utf-8", text)
}

const fn file(kind: &'static str, text: &'static str) -> File {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Another version of the gateway may be next at this address.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}
