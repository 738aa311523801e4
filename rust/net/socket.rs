// SPDX-License-Identifier: GPL-2.0

//! Kernel TCP sockets: creation, options, connection setup and close.
//!
//! [`info`](crate::info) has what a socket tells of itself.

use crate::{
    addr, bindings, errno,
    hooks::{HookSlot, ListenCallbacks, SockCallbacks},
    tls::Tls,
    Namespace, Received, Role,
};
use core::{mem::ManuallyDrop, net::SocketAddr, ptr::NonNull};
use kernel::{
    error::{to_result, Result},
    prelude::*,
    sync::Arc,
};

/// The address family of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `AF_INET`.
    V4,
    /// `AF_INET6`; accepts IPv4 as well, unless [`TcpSocket::set_v6only`] was called.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(addr: &SocketAddr) -> Self {
        match addr {
            SocketAddr::V4(_) => Family::V4,
            SocketAddr::V6(_) => Family::V6,
        }
    }
}

/// A TCP socket that belongs to the kernel.
///
/// None of its functions waits for the network. The owner drops it in sleeping context, and only
/// there: dropping detaches the callbacks and releases the socket. TCP then completes the close
/// that [`TcpSocket::shutdown_write`] began, or sends a reset if received data was never read.
///
/// Where the callbacks' target owns the socket, the owner ends that cycle by [`TcpSocket::detach`].
///
/// To the network it is like a socket of the process that asks for it. It is made in that process'
/// call, and so belongs to its cgroup, with the programs for `bind()`, `connect()` and packets, the
/// limit of memory and the class for traffic control; and `ip rule` sees the process' user.
/// Programs for the creation and the end of a socket the kernel skips for sockets of its own. So
/// `ksock_create()` runs them: they mark sockets, restrict them to an interface (`ip vrf exec`) or
/// forbid them, and a process is not to get around that. Threads of the kernel act for no process,
/// and none run for them.
///
/// A socket that a worker makes for another attempt inherits mark, priority, user and interface,
/// and is in the root's cgroup. An accepted socket has what its listener has, as in TCP, but its
/// memory is charged to no cgroup. Apart from that it is a socket of the kernel: without a label of
/// the process (SELinux), and without a file, so firewall rules for owners do not match.
pub struct TcpSocket {
    /// INVARIANT: A TCP socket, owned by this object until it is dropped.
    sock: NonNull<bindings::socket>,
    /// INVARIANT: The socket's `sk`, which it has until it is released.
    sk: NonNull<bindings::sock>,
    hooks: HookSlot,
    /// INVARIANT: Whether the socket has a file.
    has_file: bool,
    /// Programs of the maker's cgroup were asked for the socket, or for the listener that it comes
    /// from. So they are told of its end, as they are of that of a process' socket.
    asked: bool,
    tls: Tls,
}

// SAFETY: A socket belongs to no thread. All functions called on it take its lock themselves or
// read single words.
unsafe impl Send for TcpSocket {}
// SAFETY: All functions called on a shared socket take its lock themselves or read single words.
unsafe impl Sync for TcpSocket {}

impl TcpSocket {
    /// Creates a socket in the namespace `net`, with `TCP_NODELAY` and `SO_REUSEADDR` set. Its
    /// allocations are `GFP_NOIO`, so that it can serve memory reclaim. It belongs to the cgroup of
    /// the caller.
    ///
    /// C: `sock_create_kern()`. Errors: `EPERM`, or others, of a program of the caller's cgroup, if
    /// the caller is a process. Sleeping.
    pub fn new(net: &Namespace, family: Family) -> Result<Self> {
        let family = match family {
            Family::V4 => 2,
            Family::V6 => 10,
        };
        let mut sock = core::ptr::null_mut();
        // SAFETY: `net` keeps the namespace alive, and `sock` is valid for a write.
        let ret = unsafe { bindings::ksock_create(net.as_ptr(), family, &mut sock) };
        if ret < 0 {
            return Err(Error::from_errno(ret));
        }
        // SAFETY: On success the helper has made a TCP socket, which it passes to us. Only sockets
        // of processes get a file when they are made.
        unsafe { Self::own(sock, ret != 0) }
    }

