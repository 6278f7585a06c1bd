//! What comes out at either side of a splitter, from sockets that send a stream in pieces. No server, no
//! `tokio-postgres`: the tests of loads have both.

use super::*;
use proptest::prelude::*;
use std::future::poll_fn;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    runtime::Builder,
};

/// A message as a server sends it.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[kind][..], &length, body].concat()
}

/// What came out of a splitter.
#[derive(Debug, Default, PartialEq, Eq)]
struct Came {
    data: Vec<u8>,
    /// Pieces that `data` came in.
    pieces: usize,
    rest: Vec<u8>,
}

/// Sends a stream in pieces; gives the data, and what was left for `tokio-postgres`.
fn run(stream: &[u8], pieces: &[usize], first: FirstBytes, open: bool) -> Came {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (ours, mut server) = UnixStream::pair().unwrap();
        let (mut protocol, side) = split(Box::new(ours), first);
        let stream = stream.to_vec();
        let pieces = pieces.to_vec();
        tokio::spawn(async move {
            let mut rest = &stream[..];
            for piece in pieces.into_iter().chain([usize::MAX]) {
                let (now, later) = rest.split_at(piece.min(rest.len()));
                server.write_all(now).await.unwrap();
                tokio::task::yield_now().await;
                rest = later;
            }
        });
        let other = tokio::spawn(async move {
            let mut rest = Vec::new();
            protocol.read_to_end(&mut rest).await.unwrap();
            rest
        });
        let mut came = Came::default();
        let mut data = open.then(|| side.open());
        let mut other = other;
        came.rest = loop {
            let rest = poll_fn(|cx| match (Pin::new(&mut other).poll(cx), &mut data) {
                (Poll::Ready(rest), _) => Poll::Ready(Some(rest.unwrap())),
                (Poll::Pending, Some(data)) => data.poll(cx).map(|()| None),
                (Poll::Pending, None) => Poll::Pending,
            });
            if let Some(rest) = rest.await {
                break rest;
            }
            let data = data.as_mut().expect("nothing else is polled");
            while let Some(found) = data.take() {
                came.data.extend_from_slice(data.bytes(found));
                came.pieces += 1;
            }
        };
        came
    })
}

#[test]
fn data_is_taken_out_and_the_rest_goes_on() {
    let stream =
        [message(b'H', b"x"), message(b'd', b"ab"), message(b'd', b"c"), message(b'c', b"")];
    let rest = [message(b'H', b"x"), message(b'c', b"")].concat();
    let came = run(&stream.concat(), &[], FirstBytes::Messages, true);
    assert_eq!(came, Came { data: b"abc".to_vec(), pieces: 2, rest });
}

/// A connection may end anywhere. Both sides must notice: a cut message that each leaves to the other
/// would be passed to and fro for ever.
#[test]
fn a_stream_may_end_at_any_byte() {
    let parts = [message(b'H', b"x"), message(b'd', b"ab"), message(b'd', b"cde")];
    let stream = parts.concat();
    let borders = [parts[0].len(), parts[0].len() + parts[1].len()];
    for open in [true, false] {
        for end in 0..stream.len() {
            let came = run(&stream[..end], &[], FirstBytes::Messages, open);
            let data: &[u8] = if open && end >= borders[1] { b"ab" } else { b"" };
            assert_eq!(came.data, data, "{end} bytes");
            let rest: &[u8] = if end >= borders[0] { &parts[0] } else { &came.rest };
            assert_eq!(came.rest, rest, "{end} bytes");
        }
    }
}

#[test]
fn data_that_nobody_wants_is_thrown_away() {
    let large = vec![7; 3 * BUFFER];
    let stream = [message(b'd', &large), message(b'C', b"x"), message(b'd', b"c")].concat();
    let came = run(&stream, &[], FirstBytes::Messages, false);
    assert_eq!(came, Came { rest: message(b'C', b"x"), ..Came::default() });
}

#[test]
fn a_message_larger_than_the_buffer_comes_in_pieces() {
    let large: Vec<u8> = (0..3 * BUFFER).map(|i| i as u8).collect();
    let stream = [message(b'd', &large), message(b'd', b"z"), message(b'c', b"")].concat();
    let came = run(&stream, &[], FirstBytes::Messages, true);
    assert_eq!(came.rest, message(b'c', b""));
    assert!(came.data == [&large[..], b"z"].concat() && came.pieces > 3, "{}", came.pieces);
}

#[test]
fn after_an_answer_come_messages_or_something_else() {
    let messages = [message(b'd', b"data"), message(b'Z', b"I")].concat();
    let check = |answer: u8, data: &[u8], rest: &[u8]| {
        let came = run(&[&[answer], &messages[..]].concat(), &[1], FirstBytes::TlsAnswer, true);
        assert_eq!((&came.data[..], &came.rest[..]), (data, &[&[answer], rest].concat()[..]));
    };
    check(b'N', b"data", &message(b'Z', b"I"));
    check(b'S', b"", &messages);
    let came = run(&messages, &[], FirstBytes::Tls, true);
    assert_eq!((came.data, came.rest), (vec![], messages));
}

#[test]
fn a_length_that_cannot_be_is_left_to_the_other_side() {
    for length in [0_u32, 3, 1 << 31, u32::MAX] {
        let stream = [&[b'd'][..], &length.to_be_bytes()].concat();
        let came = run(&stream, &[], FirstBytes::Messages, true);
        assert_eq!(came, Came { rest: stream, ..Came::default() });
    }
}

proptest! {
    #[test]
    fn no_byte_is_lost_or_mixed_up(
        messages in prop::collection::vec(
            (prop_oneof![Just(b'd'), Just(b'd'), Just(b'C'), Just(b'E')],
             prop::collection::vec(any::<u8>(), 0..40)),
            0..30,
        ),
        pieces in prop::collection::vec(0_usize..60, 0..30),
        open: bool,
    ) {
        let stream: Vec<u8> = messages.iter().flat_map(|(kind, body)| message(*kind, body)).collect();
        let of = |data: bool| messages.iter().filter(move |(kind, _)| (*kind == b'd') == data);
        let came = run(&stream, &pieces, FirstBytes::Messages, open);
        let data: Vec<u8> = of(true).flat_map(|(_, body)| body.clone()).collect();
        let rest: Vec<u8> = of(false).flat_map(|(kind, body)| message(*kind, body)).collect();
        prop_assert_eq!(came.data, if open { data } else { Vec::new() });
        prop_assert_eq!(came.rest, rest);
    }
}
