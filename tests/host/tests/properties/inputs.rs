// SPDX-License-Identifier: GPL-2.0

//! Streams, handlers and receivers that properties are tried on.

use iwarp::rx::{ReadExpect, Receiver, Refusal, RxConfig};
use iwarp::tx::Message;
use iwarp::{Stag, TaggedOffset};
use iwarp_sim::guard::Any;
use iwarp_sim::stream::{frame, messages, pattern, Item};
use iwarp_sim::{receiver, Entropy};

/// A stream that may arrive, and whether it has CRCs: messages, perhaps damaged.
pub(crate) fn damaged(e: &mut Entropy) -> (bool, Vec<u8>) {
    let items = messages(e, 4);
    damage(e, &items, 300)
}

/// As [`damaged`], of these messages.
pub(crate) fn damage(e: &mut Entropy, items: &[Item], mulpdu: u16) -> (bool, Vec<u8>) {
    let crc = e.flag();
    let mut stream = frame(items, crc, false, || mulpdu);
    for _ in 0..e.below(4) {
        let at = usize::from(e.u16()) % stream.len();
        match e.below(4) {
            0 => stream[at] ^= 1 << e.below(8),
            1 => stream[at] = e.u8(),
            2 => {
                stream.remove(at);
            }
            _ => stream.insert(at, e.u8()),
        }
        if stream.is_empty() {
            break;
        }
    }
    (crc, stream)
}

/// A message of many segments, if they are short.
pub(crate) fn long(e: &mut Entropy) -> Option<Item> {
    // Some wrap before they end.
    let to = if e.flag() {
        TaggedOffset(u64::from(e.u32()))
    } else {
        TaggedOffset(u64::MAX - u64::from(e.below(4000)))
    };
    let message = match e.below(3) {
        0 => return None,
        1 => Message::Write { stag: Stag(7), to },
        _ => Message::ReadResponse { stag: Stag(7), to },
    };
    let payload = pattern(e.u32(), 300 + e.below(2000));
    Some(Item { message, payload })
}

pub(crate) const REFUSALS: [Refusal; 12] = [
    Refusal::InvalidStag,
    Refusal::Bounds,
    Refusal::Access,
    Refusal::NotAssociated,
    Refusal::Wrap,
    Refusal::NoBuffer,
    Refusal::TooLong,
    Refusal::ReadQueueFull,
    Refusal::CannotInvalidate,
    Refusal::Misaligned,
    Refusal::Unexpected,
    Refusal::Local,
];

pub(crate) fn any_handler(e: &mut Entropy) -> Any {
    Any {
        refuse_at: e.flag().then(|| e.below(40)),
        why: REFUSALS[e.below(12) as usize],
        expect: e.flag().then(|| ReadExpect {
            stag: Stag(e.u32()),
            to: TaggedOffset(u64::from(e.u32())),
            len: e.u32(),
        }),
        ..Any::accepting()
    }
}

/// A receiver, with or without the messages of RFC 7306.
pub(crate) fn any_receiver(e: &mut Entropy, crc: bool) -> Receiver {
    if e.flag() {
        receiver(crc)
    } else {
        Receiver::new(RxConfig { crc })
    }
}
