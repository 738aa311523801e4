// SPDX-License-Identifier: GPL-2.0

//! TLS handshakes, which a process makes for the kernel: tlshd, of the socket's network namespace.
//! Whether a connection has TLS, its user decides.
//!
//! C header: [`include/net/handshake.h`](srctree/include/net/handshake.h).

use crate::{bindings, errno, name::common_name, sock_ref::SockRef, Keyring, Role, TcpSocket};
use core::{
    fmt::{self, Write},
    net::IpAddr,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
};
use kernel::{
    error::{to_result, Result},
    prelude::*,
    str::CString,
    sync::{Arc, ArcBorrow, Completion, SetOnce},
};

/// The owner of a socket on which a handshake is made.
pub trait HandshakeOwner: Send + Sync + 'static {
    /// The socket. A [`Handshake`] is of the one that this names when it starts.
    fn socket(&self) -> &TcpSocket;

    /// The handshake has ended: [`Handshake::outcome`] has the result. Called once at the most, in
    /// process context. Must not wait for the [`Handshake`].
    fn handshake_done(this: ArcBorrow<'_, Self>);
}

/// How the ends show who they are.
pub enum Auth {
    /// By certificates, which tlshd has.
    Certificates,
    /// By a pre-shared key.
    Psk(Arc<Keyring>),
}

/// The peer as the handshake has verified it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    name: [u8; Identity::MOST],
    len: usize,
    /// Whether the name is whole, and the handshake has verified that it is the peer's.
    is_name: bool,
}

impl Identity {
    /// The most bytes of a name.
    pub const MOST: usize = 128;

    /// The owner of the key with that number, which tlshd has made of the peer's certificate.
    /// Errors: there is no such key, or no common name in it.
    fn of_key(serial: c_int) -> Result<Self> {
        let (mut owner, mut is_der) = ([0; 384], false);
        // SAFETY: `owner` is valid for writes of its length, and `is_der` for a write.
        let len = unsafe {
            bindings::ksock_key_owner(serial, owner.as_mut_ptr(), owner.len(), &mut is_der)
        };
        to_result(len)?;
        let len = usize::try_from(len).unwrap_or(0);
        // The rest of a subject that has no room may have another common name.
        let is_whole = len < owner.len();
        let owner = owner.get(..len).unwrap_or_default();
        match (is_der, is_whole) {
            // What tlshd calls the key, which is the peer's address.
            (false, _) => Ok(Self::unnamed(owner)),
            (true, true) => common_name(owner).map(Self::named).ok_or(EINVAL),
            (true, false) => Err(E2BIG),
        }
    }

    /// A peer of that name.
    pub(crate) fn named(name: &[u8]) -> Self {
        let is_name = name.len() <= Self::MOST;
        let shown = name.get(..Self::MOST).unwrap_or(name);
        let (mut name, len) = ([0; Self::MOST], shown.len());
        if let Some(name) = name.get_mut(..len) {
            name.copy_from_slice(shown);
        }
        Self { name, len, is_name }
    }

    /// A verified peer whose name is not known, with words for the log in place of it.
    pub(crate) fn unnamed(shown: &[u8]) -> Self {
        Self {
            is_name: false,
            ..Self::named(shown)
        }
    }

    /// Whether this is the peer's name, to the byte.
    pub fn is(&self, name: &str) -> bool {
        self.is_name && self.bytes() == name.as_bytes()
    }

    /// A peer of that name, for tests of others.
    #[cfg(CONFIG_KUNIT = "y")]
    pub fn for_test(name: &str) -> Self {
        Self::named(name.as_bytes())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.name.get(..self.len).unwrap_or_default()
    }
}

/// The common name of its certificate, or, if that is not known, its address, or the identity of
/// its key. It is the peer's choice: bytes that are not printable ASCII, quotes and backslashes
/// are written as `\xNN`, so that no two names look alike.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.bytes() {
            match byte {
                b'"' | b'\\' => write!(f, "\\x{byte:02x}")?,
                0x20..=0x7e => f.write_char(byte.into())?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        Ok(())
    }
}

