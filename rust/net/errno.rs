// SPDX-License-Identifier: GPL-2.0

//! The error codes of networking, which [`kernel::error::code`] does not have.

use kernel::{error::Error, prelude::*};

/// An error code; compares with and converts to [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(
    /// Positive.
    c_int,
);

impl Errno {
    /// The code as an [`Error`].
    pub fn error(self) -> Error {
        Error::from_errno(-self.0)
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Error {
        errno.error()
    }
}

impl PartialEq<Errno> for Error {
    fn eq(&self, errno: &Errno) -> bool {
        self.to_errno() == -errno.0
    }
}

macro_rules! declare {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        $(
            $(#[$doc])*
            // CAST: All codes are small.
            pub const $name: Errno = Errno(crate::bindings::$name as c_int);
        )*
    };
}

declare! {
    /// Protocol error.
    EPROTO,
    /// Address family not supported.
    EAFNOSUPPORT,
    /// Address already in use.
    EADDRINUSE,
    /// Cannot assign requested address.
    EADDRNOTAVAIL,
    /// Network is down.
    ENETDOWN,
    /// Connection aborted.
    ECONNABORTED,
    /// Connection reset by peer.
    ECONNRESET,
    /// There is a connection already.
    EISCONN,
    /// There is no connection.
    ENOTCONN,
    /// Timed out.
    ETIMEDOUT,
    /// Connection refused.
    ECONNREFUSED,
    /// Operation now in progress.
    EINPROGRESS,
}
