//! What it costs to write and to read the messages that are sent most, in both formats.
//!
//!     make bench ARGS=codec

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use presence_protocol::{
    Availability, ClientMessage, Device, Format, GatewayMessage, Hello, RequestId, UserId,
    UserState, decode_client, decode_gateway, encode_client, encode_gateway,
};

/// As many contacts as a user is said to have.
const CONTACTS: usize = 200;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for (name, message) in client_messages() {
        bench(&mut criterion, name, &message, encode_client, decode_client);
    }
    for (name, message) in gateway_messages() {
        bench(&mut criterion, name, &message, encode_gateway, decode_gateway);
    }
    criterion.final_summary();
}

fn bench<M, E: std::fmt::Debug>(
    criterion: &mut Criterion,
    name: &str,
    message: &M,
    encode: fn(Format, &M) -> bytes::Bytes,
    decode: fn(Format, &[u8]) -> Result<M, E>,
) {
    let mut group = criterion.benchmark_group(format!("codec/{name}"));
    for (format, label) in [(Format::Json, "json"), (Format::MsgPack, "msgpack")] {
        group.bench_function(BenchmarkId::new("encode", label), |bencher| {
            bencher.iter(|| encode(format, black_box(message)));
        });
        let frame = encode(format, message);
        group.bench_function(BenchmarkId::new("decode", label), |bencher| {
            bencher.iter(|| decode(format, black_box(&frame)).expect("it was written here"));
        });
    }
    group.finish();
}

fn client_messages() -> [(&'static str, ClientMessage); 3] {
    let hello = Hello {
        // As long as a token of the usual three claims.
        token: Some("t".repeat(180)),
        device: Some(Device::new("ios").expect("a label")),
        ..Hello::default()
    };
    let watch = ClientMessage::Watch {
        users: (0..CONTACTS).map(user).collect(),
        id: Some(RequestId::Number(1)),
        grant: None,
    };
    [
        ("hello", ClientMessage::Hello(hello)),
        ("heartbeat", ClientMessage::Heartbeat),
        ("watch of 200", watch),
    ]
}

fn gateway_messages() -> [(&'static str, GatewayMessage); 2] {
    let snapshot = GatewayMessage::Snapshot {
        id: Some(RequestId::Number(1)),
        users: (0..CONTACTS).map(state).collect(),
    };
    let change = GatewayMessage::Presence { users: vec![state(1)] };
    [("snapshot of 200", snapshot), ("presence of 1", change)]
}

fn user(number: usize) -> UserId {
    UserId::new(&format!("user-{number:07}")).expect("a user id")
}

fn state(number: usize) -> UserState {
    UserState {
        state: Availability::Online,
        version: 1_795_977_878_590_659 + number as u64,
        since: Some(1_795_977_878_582),
        devices: vec![Device::new("ios").expect("a label")],
        ..UserState::never_seen(user(number))
    }
}