#[pin_data]
struct Pending<T: HandshakeOwner> {
    owner: Arc<T>,
    /// The socket's.
    sk: SockRef,
    outcome: SetOnce<Result<Identity>>,
    /// The peer's address in words.
    name: CString,
    /// The keyring, if there is a pre-shared key, and the server's address.
    keys: Option<(Arc<Keyring>, IpAddr)>,
    #[pin]
    done: Completion,
}

impl<T: HandshakeOwner> Pending<T> {
    /// The keyring with pre-shared keys; null: certificates are shown.
    fn keyring(&self) -> *mut bindings::key {
        match &self.keys {
            Some((keyring, _)) => keyring.as_ptr(),
            None => core::ptr::null_mut(),
        }
    }

    /// Who the peer is whose key has that number.
    fn identity(&self, key: c_int) -> Result<Identity> {
        if let Some((keyring, server)) = &self.keys {
            return keyring.identity(key, &self.sk, *server);
        }
        // A client may show no certificate, and tlshd takes no offence.
        if key == 0 {
            return Err(errno::ENOKEY.into());
        }
        // Of several handshakes with one server tlshd has kept the last one's key. But it has
        // verified that each is the server of this name.
        Ok(Identity::of_key(key).unwrap_or_else(|_| Identity::unnamed(self.name.to_bytes())))
    }
}

/// A handshake. To drop it cancels it: afterwards tlshd's result counts for nothing, and
/// [`HandshakeOwner::handshake_done`] is neither running nor will be called. Dropping sleeps, but
/// waits for no process and for no peer.
///
/// INVARIANT: `ksock_tls_handshake()` has taken a pointer to the `Pending`. It is valid until the
/// callback has completed `done`, or until `ksock_tls_cancel()` has said that there will be none.
pub struct Handshake<T: HandshakeOwner>(Pin<KBox<Pending<T>>>);

