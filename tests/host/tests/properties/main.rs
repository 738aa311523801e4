// SPDX-License-Identifier: GPL-2.0

//! Properties that hold for any messages, any segmentation of the stream and any damage to it.

mod checks;
#[path = "../config/mod.rs"]
mod config;
mod inputs;
mod pieces;

use checks::{check_events, check_segments, pseudocode};
use config::cases;
use inputs::{any_handler, any_receiver, damage, damaged, long};
use iwarp::rdmap::{AtomicOp, Immediate};
use iwarp::rx::{Event, ReadExpect, Receiver, RxConfig};
use iwarp::tx::Message;
use iwarp::{Stag, TaggedOffset, TermCode, Terminate};
use iwarp_sim::guard::{feed, feed_whole, Any, Call, Guard};
use iwarp_sim::stream::{atomic, frame, messages, pattern, Item};
use iwarp_sim::{mutant, pair, receiver, setup, shared, Entropy};
use proptest::collection::vec;
use proptest::prelude::*;

/// The bytes of the [`Entropy`] of a case.
fn decisions() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..400)
}

proptest! {
    #![proptest_config(cases(256))]

    //= 5041-4.1-3, 5041-4.1-4, 5041-4.1-5, 5041-4.2-5, 5041-4.2-9, 5041-4.2-10, 5041-4.3-4,
    //= 5041-4.3-6, 5041-4.3-7, 5041-4.3-12, 5041-4.4-1, 5041-5.2-1, 5041-5.2-3, 5044-3-1,
    //= 5044-4.1-1, 5044-4.1-2, 5044-4.2-2, 5044-4.2-3, 5044-4.3-1, 5044-4.3-2, 5044-4.3-3,
    //= 5044-4.3-7, 5044-4.3-8, 5044-4.3-9, 5044-4.4-9, 5044-7.1.1-8, 5044-7.1.1-9
    /// Segmenter -> Framer -> independent receiver, and -> Receiver.
    #[test]
    fn round_trip(seed in decisions(), crc: bool, markers: bool, mulpdu in 128..=64768u16) {
        let mut e = Entropy::new(&seed);
        let items = messages(&mut e, 12);
        let stream = frame(&items, crc, markers, || mulpdu);
        check_segments(&items, &stream, crc, markers, usize::from(mulpdu));
        if !markers {
            let got = feed(receiver(crc), crc, Any::accepting(), &stream, || 1460);
            prop_assert_eq!(got.result, Ok(()));
            prop_assert!(got.at_boundary && !got.mid_message);
            check_events(&items, &got.calls);
        }
    }

    //= 5041-3-2, 5041-3-3
    /// The same with a MULPDU that changes from segment to segment.
    #[test]
    fn round_trip_with_changing_mulpdu(seed in decisions(), crc: bool, markers: bool) {
        let mut e = Entropy::new(&seed);
        let items = messages(&mut e, 6);
        let mut sizes = e.clone();
        let stream = frame(&items, crc, markers, || 128 + sizes.below(3000) as u16);
        check_segments(&items, &stream, crc, markers, 3127);
    }

    //= 5041-3-5, 5041-5.3-3, 5044-4.3-10, 5044-5.1-1, 5044-6-3, 5044-A.4-1
    /// However TCP splits the stream, good or damaged, the handler gets the same calls, up to an
    /// FPDU with a wrong CRC.
    #[test]
    fn any_cut_tells_the_same(seed in decisions()) {
        let mut e = Entropy::new(&seed);
        let (crc, stream) = damaged(&mut e);
        let handler = any_handler(&mut e);
        // The number of a call does not depend on the split, as `place` is not counted.
        let rx = || receiver(crc);
        let whole = feed(rx(), crc, handler.clone(), &stream, || usize::MAX);
        let bytes = feed(rx(), crc, handler.clone(), &stream, || 1);
        let pieces = feed(rx(), crc, handler, &stream, || 1 + e.below(60) as usize);
        whole.check_pieces(&bytes);
        whole.check_pieces(&pieces);
    }

    //= 5044-3-6, 5044-6-1, 5044-6-4
    /// If the pieces are joined to whole FPDUs, the result is that of one piece, and no byte of an
    /// FPDU is placed before its CRC is verified. (The beginning of an FPDU at the end of the
    /// stream is not placed.)
    #[test]
    fn whole_fpdus_are_verified_first(seed in decisions()) {
        let mut e = Entropy::new(&seed);
        let (crc, stream) = damaged(&mut e);
        let handler = any_handler(&mut e);
        let rx = || receiver(crc);
        let one = feed_whole(rx(), crc, handler.clone(), &stream, || usize::MAX);
        let bytes = feed_whole(rx(), crc, handler.clone(), &stream, || 1);
        let pieces = feed_whole(rx(), crc, handler.clone(), &stream, || 1 + e.below(600) as usize);
        prop_assert_eq!(&one, &bytes);
        prop_assert_eq!(&one, &pieces);
        // The same if Sends wait for their receives.
        let late = Any { waits: 2, ..handler.clone() };
        let waited = feed_whole(rx(), crc, late, &stream, || 1 + e.below(600) as usize);
        prop_assert_eq!(&one, &waited);
        let free = feed(rx(), crc, handler, &stream, || 1 + e.below(600) as usize);
        if one.result.is_err() {
            one.check_pieces(&free);
        } else {
            prop_assert_eq!(&one.calls[..], &free.calls[..one.calls.len()]);
        }
    }

    /// However often a Send waits for its receive, and however TCP splits the stream, good or
    /// damaged, the handler gets the same calls.
    #[test]
    fn waiting_changes_nothing(seed in decisions(), waits in 1..4u32) {
        let mut e = Entropy::new(&seed);
        let (crc, stream) = damaged(&mut e);
        let prompt = any_handler(&mut e);
        let late = Any { waits, ..prompt.clone() };
        let rx = || receiver(crc);
        let whole = feed(rx(), crc, prompt, &stream, || usize::MAX);
        let waited = feed(rx(), crc, late.clone(), &stream, || usize::MAX);
        let bytes = feed(rx(), crc, late.clone(), &stream, || 1);
        let pieces = feed(rx(), crc, late, &stream, || 1 + e.below(60) as usize);
        prop_assert_eq!(&whole, &waited);
        whole.check_pieces(&bytes);
        whole.check_pieces(&pieces);
    }

    /// The handler that places a segment which continues the one before by one call gets the same,
    /// also where the stream is damaged and where it refuses something.
    #[test]
    fn continuations_change_nothing(seed in decisions(), mulpdu in 128..300u16) {
        let mut e = Entropy::new(&seed);
        let items: Vec<_> = messages(&mut e, 3).into_iter().chain(long(&mut e)).collect();
        let (crc, stream) = damage(&mut e, &items, mulpdu);
        let mut handler = any_handler(&mut e);
        if let Some(Item { message: Message::ReadResponse { stag, to }, payload }) = items.last() {
            // Some are longer than what was asked for, some are shorter.
            let len = (payload.len() as u32 + e.below(3) * 200).saturating_sub(200);
            handler.expect = Some(ReadExpect { stag: *stag, to: *to, len });
        }
        let single = Any { continues: false, ..handler.clone() };
        let rx = || receiver(crc);
        let one_by_one = feed(rx(), crc, single, &stream, || usize::MAX);
        let together = feed(rx(), crc, handler.clone(), &stream, || usize::MAX);
        let pieces = feed(rx(), crc, handler, &stream, || 1 + e.below(300) as usize);
        prop_assert_eq!(&one_by_one, &together);
        together.check_pieces(&pieces);
    }

    //= 5041-5.3-4
    /// Segments of RDMA Writes and Atomic Responses come between those of other messages. No Send
    /// is delivered before a Write that it came behind ([`Guard`] checks that), and either each
    /// message is delivered in the end, or there is one more than can wait.
    #[test]
    fn interleaved_messages(seed in decisions(), mulpdu in 128..400u16) {
        let mut e = Entropy::new(&seed);
        let mut items = messages(&mut e, 8);
        items.retain(|item| !matches!(item.message, Message::Terminate { .. }));
        let is_write = |item: &Item| matches!(item.message, Message::Write { .. });
        let is_response = |item: &Item| matches!(item.message, Message::AtomicResponse { .. });
        let (writes, others): (Vec<_>, Vec<_>) = items.iter().cloned().partition(is_write);
        let (responses, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_response);
        let lanes = [writes, others, responses];
        let streams = lanes.map(|items| frame(&items, true, false, || mulpdu));
        let mut rest = streams.each_ref().map(|stream| &stream[..]);
        let mut stream = Vec::new();
        while rest.iter().any(|rest| !rest.is_empty()) {
            let next = &mut rest[e.below(3) as usize];
            if let [a, b, ..] = **next {
                let ulpdu = usize::from(u16::from_be_bytes([a, b]));
                let (fpdu, behind) = next.split_at((2 + ulpdu).next_multiple_of(4) + 4);
                stream.extend(fpdu);
                *next = behind;
            }
        }
        let cut = || 1 + e.below(600) as usize;
        let got = feed(receiver(true), true, Any::accepting(), &stream, cut);
        let delivered = got.calls.iter().filter_map(|call| match call {
            Call::Deliver(event) => Some(event),
            _ => None,
        });
        let (answers, rest): (Vec<&Event>, Vec<&Event>) =
            delivered.partition(|event| matches!(event, Event::AtomicResponse(_)));
        match got.result {
            Ok(()) => prop_assert_eq!(answers.len() + rest.len(), items.len()),
            Err(fault) => prop_assert_eq!(fault.term(), Some(TermCode::UNEXPECTED_OPCODE)),
        }
        // The answers are delivered as they came.
        let sent = items.iter().filter_map(|item| match item.message {
            Message::AtomicResponse { response, .. } => Some(Event::AtomicResponse(response)),
            _ => None,
        });
        prop_assert!(sent.zip(answers).all(|(sent, got)| sent == *got));
    }

    /// Random bytes cause no panic, and the engine keeps its contract with the handler.
    #[test]
    fn noise(seed in decisions(), noise in vec(any::<u8>(), 0..600), crc: bool) {
        let mut e = Entropy::new(&seed);
        let handler = any_handler(&mut e);
        feed(any_receiver(&mut e, crc), crc, handler, &noise, || 1 + e.below(60) as usize);
    }

    /// The same for valid headers with random fields, which pass more checks than random bytes.
    #[test]
    fn random_headers(seed in decisions(), crc: bool) {
        let mut e = Entropy::new(&seed);
        let mut stream = Vec::new();
        for _ in 0..6 {
            let len = 14 + e.below(60) as usize;
            let mut fpdu = (len as u16).to_be_bytes().to_vec();
            fpdu.push(0x01 | (e.u8() & 0xc0));
            fpdu.push(0x40 | (e.u8() & 0x0f));
            for at in 2..len {
                // Queue, MSN and MO are small numbers.
                let small = (6..18).contains(&at) && at % 4 != 1;
                fpdu.push(if small { 0 } else { e.u8() & 3 });
            }
            while fpdu.len() % 4 != 0 {
                fpdu.push(0);
            }
            let sum = !iwarp_sim::crc32c(!0, &fpdu);
            stream.extend(fpdu);
            stream.extend(sum.to_le_bytes());
        }
        let handler = any_handler(&mut e);
        let rx = any_receiver(&mut e, crc);
        feed(rx, crc, handler, &stream, || 1 + e.below(60) as usize);
    }

    /// The messages of RFC 7306 are as any reserved opcode, if they are not allowed: all before the
    /// first of them is received, and nothing behind.
    #[test]
    fn extensions_are_reserved(seed in decisions(), crc: bool, opcode in 12..16u8) {
        let mut e = Entropy::new(&seed);
        let stream = frame(&messages(&mut e, 6), crc, false, || 300);
        let (mut reserved, mut at) = (Vec::new(), 0);
        while at < stream.len() {
            let ulpdu = usize::from(u16::from_be_bytes([stream[at], stream[at + 1]]));
            let behind = at + (2 + ulpdu).next_multiple_of(4) + 4;
            let mut fpdu = stream[at..behind].to_vec();
            if fpdu[3] & 8 != 0 {
                fpdu[3] = 0x40 | opcode;
                fpdu.truncate(fpdu.len() - 4);
                let sum = !iwarp_sim::crc32c(!0, &fpdu);
                fpdu.extend(sum.to_le_bytes());
            }
            reserved.extend(fpdu);
            at = behind;
        }
        let rx = || Receiver::new(RxConfig { crc });
        let off = feed(rx(), crc, Any::accepting(), &stream, || 100);
        let other = feed(rx(), crc, Any::accepting(), &reserved, || 100);
        prop_assert_eq!(&off, &other);
        if stream != reserved {
            let code = off.result.map_err(|fault| fault.term());
            prop_assert_eq!(code, Err(Some(TermCode::UNEXPECTED_OPCODE)));
        }
    }

    //= 7306-5-3, 7306-5.1.1-4, 7306-5.1.2-1
    /// RFC 7306 s5.1: what the pseudocode gives.
    #[test]
    fn atomics_follow_the_pseudocode(seed in decisions(), old: u64) {
        let mut e = Entropy::new(&seed);
        for _ in 0..20 {
            let op = atomic(&mut e);
            // A compared value that is the old one is rare otherwise.
            let op = match op {
                AtomicOp::CmpSwap { swap, swap_mask, compare_mask, .. } if e.flag() => {
                    let compare = old ^ (u64::from(e.u8()) << e.below(57));
                    AtomicOp::CmpSwap { swap, swap_mask, compare, compare_mask }
                }
                _ => op,
            };
            prop_assert_eq!(op.apply(old), pseudocode(op, old), "{:?} of {:x}", op, old);
        }
    }

    /// Immediate data of verbs arrive, whichever half an end uses.
    #[test]
    fn immediates_of_verbs(bits: [u8; 4]) {
        let sent = Immediate::of_verbs(bits);
        prop_assert_eq!(sent.to_verbs(), bits);
        let (first, second) = ([bits, [0; 4]].concat(), [[0; 4], bits].concat());
        for half in [first, second] {
            prop_assert_eq!(Immediate(half.try_into().unwrap()).to_verbs(), bits);
        }
    }

    /// Any bytes can be parsed as a Terminate Header.
    #[test]
    fn terminate_parses_anything(bytes in vec(any::<u8>(), 0..80)) {
        let term = Terminate::parse(&bytes);
        prop_assert_eq!(term.is_some(), bytes.len() >= 4);
        if let Some(t) = term {
            let _ = t.to_string();
            let message = Message::Terminate { term: t };
            let segment = iwarp::tx::Segmenter::new(message, 0).next(128).unwrap();
            prop_assert_eq!(Terminate::parse(&segment.header()[20..]), Some(t));
        }
    }

    //= 5044-7.1.2-5, 6581-9.1-2
    /// Two engines agree on the parameters of a connection.
    #[test]
    fn setup_agrees(seed in decisions()) {
        setup::run(&mut Entropy::new(&seed));
    }

    /// Connection setup with random bytes causes no panic.
    #[test]
    fn setup_with_noise(seed in decisions(), noise in vec(any::<u8>(), 0..600)) {
        setup::feed(&mut Entropy::new(&seed), &noise);
        // With a valid key more checks are reached.
        for key in [b"MPA ID Req Frame", b"MPA ID Rep Frame"] {
            let mut stream = key.to_vec();
            stream.extend(&noise);
            setup::feed(&mut Entropy::new(&seed), &stream);
            // Flags, a known revision, and a length that may be correct.
            let fields = [0x50, 1 + (seed.len() & 1) as u8, 0, noise.len() as u8];
            stream.splice(16..16, fields);
            setup::feed(&mut Entropy::new(&seed), &stream);
        }
    }
}