    /// # Safety
    ///
    /// `sock` must be null or a TCP socket without a file, which then belongs to the result.
    unsafe fn own(sock: *mut bindings::socket, asked: bool) -> Result<Self> {
        let sock = NonNull::new(sock).ok_or(EINVAL)?;
        // SAFETY: By the contract of this function `sock` is a socket.
        let sk = unsafe { bindings::ksock_sk(sock.as_ptr()) };
        let Some(sk) = NonNull::new(sk) else {
            // SAFETY: By the contract of this function the socket is ours, and nobody else uses it.
            unsafe { bindings::sock_release(sock.as_ptr()) };
            return Err(EINVAL);
        };
        // INVARIANT: By the contract of this function `sock` is a TCP socket, ours, and without a
        // file; `sk` is its.
        Ok(Self {
            sock,
            sk,
            hooks: HookSlot::new(),
            has_file: false,
            asked,
            tls: Tls::new(),
        })
    }

    pub(crate) fn as_ptr(&self) -> *mut bindings::socket {
        self.sock.as_ptr()
    }

    #[inline]
    pub(crate) fn sk(&self) -> *mut bindings::sock {
        self.sk.as_ptr()
    }

    pub(crate) fn sock(&self) -> NonNull<bindings::sock> {
        self.sk
    }

    pub(crate) fn hook_slot(&self) -> &HookSlot {
        &self.hooks
    }

    #[inline]
    pub(crate) fn tls(&self) -> &Tls {
        &self.tls
    }

    /// Gives the socket a file, without which no process can make a TLS handshake for it. It has
    /// the name by which tlshd is to know the peer. Callbacks are detached. Errors: `EBUSY` if it
    /// has a file, `ENOMEM`, `ENFILE`; the socket is gone then. C: `sock_alloc_file()`. Sleeping.
    pub fn with_file(self, role: Role) -> Result<Self> {
        // Two files would each release the socket.
        if self.has_file {
            return Err(EBUSY);
        }
        let peer = role.peer_name()?;
        self.detach();
        let mut socket = ManuallyDrop::new(self);
        // SAFETY: By the type invariant the socket is valid, and it has no file: looked at above.
        // Nobody else uses it, as this function has the only object, and callbacks are detached.
        // `peer` is a string, which is copied.
        to_result(unsafe { bindings::ksock_give_file(socket.as_ptr(), peer.as_char_ptr()) })?;
        // If it failed, the socket was released, and so it must not be dropped. It had no callbacks
        // any more, so nothing is left to free.
        // INVARIANT: It has the file.
        socket.has_file = true;
        Ok(ManuallyDrop::into_inner(socket))
    }

    /// Looks at the first byte that has come, and leaves it. C: `MSG_PEEK`. Sleeping, but does not
    /// wait for the network.
    pub fn peek(&self, byte: &mut u8) -> Result<Received> {
        // SAFETY: By the type invariant the socket is valid, and `byte` is valid for a write.
        let ret = unsafe { bindings::ksock_peek(self.as_ptr(), byte) };
        match to_result(ret) {
            Ok(()) if ret == 0 => Ok(Received::Eof),
            Ok(()) => Ok(Received::Bytes(1)),
            Err(e) if e == EAGAIN => Ok(Received::WouldBlock),
            Err(e) => Err(e),
        }
    }

    /// Sets the IPv4 TOS or the IPv6 traffic class, and the priority that belongs to it. Sleeping.
    pub fn set_tos(&self, tos: u8) -> Result {
        // SAFETY: By the type invariant the socket is valid.
        to_result(unsafe { bindings::ksock_set_tos(self.as_ptr(), tos) })
    }

    /// Restricts an IPv6 socket to IPv6. Errors: `EINVAL` after [`TcpSocket::bind`]. Sleeping.
    pub fn set_v6only(&self) -> Result {
        // SAFETY: By the type invariant the socket is valid.
        to_result(unsafe { bindings::ksock_set_v6only(self.as_ptr()) })
    }

    /// Restricts the socket to one interface; call it before [`TcpSocket::bind`]. Errors:
    /// `EADDRNOTAVAIL` if a program of the caller's cgroup has restricted it to another interface,
    /// which is not the L3 master (VRF) of this one. Sleeping.
    pub fn bind_to_device(&self, ifindex: u32) -> Result {
        let ifindex = i32::try_from(ifindex).map_err(|_| EINVAL)?;
        // SAFETY: By the type invariant `sk` is valid.
        to_result(unsafe { bindings::ksock_bind_to_device(self.sk(), ifindex) })
    }

    /// Restricts the socket to the L3 master (VRF) of an interface, if that has one; call it before
    /// [`TcpSocket::bind`]. Does nothing if a program of the caller's cgroup has restricted the
    /// socket already. Sleeping.
    pub fn bind_to_l3_master(&self, ifindex: u32) -> Result {
        let ifindex = i32::try_from(ifindex).map_err(|_| EINVAL)?;
        // SAFETY: By the type invariant `sk` is valid.
        unsafe { bindings::ksock_bind_to_l3_master(self.sk(), ifindex) };
        Ok(())
    }

