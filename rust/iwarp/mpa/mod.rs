// SPDX-License-Identifier: GPL-2.0

//! MPA: connection setup (RFC 5044 s7, RFC 6581) and the format of FPDUs (RFC 5044 s4).
//!
//! Setup is a pair of typestates, [`Initiator`] and [`Responder`]: each step consumes the old
//! state. They work on whole frames; [`FrameReader`] finds the frame in the byte stream.
//!
//! ```text
//! Initiator::request(offer) ---- MPA Request ----> Responder::request(frame)
//! Initiator::reply(frame)   <--- MPA Reply ------- Responder::accept(answer) or ::reject()
//!        | Agreed                                          | Agreed
//! ```

mod enhanced;
pub mod fpdu;
mod frame;
mod initiator;
mod reader;
mod responder;
mod rtr;
mod terms;

pub use enhanced::{Enhanced, NO_NEGOTIATION};
pub use fpdu::mulpdu;
pub use frame::{Frame, FrameKind, FRAME_MAX, MAX_PRIVATE_DATA};
pub use initiator::Initiator;
pub use reader::FrameReader;
pub use responder::Responder;
pub use rtr::{Rtr, RtrSet};
pub use terms::{Agreed, Asked, Limits, MpaError, Offer, Remedy};
