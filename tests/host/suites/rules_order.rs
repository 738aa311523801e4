// SPDX-License-Identifier: GPL-2.0

//! Rules for the order of messages: what may interleave, and what waits for a Write.

use super::probe::{code, receive, receiver, terminate_for, verdict, Call, Probe};
use super::rules_ddp::written;
use super::wire::{
    fpdu, halves, op, read_header, read_request, send, tagged, untagged, Wire, LAST, MORE,
    TAGGED_LAST, TAGGED_MORE,
};
use super::Outcome;
use iwarp::rx::{Event, Refusal};
use iwarp::{Stag, TaggedOffset, TermCode};

cases! { rsiw_iwarp_rules_order:
    tagged_and_untagged_interleave
    send_within_a_write_waits
    read_request_within_a_write_waits
    one_message_waits_for_a_write
    nothing_waits_for_a_younger_write
    nothing_waits_for_a_read_response
    refused_after_a_wait
    two_untagged_messages_do_not_interleave
    two_tagged_messages_do_not_interleave
}

/// Tagged and untagged messages may interleave, segment by segment.
pub(crate) fn tagged_and_untagged_interleave() -> Outcome {
    let mut rx = receiver();
    let mut probe = Probe::new();
    for segment in [
        fpdu(&untagged(MORE, op::SEND, 0, 1, 0, &[1, 2])),
        fpdu(&tagged(TAGGED_MORE, op::WRITE, 5, 100, &[3, 4])),
        fpdu(&untagged(LAST, op::SEND, 0, 1, 2, &[5])),
        fpdu(&tagged(TAGGED_LAST, op::WRITE, 5, 102, &[6])),
    ] {
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
    }
    check_eq!((probe.begun, probe.ended, probe.delivered), (4, 4, 2));
    check_eq!(probe.placement, Some(written(5, 102, 1, false, true)));
    Ok(())
}

//= 5041-5.3-4, 5041-5.4-1c
/// s5.4: a message is delivered when "all preceding DDP Messages have been Placed". A Send that
/// comes within an RDMA Write is delivered behind it.
pub(crate) fn send_within_a_write_waits() -> Outcome {
    let mut rx = receiver();
    let mut probe = Probe::new();
    let [first, last] = halves();
    for segment in [&first, &send(1, &[1, 2])] {
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
    }
    check_eq!((probe.ended, probe.delivered), (2, 0));
    check!(rx.mid_message());
    check!(receive(&mut rx, last.get(), &mut probe).is_ok());
    check_eq!((probe.ended, probe.delivered), (3, 2));
    let event = Event::Recv {
        len: 2,
        solicited: false,
        invalidate: None,
    };
    check_eq!(probe.event, Some(event));
    check!(!rx.mid_message());
    // What follows waits for nothing.
    check!(receive(&mut rx, send(2, &[5]).get(), &mut probe).is_ok());
    check_eq!(probe.delivered, 3);
    // A Send that has several segments need not wait if it ends when the Write has ended.
    let mut rx = receiver();
    let mut probe = Probe::new();
    for (segment, delivered) in [
        (first, 0),
        (fpdu(&untagged(MORE, op::SEND, 0, 1, 0, &[1])), 0),
        (last, 1),
        (fpdu(&tagged(TAGGED_MORE, op::WRITE, 5, 200, &[3])), 1),
        (fpdu(&untagged(LAST, op::SEND, 0, 1, 1, &[2])), 2),
    ] {
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
        check_eq!(probe.delivered, delivered);
    }
    Ok(())
}

//= 5041-5.4-1c
/// The same for a Read Request, which may read what the RDMA Write before it writes (RFC 5040 s5.5
/// rule 12).
pub(crate) fn read_request_within_a_write_waits() -> Outcome {
    let mut rx = receiver();
    let mut probe = Probe::new();
    let [first, last] = halves();
    let read = read_request(1, &read_header(1, 2, 3, 4, 5));
    for segment in [&first, &read] {
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
    }
    check_eq!(probe.delivered, 0);
    check!(receive(&mut rx, last.get(), &mut probe).is_ok());
    check_eq!(probe.delivered, 2);
    let request = match probe.event {
        Some(Event::ReadRequest(request)) => request,
        _ => Default::default(),
    };
    check_eq!((request.sink_stag, request.src_stag), (Stag(1), Stag(4)));
    check_eq!((request.len, request.src_to), (3, TaggedOffset(5)));
    Ok(())
}