proptest! {
    #![proptest_config(cases(192))]

    //= 5040-4.4-2, 5040-5.1-4, 5040-5.2-1, 5040-5.2.1-8, 5040-5.2.1-9, 5040-5.2.1-12,
    //= 5040-5.2.1-15, 5040-5.2.2-5, 5040-5.3-4, 5040-5.3-6, 5040-5.3-10b, 5040-5.4-8, 5040-5.5-1,
    //= 5040-5.5-2, 5040-5.5-4, 5040-5.5-8, 5040-5.5-10, 5041-4.3-8, 5041-5.2-4, 5041-5.3-2,
    //= 5041-5.3-3, 5041-5.3-4, 5041-5.4-1b, 5041-5.4-1d, 7306-5-5, 7306-5.1.1-1, 7306-5.1.1-2a,
    //= 7306-5.1.1-2b, 7306-5.1.1-3, 7306-5.1.2-1, 7306-5.1.2-2, 7306-5.1.2-3a, 7306-5.1.2-3b,
    //= 7306-5.1.2-3c, 7306-5.2.1-3, 7306-5.2.1-4, 7306-5.2.1-9, 7306-5.2.1-10, 7306-5.2.1-11,
    //= 7306-5.2.1-15, 7306-5.2.1-16, 7306-5.2.1-17, 7306-5.2.2-5, 7306-5.2.2-6, 7306-5.2.2-7,
    //= 7306-5.2.2-9, 7306-5.4-1, 7306-5.4-4, 7306-5.4-6, 7306-5.4-7, 7306-5.4-8a, 7306-5.4-8b,
    //= 7306-6.3-3, 7306-6.3-4, 7306-6.3-7, 7306-8.2-6, 7306-8.2-7, 7306-9-1
    /// Two peers run scripts of operations with each other, with correct results.
    #[test]
    fn two_peers(seed in decisions()) {
        pair::run(&mut Entropy::new(&seed), 10);
    }
}

