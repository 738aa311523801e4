// SPDX-License-Identifier: GPL-2.0

//! Kernel TCP sockets for a protocol that runs on top of TCP.
//!
//! - [`TcpSocket`]: a socket that never blocks on the network. [`info`]: what it tells of itself.
//! - [`hooks`]: its callbacks, installed and restored together.
//! - [`LockedSock`] and [`SockCell`]: a proof that the socket lock is held, and state that it
//!   guards.
//! - [`io`]: sends, and reads without a copy from within the callback.
//! - [`handshake`], [`tls`]: TLS between TCP and that protocol. [`keys`]: pre-shared keys for it.
//! - [`TxBatch`]: a long batch of bytes in page fragments, which TCP sends without another copy.
//!   [`zerocopy`]: when TCP has released memory of others that is in one.
//!
//! C headers: [`include/linux/net.h`](srctree/include/linux/net.h),
//! [`include/net/sock.h`](srctree/include/net/sock.h),
//! [`include/net/tcp.h`](srctree/include/net/tcp.h).
//!
//! # Contexts
//!
//! "Sleeping" in a function's documentation means process context in which sleeping is allowed;
//! everything else may be called from any context. Sleeping functions take the socket lock.
//! Releasing it processes the packets that arrived meanwhile, and so calls the socket's callbacks,
//! [`SockCallbacks::data_ready`] among them, in the calling thread. The caller must therefore hold
//! no lock that the callbacks take, or it deadlocks.

use rdma_bindings as bindings;

pub mod addr;
pub mod batch;
pub mod errno;
mod guard;
pub mod handshake;
pub mod hooks;
pub mod info;
pub mod io;
pub mod keys;
pub mod locked;
mod name;
pub mod namespace;
mod page_ref;
pub mod pages;
mod partial;
pub mod pool;
mod progress;
mod role;
mod sock_ref;
pub mod socket;
mod state;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;
#[cfg(CONFIG_KUNIT = "y")]
mod tests_refusals;
pub mod tls;
pub mod zerocopy;

pub use self::{
    batch::{Bytes, Reserved, TxBatch},
    guard::SockGuard,
    handshake::{Auth, Handshake, HandshakeOwner, Identity},
    hooks::{ListenCallbacks, SockCallbacks},
    keys::Keyring,
    locked::{LockedSock, SockCell},
    namespace::Namespace,
    pages::PageSpan,
    pool::PagePool,
    progress::{Received, Sent},
    role::Role,
    socket::{Family, TcpSocket},
    state::TcpState,
    zerocopy::Released,
};

/// Prefix of this crate's log messages.
#[allow(dead_code)]
const __LOG_PREFIX: &[u8] = b"rust_net\0";