    /// Takes over what `other`, in whose place this socket comes, has of the one who made it: the
    /// interface that it is restricted to, its mark, its priority and its user. Call it before
    /// [`TcpSocket::bind`]. Sleeping.
    pub fn inherit(&self, other: &TcpSocket) {
        // SAFETY: By the type invariant both are valid.
        unsafe { bindings::ksock_inherit(self.sk(), other.sk()) };
    }

    /// Turns keep-alive probes on. When nothing has come for `idle` seconds, TCP sends a probe
    /// every `interval` seconds. After `count` probes without an answer the connection ends with
    /// `ETIMEDOUT`; where a [user timeout](Self::set_user_timeout) is set, that decides instead.
    /// Errors: `EINVAL` for 0, for more than 32767 seconds, and for more than 127 probes.
    ///
    /// C: `tcp_sock_set_keepidle()` and its siblings, `sock_set_keepalive()`. Sleeping.
    pub fn set_keepalive(&self, idle: u16, interval: u16, count: u8) -> Result {
        // SAFETY: By the type invariant `sk` is that of a TCP socket. Each of the functions takes
        // its lock and checks its value.
        unsafe {
            to_result(bindings::tcp_sock_set_keepidle(self.sk(), idle.into()))?;
            to_result(bindings::tcp_sock_set_keepintvl(self.sk(), interval.into()))?;
            to_result(bindings::tcp_sock_set_keepcnt(self.sk(), count.into()))?;
            bindings::sock_set_keepalive(self.sk());
        }
        Ok(())
    }

    /// Sets for how many milliseconds the peer may leave data unacknowledged, or its window closed,
    /// before the connection ends with `ETIMEDOUT`. C: `tcp_sock_set_user_timeout()`. Sleeping.
    pub fn set_user_timeout(&self, ms: u32) {
        let ms = c_int::try_from(ms).unwrap_or(c_int::MAX);
        // SAFETY: By the type invariant `sk` is that of a TCP socket. The function fails only for a
        // negative value, and `ms` is not negative.
        unsafe { bindings::tcp_sock_set_user_timeout(self.sk(), ms) };
    }

    /// Sets the longest time, of 1000 to 120,000 milliseconds, after which TCP sends again what
    /// nobody acknowledges, or asks again for the peer's window. C: `TCP_RTO_MAX_MS`. Context: any.
    pub fn set_rto_max(&self, ms: u32) {
        // SAFETY: By the type invariant `sk` is that of a TCP socket. TCP reads the value, a word
        // of its own, at any time.
        unsafe { bindings::ksock_set_rto_max(self.sk(), ms.clamp(1_000, 120_000)) };
    }

    /// Lets [`TcpSocket::bind`] take a port that another socket is bound to. It is meant for a port
    /// that was reserved for this socket by binding another one, which will neither listen nor
    /// connect. C: `SK_FORCE_REUSE`. Sleeping.
    pub fn share_port(&self) {
        // SAFETY: By the type invariant `sk` is valid.
        unsafe { bindings::ksock_share_port(self.sk()) };
    }

    /// Binds to a local address; for port 0, TCP picks one. C: `kernel_bind()`. Sleeping.
    pub fn bind(&self, local: &SocketAddr) -> Result {
        let storage = addr::to_storage(local);
        // SAFETY: By the type invariant the socket is valid. `storage` holds an address of the
        // length given.
        to_result(unsafe {
            bindings::ksock_bind(
                self.as_ptr(),
                (&raw const storage).cast(),
                addr::storage_len(local),
            )
        })
    }

    /// As [`TcpSocket::bind`], also to a port that the caller may not take
    /// (`CAP_NET_BIND_SERVICE`): for one that the administrator has chosen, not the caller.
    /// Sleeping.
    pub fn bind_as_kernel(&self, local: &SocketAddr) -> Result {
        let storage = addr::to_storage(local);
        // SAFETY: As in `bind`. The function gives the caller's credentials back.
        to_result(unsafe {
            bindings::ksock_bind_as_kernel(
                self.as_ptr(),
                (&raw const storage).cast(),
                addr::storage_len(local),
            )
        })
    }

    /// Starts to listen. `backlog` connections may wait to be accepted. Errors: `EBUSY` if the
    /// socket has a connection's callbacks, which it cannot get afterwards. C: `kernel_listen()`.
    /// Sleeping.
    pub fn listen(&self, backlog: u32) -> Result {
        self.hooks.begin_listening(self.sk())?;
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        // SAFETY: By the type invariant the socket is valid.
        to_result(unsafe { bindings::kernel_listen(self.as_ptr(), backlog) })
    }