proptest! {
    #![proptest_config(cases(192))]

    /// If the network damages what two peers send, no wrong data are delivered.
    #[test]
    fn two_peers_and_damage(seed in decisions()) {
        mutant::run(&mut Entropy::new(&seed), 10, true);
    }

    /// If two peers break the rules, each keeps its invariants.
    #[test]
    fn two_rude_peers(seed in decisions()) {
        mutant::run(&mut Entropy::new(&seed), 10, false);
    }
}

/// The runs with damage do not end at once, and damage does occur in them.
#[test]
fn damage_is_done() {
    for honest in [true, false] {
        let mut total = mutant::Outcome::default();
        for seed in 0..100u32 {
            let seed = [seed.to_be_bytes(), (!seed).to_le_bytes()].concat();
            let run = mutant::run(&mut Entropy::new(&seed), 30, honest);
            total.damages += run.damages;
            total.faults += run.faults;
            total.operations += run.operations;
            total.completed += run.completed;
        }
        assert!(total.damages > 15, "{honest}: {total:?}");
        assert!(total.faults > 10, "{honest}: {total:?}");
        // Peers that break the rules soon end each other's connection.
        let completed = if honest { 60 } else { 15 };
        assert!(total.completed > completed, "{honest}: {total:?}");
    }
}