//= 5041-5.4-1d
/// There is room for one message that waits. Another one is a fault when it begins; a Terminate,
/// which ends all, is none.
pub(crate) fn one_message_waits_for_a_write() -> Outcome {
    let [first, _] = halves();
    let waits = first.bytes(send(1, &[1]).get());
    for second in [
        send(2, &[2]),
        read_request(1, &read_header(1, 2, 3, 4, 5)),
        fpdu(&untagged(MORE, op::SEND, 0, 2, 0, &[2])),
    ] {
        let mut probe = Probe::new();
        let got = code(&waits.clone().bytes(second.get()), &mut probe);
        check_eq!(got, Some(TermCode::UNEXPECTED_OPCODE));
        check_eq!((probe.begun, probe.delivered), (2, 0));
    }
    let mut probe = Probe::new();
    let stream = waits.bytes(fpdu(&untagged(LAST, op::TERMINATE, 2, 1, 0, &[0; 4])).get());
    check!(verdict(&stream, &mut probe).is_ok());
    check_eq!(probe.delivered, 1);
    check!(matches!(probe.event, Some(Event::Terminate(_))));
    Ok(())
}

//= 5041-5.3-4
/// A Send that began before the RDMA Write is delivered before it.
pub(crate) fn nothing_waits_for_a_younger_write() -> Outcome {
    let mut rx = receiver();
    let mut probe = Probe::new();
    let [first, last] = halves();
    for (segment, delivered) in [
        (fpdu(&untagged(MORE, op::SEND, 0, 1, 0, &[1])), 0),
        (first, 0),
        (fpdu(&untagged(LAST, op::SEND, 0, 1, 1, &[2])), 1),
        (send(2, &[1]), 1),
        (last, 3),
    ] {
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
        check_eq!(probe.delivered, delivered);
    }
    Ok(())
}

//= 5041-5.3-4, 5041-5.4-1c, 5041-5.4-1d
/// RFC 5040 s5.5 rule 2: "RDMAP does not provide ordering between operations that are generated
/// from the two ends of an RDMAP Stream." So a Send does not wait for the response to this end's
/// Read.
pub(crate) fn nothing_waits_for_a_read_response() -> Outcome {
    let mut rx = receiver();
    let mut probe = Probe::reading(7, 0, 2);
    for (segment, delivered) in [
        (fpdu(&tagged(TAGGED_MORE, op::READ_RESPONSE, 7, 0, &[1])), 0),
        (send(1, &[1]), 1),
        (send(2, &[2]), 2),
        (fpdu(&tagged(TAGGED_LAST, op::READ_RESPONSE, 7, 1, &[2])), 3),
    ] {
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
        check_eq!(probe.delivered, delivered);
    }
    Ok(())
}

/// If a message that has waited is refused, the Terminate has its header, as without the wait.
pub(crate) fn refused_after_a_wait() -> Outcome {
    let [first, last] = halves();
    for (message, why) in [
        (send(1, &[1, 2]), Refusal::Local),
        (
            fpdu(&untagged(LAST, op::SEND_INV, 0, 1, 0, &[1, 2])),
            Refusal::CannotInvalidate,
        ),
        (
            read_request(1, &read_header(1, 2, 3, 4, 5)),
            Refusal::Access,
        ),
    ] {
        let mut probe = Probe::refusing(Call::Deliver, why);
        let at_once = terminate_for(&message, &mut probe);
        let mut rx = receiver();
        let mut probe = Probe::new();
        let held = first.clone().bytes(message.get());
        check!(receive(&mut rx, held.get(), &mut probe).is_ok());
        probe.refuse_from = 1;
        probe.refuse = Some((Call::Deliver, why));
        let Err(fault) = receive(&mut rx, last.get(), &mut probe) else {
            check!(false);
            return Ok(());
        };
        check!(at_once.is_some());
        check_eq!(rx.terminate_for(&fault), at_once);
        check_eq!(probe.delivered, 1);
    }
    Ok(())
}

//= 5041-5.3-4
/// s5.3: "MUST Deliver DDP Messages to the ULP in the order they were sent by the Data Source."
pub(crate) fn two_untagged_messages_do_not_interleave() -> Outcome {
    let open = fpdu(&untagged(MORE, op::SEND, 0, 1, 0, &[1, 2]));
    for intruder in [
        read_request(1, &read_header(1, 2, 3, 4, 5)),
        fpdu(&untagged(LAST, op::SEND_SE, 0, 1, 2, &[])),
    ] {
        let stream = open.clone().bytes(intruder.get());
        let mut probe = Probe::new();
        check_eq!(code(&stream, &mut probe), Some(TermCode::UNEXPECTED_OPCODE));
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}

//= 5041-4.2-4
/// s5.2: tagged messages are told apart by "the in-order delivery characteristics of the LLP".
pub(crate) fn two_tagged_messages_do_not_interleave() -> Outcome {
    let stream = Wire::new()
        .bytes(fpdu(&tagged(TAGGED_MORE, op::WRITE, 5, 100, &[3, 4])).get())
        .bytes(fpdu(&tagged(TAGGED_LAST, op::READ_RESPONSE, 7, 0, &[1])).get());
    let mut probe = Probe::reading(7, 0, 1);
    check_eq!(code(&stream, &mut probe), Some(TermCode::UNEXPECTED_OPCODE));
    check_eq!(probe.begun, 1);
    Ok(())
}
