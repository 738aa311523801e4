// SPDX-License-Identifier: GPL-2.0

//! RDMAP messages on the wire (RFC 5040 s4, RFC 7306): control field, the headers of messages.

mod atomic;
mod immediate;
mod opcode;
mod read;
mod term_code;
mod terminate;

pub use atomic::{
    AtomicOp, AtomicRequest, AtomicResponse, Flush, ATOMIC_LEN, ATOMIC_REQUEST_LEN,
    ATOMIC_RESPONSE_LEN,
};
pub use immediate::{Immediate, IMMEDIATE_LEN};
pub use opcode::{Opcode, VERSION};
pub(crate) use opcode::{EXTENSION_BIT, VERSION_BITS, VERSION_BITS_MASK};
pub use read::READ_REQUEST_LEN;
pub use term_code::{Layer, TermCode};
pub use terminate::{Terminate, TERMINATE_MAX};