/// The runs of [`two_peers`] are not trivial.
#[test]
fn two_peers_are_busy() {
    let mut total = pair::Summary::default();
    let mut terminated = 0;
    for seed in 0..60u32 {
        let seed = [seed.to_be_bytes(), (!seed).to_le_bytes()].concat();
        let run = pair::run(&mut Entropy::new(&seed), 30);
        total.operations += run.operations;
        total.fpdus += run.fpdus;
        total.atomics += run.atomics;
        total.immediates += run.immediates;
        terminated += u32::from(run.terminated);
    }
    assert!(total.operations > 600, "{total:?}");
    assert!(total.fpdus > 1500, "{total:?}");
    assert!(total.atomics > 30, "{total:?}");
    assert!(total.immediates > 120, "{total:?}");
    assert!(terminated > 5, "{terminated}");
}

/// All segments of a message but the first and the last are placed by one call, if they come whole.
#[test]
fn long_messages_are_continued() {
    let (stag, to) = (Stag(7), TaggedOffset(1000));
    let msn = iwarp::Msn::FIRST;
    let send = Message::Send {
        msn,
        solicited: false,
        invalidate: None,
    };
    for message in [
        Message::Write { stag, to },
        Message::ReadResponse { stag, to },
        send,
    ] {
        for crc in [false, true] {
            let payload = pattern(0, 3000);
            let item = Item { message, payload };
            let stream = frame(&[item.clone(), item], crc, false, || 128);
            let mut handler = Any::accepting();
            let len = 3000;
            handler.expect = Some(ReadExpect { stag, to, len });
            let mut guard = Guard::new(handler, crc);
            let mut rx = Receiver::new(RxConfig { crc });
            // The second Send has the MSN of the first.
            let whole = rx.receive(&shared(&stream), &mut guard).is_ok();
            assert_eq!(whole, !matches!(message, Message::Send { .. }));
            let segments = guard
                .calls
                .iter()
                .filter(|c| matches!(c, Call::End(_)))
                .count() as u32;
            let messages = 1 + u32::from(whole);
            assert!(segments > 10 * messages);
            assert_eq!(guard.continued, segments - 2 * messages);
        }
    }
}
