// SPDX-License-Identifier: GPL-2.0

//! Error codes that verbs return and [`kernel::error::code`] does not have.
//!
//! They are functions because only the kernel crate can make an [`Error`] in a constant.

use kernel::error::Error;
use rdma_bindings as bindings;

/// `EOPNOTSUPP`: the device cannot do that.
pub fn unsupported() -> Error {
    Error::from_errno(-(bindings::EOPNOTSUPP as i32))
}

/// `ECONNABORTED`: the connection was given up.
pub fn aborted() -> Error {
    Error::from_errno(-(bindings::ECONNABORTED as i32))
}

/// `EMSGSIZE`: the message has no room for that.
pub(crate) fn message_size() -> Error {
    Error::from_errno(-(bindings::EMSGSIZE as i32))
}