impl<T: HandshakeOwner> Handshake<T> {
    /// Asks tlshd for a handshake on the socket of `owner`. It has to be connected, and to have a
    /// file ([`TcpSocket::with_file`]). tlshd gives up after `ms` milliseconds; whether it does is
    /// up to it, so the owner needs a time limit of its own.
    ///
    /// The kernel's TLS keeps the callbacks that it finds, and restores them when the socket is
    /// closed, when their code may be gone. So the socket has no callbacks of this crate, and gets
    /// none until the handshake has ended. If it is cancelled, the socket never gets any: a process
    /// may still have the file.
    ///
    /// # Errors
    ///
    /// `ESRCH`: no tlshd serves the network namespace. `EAGAIN`: too many handshakes wait for it;
    /// there may be room in a moment. `EBUSY`: the socket has callbacks, or had its handshake.
    /// `EOPNOTSUPP`: the kernel has no TLS. `ENOKEY`: a client has no key for the server.
    /// `ENOTUNIQ`: it has several. `ENOTCONN`, `ENOMEM`. `EINVAL`: the socket has no file.
    pub fn start(owner: Arc<T>, role: Role, auth: Auth, ms: u32) -> Result<Self> {
        let name = role.peer_name()?;
        let keeper = owner.clone();
        // Asked once, as another call may name another socket.
        let socket = keeper.socket();
        let sk = SockRef::new(socket);
        let (keys, psk) = match (auth, role) {
            (Auth::Certificates, _) => (None, 0),
            (Auth::Psk(keyring), Role::Client(server)) => {
                let psk = keyring.find(&sk, server)?;
                (Some((keyring, server)), psk)
            }
            (Auth::Psk(keyring), Role::Server(_)) => {
                let server = socket.local_addr()?.ip();
                (Some((keyring, server)), 0)
            }
        };
        let pending = KBox::pin_init(
            pin_init!(Pending {
                owner,
                sk,
                outcome: SetOnce::new(),
                name,
                keys,
                done <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        let data: *const Pending<T> = &*pending;
        ANY.store(true, Ordering::Relaxed);
        socket.hook_slot().begin_handshake(socket.sk())?;
        // SAFETY: `socket` is borrowed for the time of this call; the kernel takes a reference to
        // its file. `data` points to `pending`, which does not move and stays until the callback
        // has run or will not run any more: see `Drop`. It has a reference to the keyring, too.
        to_result(unsafe {
            bindings::ksock_tls_handshake(
                socket.as_ptr(),
                matches!(role, Role::Server(_)),
                pending.keyring(),
                psk,
                ms,
                Some(done::<T>),
                data.cast_mut().cast(),
            )
        })
        // No process has seen it.
        .inspect_err(|_| socket.hook_slot().end_handshake())?;
        // INVARIANT: It took the pointer. (If it fails, there is no callback.)
        Ok(Self(pending))
    }

    /// The result, once there is one. Errors: those of tlshd, `EACCES` above all; `ENOKEY`: the
    /// peer has shown no certificate; `EKEYREJECTED`: its key is none of the keyring for this
    /// server; `ECONNRESET`: the peer has ended the connection.
    pub fn outcome(&self) -> Option<Result<Identity>> {
        self.0.outcome.copy()
    }
}

impl<T: HandshakeOwner> Drop for Handshake<T> {
    fn drop(&mut self) {
        let Pending {
            owner, sk, done, ..
        } = &*self.0;
        // SAFETY: `sk` is valid.
        if unsafe { bindings::ksock_tls_cancel(sk.as_ptr()) } {
            return;
        }
        // The callback has run, or runs just now; it does not wait for anything.
        done.wait_for_completion();
        // tlshd has done what it does with the socket. (The owner may name another one now.)
        let socket = owner.socket();
        if sk.is_of(socket) {
            socket.hook_slot().end_handshake();
        }
    }
}

/// Whether there was a handshake since the module was loaded.
static ANY: AtomicBool = AtomicBool::new(false);

/// Waits until no thread is in this module's code for the end of a handshake. That code tells the
/// owner before it returns to the kernel, so a module that goes away calls this when no owner is
/// left. Sleeping.
pub fn wait_for_callbacks() {
    if ANY.load(Ordering::Relaxed) {
        // SAFETY: The function has no requirements.
        unsafe { bindings::ksock_tls_done_returned() };
    }
}

/// # Safety
///
/// `data` must point to the `Pending<T>` of a handshake, for which this was not called before and
/// which was not cancelled.
unsafe extern "C" fn done<T: HandshakeOwner>(data: *mut c_void, status: c_int, peer: c_int) {
    // SAFETY: By the contract of this function and the invariant of `Handshake`, `data` is valid
    // until `done` is completed below. There are only shared references to it.
    let pending = unsafe { &*data.cast::<Pending<T>>() };
    let outcome = match status {
        0 => pending.identity(peer),
        -4095..0 => match Error::from_errno(status) {
            // gnutls' number for the end of a stream (`GNUTLS_E_PREMATURE_TERMINATION`) is the one
            // of `ETIMEDOUT`, and tlshd passes it on.
            e if e == errno::ETIMEDOUT => Err(errno::ECONNRESET.into()),
            e => Err(e),
        },
        // tlshd's number is any.
        _ => Err(EIO),
    };
    pending.outcome.populate(outcome);
    T::handshake_done(pending.owner.as_arc_borrow());
    // Last: from here on `pending` may be gone, and the module may be on its way:
    // `wait_for_callbacks` lets this thread return first.
    pending.done.complete_all();
}

#[kunit_tests(rsiw_net_identity)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_look_different() -> Result {
        for (name, shown) in [
            (&b"hosta"[..], "hosta"),
            (b" host a ", " host a "),
            (b"hosta\0evil", "hosta\\x00evil"),
            (b"hosta\x1b[2J\x7f", "hosta\\x1b[2J\\x7f"),
            (b"hosta\\x00\"", "hosta\\x5cx00\\x22"),
            (b"h\xc3\xb6st", "h\\xc3\\xb6st"),
            (b"", ""),
        ] {
            let identity = Identity::named(name);
            let text = CString::try_from_fmt(format_args!("{identity}"))?;
            assert_eq!(text.to_bytes(), shown.as_bytes());
        }
        Ok(())
    }
}