    /// Takes a connection from the accept queue; `None` if there is none. The new socket has the
    /// listener's options and no callbacks. C: `kernel_accept()`. Sleeping.
    pub fn accept(&self) -> Result<Option<TcpSocket>> {
        let mut sock = core::ptr::null_mut();
        // SAFETY: By the type invariant the socket is valid, and `sock` is valid for a write.
        let ret = unsafe { bindings::ksock_accept(self.as_ptr(), &mut sock) };
        match to_result(ret) {
            // SAFETY: On success the helper has accepted a TCP socket, which it passes to us. Only
            // sockets of processes get a file then.
            Ok(()) => Ok(Some(unsafe { Self::own(sock, self.asked) }?)),
            Err(e) if e == EAGAIN => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Whether a connection can be accepted. C: `reqsk_queue_empty()`. Context: any.
    pub fn has_connection(&self) -> bool {
        // SAFETY: By the type invariant `sk` is that of a TCP socket.
        unsafe { bindings::ksock_has_connection(self.sk()) }
    }

    /// Starts to connect. Returns true if the connection is established already. Else the
    /// callbacks, if they are attached, tell the outcome: [`SockCallbacks::state_change`],
    /// [`SockCallbacks::error_report`]. C: `kernel_connect()`. Sleeping.
    pub fn connect(&self, remote: &SocketAddr) -> Result<bool> {
        let storage = addr::to_storage(remote);
        // SAFETY: By the type invariant the socket is valid. `storage` holds an address of the
        // length given.
        let ret = unsafe {
            bindings::ksock_connect(
                self.as_ptr(),
                (&raw const storage).cast(),
                addr::storage_len(remote),
            )
        };
        match to_result(ret) {
            Ok(()) => Ok(true),
            Err(e) if e == errno::EINPROGRESS => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Sends a FIN after everything that was sent. Receiving goes on.
    ///
    /// C: `kernel_sock_shutdown(SHUT_WR)`. Errors: `ENOTCONN` if there is no connection; with TLS
    /// also `EAGAIN` while TCP has no room for the records before the FIN, in which case it has to
    /// be called again. Sleeping.
    pub fn shutdown_write(&self) -> Result {
        if self.is_secure() {
            self.tls_shutdown_write()?;
        }
        const SHUT_WR: bindings::sock_shutdown_cmd = bindings::sock_shutdown_cmd_SHUT_WR;
        // SAFETY: By the type invariant the socket is valid.
        to_result(unsafe { bindings::kernel_sock_shutdown(self.as_ptr(), SHUT_WR) })
    }

    /// Ends the connection at once: TCP sends a reset if the peer must know, and drops data that it
    /// has not sent. A listener is closed, and its queue. C: `tcp_abort()`. Sleeping.
    pub fn abort(&self) {
        // SAFETY: By the type invariant the socket and its `sk` are valid.
        unsafe { bindings::ksock_abort(self.as_ptr()) };
    }

    /// Installs the callbacks of a connection.
    ///
    /// Earlier events are not repeated: look at the socket once afterwards. Errors: `EINVAL` after
    /// [`TcpSocket::listen`]; `EBUSY` if there are callbacks, while a [handshake] goes on, and
    /// after one that was cancelled; `ENOMEM`. Sleeping.
    ///
    /// [handshake]: crate::handshake
    pub fn attach<T: SockCallbacks>(&self, target: Arc<T>) -> Result {
        self.hooks.attach(self.sk(), target)
    }

    /// Installs the callback of a listener. Otherwise as [`TcpSocket::attach`].
    pub fn attach_listener<T: ListenCallbacks>(&self, target: Arc<T>) -> Result {
        self.hooks.attach_listener(self.sk(), target)
    }

    /// Restores the socket's own callbacks.
    ///
    /// On return no callback is running or will run, and the reference passed to
    /// [`TcpSocket::attach`] was dropped. Does nothing without callbacks. Sleeping. Not to be
    /// called from a callback of this socket, nor with a lock held that one takes, which would wait
    /// for itself.
    pub fn detach(&self) {
        self.hooks.detach(self.sk());
    }
}

impl Drop for TcpSocket {
    fn drop(&mut self) {
        self.detach();
        // SAFETY: By the type invariant the socket is ours to release, and it is not used again.
        unsafe { bindings::ksock_release(self.as_ptr(), self.asked) };
    }
}
