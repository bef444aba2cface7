//! `vectors.tsv`, which holds every SDK, holds this codec too. The file's own header explains it.

use std::fmt::Debug;

use bytes::Bytes;
use presence_protocol::{
    DecodeError, Format, decode_client, decode_gateway, encode_client, encode_gateway,
};

const FILE: &str = include_str!("../../vectors.tsv");

/// One row; a frame is absent where the row is about the other format only.
struct Vector {
    from: &'static str,
    name: &'static str,
    expect: &'static str,
    json: Option<Vec<u8>>,
    msgpack: Option<Vec<u8>>,
}

impl Vector {
    fn frames(&self) -> impl Iterator<Item = (Format, &[u8])> {
        let json = self.json.iter().map(|frame| (Format::Json, frame.as_slice()));
        json.chain(self.msgpack.iter().map(|frame| (Format::MsgPack, frame.as_slice())))
    }
}

#[test]
fn good_client_vectors_are_read_and_written() {
    let rows = vectors("client").filter(is_good);
    assert!(rows.map(|row| check_good(&row, decode_client, encode_client)).count() > 30);
}

#[test]
fn good_gateway_vectors_are_read_and_written() {
    let rows = vectors("gateway").filter(is_good);
    assert!(rows.map(|row| check_good(&row, decode_gateway, encode_gateway)).count() > 25);
}

#[test]
fn bad_vectors_are_refused_with_their_code() {
    for row in vectors("client").filter(|row| !is_good(row)) {
        check_bad(&row, decode_client);
    }
    for row in vectors("gateway").filter(|row| !is_good(row)) {
        check_bad(&row, decode_gateway);
    }
}

#[test]
fn every_row_has_a_name_of_its_own() {
    let names: Vec<_> = vectors("client").chain(vectors("gateway")).map(|row| row.name).collect();
    let distinct: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    assert_eq!(names.len(), FILE.lines().filter(|line| is_row(line)).count());
}

fn check_good<M: PartialEq + Debug>(
    row: &Vector,
    decode: fn(Format, &[u8]) -> Result<M, DecodeError>,
    encode: fn(Format, &M) -> Bytes,
) {
    let read =
        |format, frame| decode(format, frame).unwrap_or_else(|e| panic!("{}: {e}", row.name));
    let messages: Vec<_> = row.frames().map(|(format, frame)| read(format, frame)).collect();
    assert!(messages.iter().all(|message| *message == messages[0]), "{}", row.name);
    if row.expect == "exact" {
        assert_eq!(messages.len(), 2, "{}", row.name);
        for (format, frame) in row.frames() {
            assert_eq!(encode(format, &messages[0]), frame, "{} in {format:?}", row.name);
        }
    }
}

fn check_bad<M: Debug>(row: &Vector, decode: fn(Format, &[u8]) -> Result<M, DecodeError>) {
    for (format, frame) in row.frames() {
        match decode(format, frame) {
            Err(refusal) => {
                assert_eq!(refusal.code.as_str(), row.expect, "{}: {refusal}", row.name);
            }
            Ok(message) => panic!("{} in {format:?} was read: {message:?}", row.name),
        }
    }
}

fn is_good(row: &Vector) -> bool {
    matches!(row.expect, "exact" | "reads")
}

fn is_row(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

fn vectors(from: &'static str) -> impl Iterator<Item = Vector> {
    FILE.lines().filter(|line| is_row(line)).map(parse_row).filter(move |row| row.from == from)
}

fn parse_row(line: &'static str) -> Vector {
    let columns: Vec<_> = line.split('\t').collect();
    let [from, name, expect, json, msgpack] = columns[..] else { panic!("five columns: {line}") };
    Vector {
        from,
        name,
        expect,
        json: (json != "-").then(|| json.as_bytes().to_vec()),
        msgpack: (msgpack != "-").then(|| from_hex(msgpack)),
    }
}

fn from_hex(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("the column is hex");
    (0..hex.len()).step_by(2).map(byte).collect()
}
