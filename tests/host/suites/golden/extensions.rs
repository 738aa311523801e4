// SPDX-License-Identifier: GPL-2.0

//! The messages of RFC 7306, sent and received.

use super::*;

cases! { rsiw_iwarp_golden_extensions:
    immediate_messages
    atomic_request_messages
    atomic_response_message
}

/// Whether the engine sends this message as these bytes of a ULPDU, and takes them for this event.
fn both_ways(message: Message, ulpdu: &[&[u8]], event: Event) -> bool {
    let ulpdu = ulpdu.iter().fold(Wire::new(), |wire, row| wire.bytes(row));
    let figure = fpdu(&ulpdu);
    // The engine must ignore the length that is passed for such a message.
    let sent = framed(message, 99);
    let mut probe = Probe::new();
    let received = extended::verdict(&figure, &mut probe);
    sent.is_some_and(|sent| sent.get() == figure.get())
        && received.is_ok()
        && probe.event == Some(event)
}

//= 7306-4.1-1, 7306-4.1-2, 7306-4.1-3, 7306-6.2-1, 7306-6.3-1, 7306-6.3-2, 7306-6.3-5, 7306-6.3-6
/// RFC 7306 A.3, Immediate Data and Immediate Data with SE.
pub(crate) fn immediate_messages() -> Outcome {
    for (solicited, control) in [(false, [0x41, 0x48]), (true, [0x41, 0x49])] {
        let data = Immediate([0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7]);
        let msn = Msn(1);
        check!(both_ways(
            Message::Immediate {
                msn,
                solicited,
                data
            },
            &[
                &control,
                &[0x00, 0x00, 0x00, 0x00],
                &[0x00, 0x00, 0x00, 0x00],
                &[0x00, 0x00, 0x00, 0x01],
                &[0x00, 0x00, 0x00, 0x00],
                &[0xa0, 0xa1, 0xa2, 0xa3],
                &[0xa4, 0xa5, 0xa6, 0xa7],
            ],
            Event::Immediate { data, solicited },
        ));
    }
    Ok(())
}

//= 7306-4.1-1, 7306-4.1-2, 7306-4.1-3, 7306-5.1.1-6, 7306-5.2-1, 7306-5.2.1-1, 7306-5.2.1-5,
//= 7306-5.2.1-6, 7306-5.2.1-7, 7306-5.2.1-8, 7306-5.2.1-13, 7306-5.2.1-14
/// RFC 7306 A.1, Atomic Operation Requests of both kinds.
pub(crate) fn atomic_request_messages() -> Outcome {
    const ONES: [u8; 8] = [0xff; 8];
    let (first, second) = (0xa1a2_a3a4_a5a6_a7a8, 0xb1b2_b3b4_b5b6_b7b8);
    let (third, fourth) = (0xc1c2_c3c4_c5c6_c7c8, 0xd1d2_d3d4_d5d6_d7d8);
    let add = AtomicOp::FetchAdd {
        add: first,
        mask: second,
    };
    let swap = AtomicOp::CmpSwap {
        swap: first,
        swap_mask: second,
        compare: third,
        compare_mask: fourth,
    };
    let compare = [0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8];
    let compare_mask = [0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8];
    for (op, code, compare, compare_mask) in [
        // "For Atomic Operations FetchAdd [...], the Compare Data field is set to zero on
        // transmit"; the mask "is set to ffffffffffffffffh on transmit".
        (add, 0, [0; 8], ONES),
        (swap, 2, compare, compare_mask),
    ] {
        let req = AtomicRequest {
            id: 0x1112_1314,
            stag: Stag(0x2122_2324),
            to: TaggedOffset(0x3132_3334_3536_3738),
            op,
        };
        check!(both_ways(
            Message::AtomicRequest { msn: Msn(1), req },
            &[
                &[0x41, 0x4a],
                &[0x00, 0x00, 0x00, 0x00],
                &[0x00, 0x00, 0x00, 0x01],
                &[0x00, 0x00, 0x00, 0x01],
                &[0x00, 0x00, 0x00, 0x00],
                &[0x00, 0x00, 0x00, code],
                &[0x11, 0x12, 0x13, 0x14],
                &[0x21, 0x22, 0x23, 0x24],
                &[0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38],
                &[0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8],
                &[0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8],
                &compare,
                &compare_mask,
            ],
            Event::AtomicRequest(req),
        ));
    }
    Ok(())
}

//= 7306-4.1-1, 7306-4.1-2, 7306-4.1-3, 7306-5-4, 7306-5.1.1-6, 7306-5.2-2, 7306-5.2.2-2,
//= 7306-5.2.2-3, 7306-5.2.2-4
/// RFC 7306 A.2, Atomic Operation Response, which has a queue of its own.
pub(crate) fn atomic_response_message() -> Outcome {
    let response = AtomicResponse {
        id: 0x1112_1314,
        value: 0x2122_2324_2526_2728,
    };
    check!(both_ways(
        Message::AtomicResponse {
            msn: Msn(1),
            response
        },
        &[
            &[0x41, 0x4b],
            &[0x00, 0x00, 0x00, 0x00],
            &[0x00, 0x00, 0x00, 0x03],
            &[0x00, 0x00, 0x00, 0x01],
            &[0x00, 0x00, 0x00, 0x00],
            &[0x11, 0x12, 0x13, 0x14],
            &[0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28],
        ],
        Event::AtomicResponse(response),
    ));
    Ok(())
}
