// SPDX-License-Identifier: GPL-2.0

//! Kernel TCP sockets.
//!
//! What a protocol that lives on top of TCP needs inside the kernel: sockets that never block on
//! the network ([`TcpSocket`]), their callbacks with an install/restore guard ([`hooks`]), a proof
//! that the socket lock is held and state guarded by it ([`LockedSock`], [`SockCell`]), reading
//! without copies from within the callback, and sending long batches of bytes from page fragments
//! that TCP takes over without another copy ([`TxBatch`]).
//!
//! C headers: [`include/linux/net.h`](srctree/include/linux/net.h),
//! [`include/net/sock.h`](srctree/include/net/sock.h),
//! [`include/net/tcp.h`](srctree/include/net/tcp.h).
//!
//! # Contexts
//!
//! "Sleeping" in a function's documentation means process context in which sleeping is allowed;
//! everything else may be called from any context. Sleeping functions take the socket lock, and
//! giving it back runs what arrived meanwhile, [`SockCallbacks::data_ready`] included, in the
//! calling thread. A caller must therefore hold no lock that its callbacks take.

use rdma_bindings as bindings;

pub mod addr;
pub mod batch;
pub mod errno;
pub mod hooks;
pub mod io;
pub mod locked;
pub mod namespace;
pub mod pages;
mod partial;
pub mod pool;
pub mod socket;
#[cfg(CONFIG_KUNIT)]
mod tests;

pub use self::{
    batch::{Bytes, TxBatch},
    hooks::{ListenCallbacks, SockCallbacks},
    io::{Received, Sent},
    locked::{LockedSock, SockCell, SockGuard},
    namespace::Namespace,
    pages::PageSpan,
    pool::PagePool,
    socket::{Family, TcpSocket, TcpState},
};

/// Prefix of the messages of this crate.
#[allow(dead_code)]
const __LOG_PREFIX: &[u8] = b"rsiw\0";
