// SPDX-License-Identifier: GPL-2.0

//! Socket callbacks: installed as a whole, restored as a whole.
//!
//! TCP calls into its user through four function pointers of `struct sock`. [`HookSlot`] replaces
//! them together and makes `sk_user_data` point to a [`Hooks`] that owns an `Arc` of the object
//! that wants to know. The callbacks run with `sk_callback_lock` read-held and find their object
//! under that lock; detaching takes it for writing. So once detaching is done no callback is
//! running, later ones find nothing, and the `Arc` is gone. `net/tls` and `drivers/nvme/host/tcp.c`
//! work the same way.

use crate::{bindings, LockedSock, TcpState};
use core::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};
use kernel::{
    error::{to_result, Result},
    prelude::*,
    sync::{Arc, ArcBorrow},
};

/// The callbacks of a connected (or connecting) socket.
///
/// All run with bottom halves disabled and `sk_callback_lock` read-held, in softirq or in a process
/// that gives back the socket lock. They must not sleep, nor call functions of the socket that do.
pub trait SockCallbacks: Send + Sync + 'static {
    /// Data or the peer's FIN is there. The socket lock is held, and `sk` proves it.
    fn data_ready(this: ArcBorrow<'_, Self>, sk: &mut LockedSock);

    /// The send buffer has a useful amount of room again after a send found none.
    fn write_space(this: ArcBorrow<'_, Self>);

    /// The state of the connection changed. May come out of a call that this object makes itself.
    fn state_change(this: ArcBorrow<'_, Self>, state: TcpState);

    /// The connection failed, for the reason given; [`TcpSocket::take_error`] still returns it.
    ///
    /// [`TcpSocket::take_error`]: crate::TcpSocket::take_error
    fn error_report(this: ArcBorrow<'_, Self>, reason: Error);
}

/// The callback of a listening socket.
pub trait ListenCallbacks: Send + Sync + 'static {
    /// There is a connection to accept. In softirq, possibly on several CPUs at once, without the
    /// lock of the listening socket; must not sleep.
    fn ready(this: ArcBorrow<'_, Self>);
}

/// What `sk_user_data` points to.
#[repr(C)]
struct Hooks<T> {
    /// First, so that a pointer to it is one to the whole.
    raw: bindings::ksock_hooks,
    /// Drops the whole from a pointer to `raw`, which knows no `T`.
    free: unsafe fn(*mut bindings::ksock_hooks),
    target: Arc<T>,
}

/// The beginning of every `Hooks<T>`, without its `T`.
#[repr(C)]
struct Head {
    raw: bindings::ksock_hooks,
    free: unsafe fn(*mut bindings::ksock_hooks),
}

impl<T> Hooks<T> {
    fn new(target: Arc<T>) -> Result<KBox<Self>> {
        Ok(KBox::new(
            Self {
                raw: bindings::ksock_hooks {
                    data_ready: None,
                    write_space: None,
                    state_change: None,
                    error_report: None,
                    busy: false,
                    missed: false,
                    saved_data_ready: None,
                    saved_write_space: None,
                    saved_state_change: None,
                    saved_error_report: None,
                },
                free: Self::free,
                target,
            },
            GFP_KERNEL,
        )?)
    }

    /// # Safety
    ///
    /// `raw` must be the first member of a `Hooks<T>` that came from [`KBox::into_raw`] and that
    /// nobody uses any more.
    unsafe fn free(raw: *mut bindings::ksock_hooks) {
        // SAFETY: By the contract of this function; `raw` is at offset 0 (`repr(C)`).
        drop(unsafe { KBox::from_raw(raw.cast::<Self>()) });
    }

    /// # Safety
    ///
    /// `raw` must be the first member of a `Hooks<T>` that is not freed during `'a`.
    unsafe fn target<'a>(raw: *mut bindings::ksock_hooks) -> ArcBorrow<'a, T> {
        // SAFETY: By the contract of this function. Only the member `target` is borrowed, which
        // nobody changes, while C may change `raw`.
        unsafe { &(*raw.cast::<Self>()).target }.as_arc_borrow()
    }
}

impl<T: SockCallbacks> Hooks<T> {
    /// # Safety
    ///
    /// To be called by `ksock_data_ready()` only: with the hooks attached to `sk`, the socket lock
    /// held, and nobody inside who got a [`LockedSock`] of it.
    unsafe extern "C" fn data_ready(raw: *mut bindings::ksock_hooks, sk: *mut bindings::sock) {
        // SAFETY: The hooks are not freed while `sk_callback_lock` is read-held.
        let target = unsafe { Self::target(raw) };
        // SAFETY: The lock is held for the time of this call, and by `ksock_hooks::busy` this is
        // the only `LockedSock` of the socket.
        let mut locked = unsafe { LockedSock::new(sk) };
        T::data_ready(target, &mut locked);
    }

    /// # Safety
    ///
    /// To be called by `ksock_write_space()` only.
    unsafe extern "C" fn write_space(raw: *mut bindings::ksock_hooks) {
        // SAFETY: The hooks are not freed while `sk_callback_lock` is read-held.
        T::write_space(unsafe { Self::target(raw) });
    }

    /// # Safety
    ///
    /// To be called by `ksock_state_change()` only.
    unsafe extern "C" fn state_change(raw: *mut bindings::ksock_hooks, state: c_int) {
        // SAFETY: The hooks are not freed while `sk_callback_lock` is read-held.
        T::state_change(unsafe { Self::target(raw) }, TcpState::from_raw(state));
    }

    /// # Safety
    ///
    /// To be called by `ksock_error_report()` only.
    unsafe extern "C" fn error_report(raw: *mut bindings::ksock_hooks, err: c_int) {
        // Without an error it is a report of something else, which we did not ask for.
        let Err(reason) = to_result(err.wrapping_neg()) else {
            return;
        };
        // SAFETY: The hooks are not freed while `sk_callback_lock` is read-held.
        T::error_report(unsafe { Self::target(raw) }, reason);
    }
}

/// # Safety
///
/// To be called by `ksock_listen_ready()` only.
unsafe extern "C" fn listen_ready<T: ListenCallbacks>(
    raw: *mut bindings::ksock_hooks,
    _sk: *mut bindings::sock,
) {
    // SAFETY: The hooks are not freed while `sk_callback_lock` is read-held.
    T::ready(unsafe { Hooks::<T>::target(raw) });
}

/// The place of a socket for its callbacks.
pub(crate) struct HookSlot {
    /// INVARIANT: Null, or the first member of a boxed `Hooks<T>` that is attached to the socket.
    /// Changed with the lock of that socket held.
    raw: AtomicPtr<bindings::ksock_hooks>,
}

impl HookSlot {
    pub(crate) fn new() -> Self {
        Self {
            raw: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// `sk` must be the socket this slot belongs to, here and below.
    pub(crate) fn attach<T: SockCallbacks>(
        &self,
        sk: *mut bindings::sock,
        target: Arc<T>,
    ) -> Result {
        let mut hooks = Hooks::new(target)?;
        hooks.raw.data_ready = Some(Hooks::<T>::data_ready);
        hooks.raw.write_space = Some(Hooks::<T>::write_space);
        hooks.raw.state_change = Some(Hooks::<T>::state_change);
        hooks.raw.error_report = Some(Hooks::<T>::error_report);
        self.install(sk, hooks, bindings::ksock_attach)
    }

    pub(crate) fn attach_listener<T: ListenCallbacks>(
        &self,
        sk: *mut bindings::sock,
        target: Arc<T>,
    ) -> Result {
        let mut hooks = Hooks::new(target)?;
        hooks.raw.data_ready = Some(listen_ready::<T>);
        self.install(sk, hooks, bindings::ksock_attach_listener)
    }

    fn install<T>(
        &self,
        sk: *mut bindings::sock,
        hooks: KBox<Hooks<T>>,
        attach: unsafe extern "C" fn(*mut bindings::sock, *mut bindings::ksock_hooks) -> c_int,
    ) -> Result {
        let raw = KBox::into_raw(hooks).cast::<bindings::ksock_hooks>();
        // SAFETY: The slot's socket is there as long as the slot is.
        unsafe { bindings::ksock_lock(sk) };
        // SAFETY: The socket is locked; `raw` stays valid until it is detached, and its functions
        // fit the kind of socket by the choice of `attach` above.
        let ret = unsafe { attach(sk, raw) };
        if ret == 0 {
            // INVARIANT: Attached, and the lock is held.
            self.raw.store(raw, Ordering::Relaxed);
        }
        // SAFETY: Locked above.
        unsafe { bindings::ksock_unlock(sk) };
        to_result(ret).inspect_err(|_| {
            // SAFETY: It was not attached, so nobody else knows it.
            unsafe { Hooks::<T>::free(raw) }
        })
    }

    pub(crate) fn detach(&self, sk: *mut bindings::sock) {
        if self.raw.load(Ordering::Relaxed).is_null() {
            return;
        }
        // SAFETY: The slot's socket is there as long as the slot is.
        unsafe { bindings::ksock_lock(sk) };
        // INVARIANT: The lock is held, and what was there is detached before it is given back.
        let raw = self.raw.swap(ptr::null_mut(), Ordering::Relaxed);
        if !raw.is_null() {
            // SAFETY: By the type invariant `raw` was attached to this socket.
            unsafe { bindings::ksock_detach(sk, raw) };
        }
        // SAFETY: Locked above.
        unsafe { bindings::ksock_unlock(sk) };
        if !raw.is_null() {
            // SAFETY: `raw` is the beginning of a `Hooks<T>`, which begins like `Head`.
            let free = unsafe { (*raw.cast::<Head>()).free };
            // SAFETY: `free` belongs to the same `Hooks<T>`. After `ksock_detach()` no callback
            // uses it, and it was taken out of the slot, so that nobody frees it again; those who
            // look at the slot do so with the lock held and have let go of it.
            unsafe { free(raw) };
        }
    }

    /// Notes that the lock's holder has exclusive access to what it guards, or has it no more.
    /// Whether `data_ready` was called since the last note.
    ///
    /// # Safety
    ///
    /// The lock of the slot's socket must be held.
    pub(crate) unsafe fn set_busy(&self, busy: bool) -> bool {
        let raw = self.raw.load(Ordering::Relaxed);
        if raw.is_null() {
            return false;
        }
        // SAFETY: By the type invariant `raw` is valid, and it stays so while the lock is held,
        // under which both marks are accessed.
        unsafe {
            (*raw).busy = busy;
            core::mem::take(&mut (*raw).missed)
        }
    }
}
