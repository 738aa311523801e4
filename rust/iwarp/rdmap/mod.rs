// SPDX-License-Identifier: GPL-2.0

//! RDMAP messages on the wire (RFC 5040 s4): control field, Read Request Header, Terminate.

mod opcode;
mod read;
mod term_code;
mod terminate;

pub use opcode::{Opcode, VERSION};
pub(crate) use opcode::{VERSION_BITS, VERSION_BITS_MASK};
pub use read::READ_REQUEST_LEN;
pub use term_code::{Layer, TermCode};
pub use terminate::{Terminate, TERMINATE_MAX};
