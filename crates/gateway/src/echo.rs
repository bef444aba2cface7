//! The socket code of a gateway as an echo server, for conformance tests. Only in builds with the feature `echo`.

use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use presence_protocol::Format;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;

use crate::connection::{self, Wire};
use crate::socket::Socket;
use crate::upgrade;

/// Sends back every message, on any path, for ever.
pub async fn serve(listen: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen).await?;
    let router = Router::new().fallback(accept);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let io = TokioIo::new(Socket::Plain(stream));
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(http1::Builder::new().serve_connection(io, service).with_upgrades());
    }
}

async fn accept(mut request: Request) -> Response {
    match create_response_with_body(&request, Body::empty) {
        Ok(response) => {
            let on_upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                // The notation means nothing here: what came as text goes back as text.
                if let Some((socket, read_ahead)) = upgrade::socket(on_upgrade).await {
                    let wire = Wire::new(socket, &read_ahead, Format::Json);
                    connection::echo::run(wire).await;
                }
            });
            response
        }
        Err(error) => (StatusCode::UPGRADE_REQUIRED, format!("{error}\n")).into_response(),
    }
}
