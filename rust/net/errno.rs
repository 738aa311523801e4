// SPDX-License-Identifier: GPL-2.0

//! Error codes of networking that [`kernel::error::code`] does not have.

use kernel::{error::Error, prelude::*};

/// An error code, which compares with [`Error`] and converts to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(
    /// The `errno` value, positive.
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
            // CAST: All codes are less than 4096.
            pub const $name: Errno = Errno(crate::bindings::$name as c_int);
        )*
    };
}

declare! {
    /// The data is damaged.
    EBADMSG,
    /// A key is too old.
    EKEYEXPIRED,
    /// A quota is exceeded.
    EDQUOT,
    /// A key was rejected.
    EKEYREJECTED,
    /// Required key not available.
    ENOKEY,
    /// A name is not unique.
    ENOTUNIQ,
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
    /// The socket is connected already.
    EISCONN,
    /// The socket is not connected.
    ENOTCONN,
    /// Timed out.
    ETIMEDOUT,
    /// Connection refused.
    ECONNREFUSED,
    /// Operation now in progress.
    EINPROGRESS,
}
