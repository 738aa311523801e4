// SPDX-License-Identifier: GPL-2.0

//! Socket callbacks: installed as a whole, restored as a whole.
//!
//! TCP calls its user through four function pointers of `struct sock`. [`HookSlot`] replaces them
//! together and points `sk_user_data` to a [`Hooks`], which owns an `Arc` of the target: the object
//! that the callbacks are for. A callback holds `sk_callback_lock` for reading while it looks for
//! the target and calls it; detaching takes that lock for writing. So when detaching returns, no
//! callback is running, later ones find no target, and the `Arc` was dropped. `net/tls` and
//! `drivers/nvme/host/tcp.c` do the same.

use crate::{bindings, LockedSock, TcpState};
use core::{
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};
use kernel::{
    error::{to_result, Result},
    prelude::*,
    sync::{Arc, ArcBorrow},
};

/// The callbacks of a connected (or connecting) socket.
///
/// All run with bottom halves disabled and `sk_callback_lock` read-held, in softirq or in a process
/// that calls into TCP or releases the socket lock. They must not sleep, nor call a function of
/// [`TcpSocket`] that does.
///
/// [`TcpSocket`]: crate::TcpSocket
pub trait SockCallbacks: Send + Sync + 'static {
    /// Data or the peer's FIN has arrived, or can be read now. The socket lock is held, as `sk`
    /// proves.
    fn data_ready(this: ArcBorrow<'_, Self>, sk: &mut LockedSock);

    /// The send buffer has a useful amount of room again, after a send found none.
    fn write_space(this: ArcBorrow<'_, Self>);

    /// The state of the connection changed to `state`. A call that the target itself makes, such as
    /// [`TcpSocket::shutdown_write`], may call this before it returns.
    ///
    /// [`TcpSocket::shutdown_write`]: crate::TcpSocket::shutdown_write
    fn state_change(this: ArcBorrow<'_, Self>, state: TcpState);

    /// The connection failed with `reason`, which [`TcpSocket::take_error`] still returns.
    ///
    /// [`TcpSocket::take_error`]: crate::TcpSocket::take_error
    fn error_report(this: ArcBorrow<'_, Self>, reason: Error);

    /// TCP has released memory of others ([`TcpSocket::next_released`]). It may hold the lock of
    /// the socket or not.
    ///
    /// [`TcpSocket::next_released`]: crate::TcpSocket::next_released
    fn released(_this: ArcBorrow<'_, Self>) {}
}

/// The callback of a listening socket.
pub trait ListenCallbacks: Send + Sync + 'static {
    /// A connection can be accepted. Called in softirq, possibly on several CPUs at once, without
    /// the lock of the listening socket. Must not sleep.
    fn ready(this: ArcBorrow<'_, Self>);
}

/// The callbacks of one socket and their target. `sk_user_data` points to it.
#[repr(C)]
struct Hooks<T> {
    /// The part that C sees. It comes first, so that a pointer to it also points to the `Hooks`.
    raw: bindings::ksock_hooks,
    /// Frees the `Hooks<T>` that begins with `raw`; for [`HookSlot::detach`], which knows no `T`.
    free: unsafe fn(*mut bindings::ksock_hooks),
    target: Arc<T>,
}

/// The first members of every `Hooks<T>`, for code that knows no `T`.
#[repr(C)]
struct Head {
    raw: bindings::ksock_hooks,
    free: unsafe fn(*mut bindings::ksock_hooks),
}

impl<T> Hooks<T> {
    fn new(target: Arc<T>) -> Result<KBox<Self>> {
        Ok(KBox::new(
            Self {
                // SAFETY: All zeroes is a valid `ksock_hooks`: it has integers, raw pointers, and
                // optional function pointers.
                raw: unsafe { core::mem::zeroed() },
                free: Self::free,
                target,
            },
            GFP_KERNEL,
        )?)
    }

    /// # Safety
    ///
    /// `raw` must point to the first member of a `Hooks<T>` that came from [`KBox::into_raw`] and
    /// that nobody uses any more.
    unsafe fn free(raw: *mut bindings::ksock_hooks) {
        // SAFETY: By the contract of this function `raw` points to the first member (`repr(C)`) of
        // a `Hooks<T>` from [`KBox::into_raw`], which is ours to free.
        drop(unsafe { KBox::from_raw(raw.cast::<Self>()) });
    }

    /// # Safety
    ///
    /// `raw` must point to the first member of a `Hooks<T>` that is not freed during `'a`.
    unsafe fn target<'a>(raw: *mut bindings::ksock_hooks) -> ArcBorrow<'a, T> {
        // SAFETY: By the contract of this function `raw` points to a `Hooks<T>` that lives for
        // `'a`. Only its member `target` is borrowed, which nobody changes; C may change the member
        // `raw`.
        unsafe { &(*raw.cast::<Self>()).target }.as_arc_borrow()
    }
}

impl<T: SockCallbacks> Hooks<T> {
    /// # Safety
    ///
    /// Only `ksock_data_ready()` may call this, through hooks that [`HookSlot::attach`] made for
    /// `T` and attached to `sk`: with `sk_callback_lock` read-held, the socket lock held, and no
    /// [`LockedSock`] of `sk` in use.
    unsafe extern "C" fn data_ready(raw: *mut bindings::ksock_hooks, sk: *mut bindings::sock) {
        // SAFETY: `raw` is attached, so it begins a `Hooks<T>`. The caller has `sk_callback_lock`
        // read-held, and detaching takes that lock for writing before it frees the hooks.
        let target = unsafe { Self::target(raw) };
        // SAFETY: By the contract of this function the socket lock is held for the time of this
        // call. `ksock_data_ready()` calls only if `ksock_hooks::busy` was not set, and sets it for
        // the call, so no other `LockedSock` of the socket is in use.
        let locked = unsafe { LockedSock::from_raw(sk) };
        T::data_ready(target, locked);
    }

    /// # Safety
    ///
    /// Only `ksock_write_space()` may call this, through hooks that [`HookSlot::attach`] made for
    /// `T`, with `sk_callback_lock` read-held.
    unsafe extern "C" fn write_space(raw: *mut bindings::ksock_hooks) {
        // SAFETY: `raw` is attached, so it begins a `Hooks<T>`. The caller has `sk_callback_lock`
        // read-held, and detaching takes that lock for writing before it frees the hooks.
        T::write_space(unsafe { Self::target(raw) });
    }

    /// # Safety
    ///
    /// Only `ksock_state_change()` may call this, through hooks that [`HookSlot::attach`] made for
    /// `T`, with `sk_callback_lock` read-held.
    unsafe extern "C" fn state_change(raw: *mut bindings::ksock_hooks, state: c_int) {
        // SAFETY: `raw` is attached, so it begins a `Hooks<T>`. The caller has `sk_callback_lock`
        // read-held, and detaching takes that lock for writing before it frees the hooks.
        T::state_change(unsafe { Self::target(raw) }, TcpState::from_raw(state));
    }

    /// # Safety
    ///
    /// Only `ksock_error_report()` may call this, through hooks that [`HookSlot::attach`] made for
    /// `T`, with `sk_callback_lock` read-held.
    unsafe extern "C" fn error_report(raw: *mut bindings::ksock_hooks, err: c_int) {
        // SAFETY: `raw` is attached, so it begins a `Hooks<T>`. The caller has `sk_callback_lock`
        // read-held, and detaching takes that lock for writing before it frees the hooks.
        let target = unsafe { Self::target(raw) };
        match to_result(err.wrapping_neg()) {
            Err(reason) => T::error_report(target, reason),
            // The report is about the socket's error queue.
            Ok(()) => T::released(target),
        }
    }
}

/// # Safety
///
/// Only `ksock_listen_ready()` may call this, through hooks that [`HookSlot::attach_listener`] made
/// for `T`, with `sk_callback_lock` read-held.
unsafe extern "C" fn listen_ready<T: ListenCallbacks>(
    raw: *mut bindings::ksock_hooks,
    _sk: *mut bindings::sock,
) {
    // SAFETY: `raw` is attached, so it begins a `Hooks<T>`. The caller has `sk_callback_lock`
    // read-held, and detaching takes that lock for writing before it frees the hooks.
    T::ready(unsafe { Hooks::<T>::target(raw) });
}

/// The callbacks that are attached to one socket, or none.
pub(crate) struct HookSlot {
    /// INVARIANT: Null, or the first member of a boxed `Hooks<T>` that is attached to the socket.
    /// It changes only with the lock of that socket held.
    raw: AtomicPtr<bindings::ksock_hooks>,
    /// INVARIANT: Set if the socket listens. It is set only with the socket's lock held and no
    /// connection's callbacks attached, and stays.
    listens: AtomicBool,
    /// INVARIANT: Set if a process may give the socket TLS. It is set only with the socket's lock
    /// held and no callbacks attached.
    handshake: AtomicBool,
}

impl HookSlot {
    pub(crate) fn new() -> Self {
        Self {
            raw: AtomicPtr::new(ptr::null_mut()),
            listens: AtomicBool::new(false),
            handshake: AtomicBool::new(false),
        }
    }

    /// Calls `f` with the socket locked. `sk` must be the socket that this slot belongs to, here
    /// and in the functions below. Context: sleeping.
    fn locked<R>(sk: *mut bindings::sock, f: impl FnOnce() -> R) -> R {
        // SAFETY: `sk` is the slot's socket. Its owner has this slot, too, and releases it later.
        unsafe { bindings::ksock_lock(sk) };
        let result = f();
        // SAFETY: This function locked the socket above.
        unsafe { bindings::ksock_unlock(sk) };
        result
    }

    /// Before the socket begins to listen: from now on it gets no callbacks of a connection. TCP
    /// calls a listener's `data_ready` with the lock of another socket held, and on several CPUs at
    /// once. Context: sleeping. Errors: `EBUSY` if it has such callbacks.
    pub(crate) fn begin_listening(&self, sk: *mut bindings::sock) -> Result {
        Self::locked(sk, || {
            let raw = self.raw.load(Ordering::Relaxed);
            // SAFETY: By the type invariant `raw` is valid, if it is not null: while the socket is
            // locked it is not detached. `write_space` does not change after `attach`.
            if !raw.is_null() && unsafe { (*raw).write_space.is_some() } {
                return Err(EBUSY);
            }
            // INVARIANT: The lock is held, and no connection's callbacks are attached.
            self.listens.store(true, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Before a process may give the socket TLS: from now on it gets no callbacks. Context:
    /// sleeping. Errors: `EBUSY` if it has callbacks, or another handshake is going on.
    pub(crate) fn begin_handshake(&self, sk: *mut bindings::sock) -> Result {
        Self::locked(sk, || {
            if !self.raw.load(Ordering::Relaxed).is_null() {
                return Err(EBUSY);
            }
            // INVARIANT: The lock is held, and no callbacks are attached.
            if self.handshake.swap(true, Ordering::Relaxed) {
                Err(EBUSY)
            } else {
                Ok(())
            }
        })
    }

    /// No process gives the socket TLS any more. Context: any.
    pub(crate) fn end_handshake(&self) {
        self.handshake.store(false, Ordering::Release);
    }

    /// Attaches the callbacks of a connection. Context: sleeping. Errors: `EINVAL` if the socket
    /// listens; `EBUSY` if there are callbacks, or in a handshake; `ENOMEM`.
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
        self.install(sk, hooks, bindings::ksock_attach, || {
            if self.listens() {
                Err(EINVAL)
            } else {
                Ok(())
            }
        })
    }

    /// As [`HookSlot::attach`], of a listener.
    pub(crate) fn attach_listener<T: ListenCallbacks>(
        &self,
        sk: *mut bindings::sock,
        target: Arc<T>,
    ) -> Result {
        let mut hooks = Hooks::new(target)?;
        hooks.raw.data_ready = Some(listen_ready::<T>);
        self.install(sk, hooks, bindings::ksock_attach_listener, || Ok(()))
    }

    /// Whether the socket listens. Call it with the socket locked.
    fn listens(&self) -> bool {
        self.listens.load(Ordering::Relaxed)
    }

    fn install<T>(
        &self,
        sk: *mut bindings::sock,
        hooks: KBox<Hooks<T>>,
        attach: unsafe extern "C" fn(*mut bindings::sock, *mut bindings::ksock_hooks) -> c_int,
        may_attach: impl FnOnce() -> Result,
    ) -> Result {
        let raw = KBox::into_raw(hooks).cast::<bindings::ksock_hooks>();
        let attached = Self::locked(sk, || {
            may_attach()?;
            if self.handshake.load(Ordering::Acquire) {
                return Err(EBUSY);
            }
            // SAFETY: The socket is locked. `raw` stays valid until `detach` takes it off the
            // socket. Its functions are those that `attach` needs: the two callers choose both
            // together.
            to_result(unsafe { attach(sk, raw) })?;
            // INVARIANT: `raw` is attached, and the lock is held.
            self.raw.store(raw, Ordering::Relaxed);
            Ok(())
        });
        attached.inspect_err(|_| {
            // SAFETY: `raw` came from `KBox::into_raw` and was not attached, so nobody else uses
            // it.
            unsafe { Hooks::<T>::free(raw) }
        })
    }

    /// Detaches the callbacks, if there are any, and frees them. Context: sleeping.
    pub(crate) fn detach(&self, sk: *mut bindings::sock) {
        if self.raw.load(Ordering::Relaxed).is_null() {
            return;
        }
        let raw = Self::locked(sk, || {
            // INVARIANT: The lock is held, and `raw` is detached before it is released.
            let raw = self.raw.swap(ptr::null_mut(), Ordering::Relaxed);
            if !raw.is_null() {
                // SAFETY: The socket is locked, and by the type invariant `raw` is attached to it.
                unsafe { bindings::ksock_detach(sk, raw) };
            }
            raw
        });
        if !raw.is_null() {
            // SAFETY: `raw` begins a `Hooks<T>`, whose first members are those of `Head`
            // (`repr(C)`).
            let free = unsafe { (*raw.cast::<Head>()).free };
            // SAFETY: `free` belongs to the same `Hooks<T>`, a box by the type invariant. After
            // `ksock_detach()` no callback uses it. It was taken out of the slot under the socket
            // lock: nobody frees it again, and `set_busy`, which looks there under that lock, is
            // done with it.
            unsafe { free(raw) };
        }
    }

    /// Marks that a [`LockedSock`] of the socket is in use. While it is, TCP's calls of
    /// `data_ready` are put off.
    ///
    /// # Safety
    ///
    /// The lock of the slot's socket must be held.
    pub(crate) unsafe fn set_busy(&self) {
        let raw = self.raw.load(Ordering::Relaxed);
        if !raw.is_null() {
            // SAFETY: By the type invariant `raw` is valid. While the socket lock is held it is not
            // detached, and `busy` is accessed under that lock only.
            unsafe { (*raw).busy = true };
        }
    }

    /// Marks that no [`LockedSock`] of the socket is in use any more. Returns whether a call of
    /// `data_ready` was put off.
    ///
    /// # Safety
    ///
    /// As of [`Self::set_busy`].
    pub(crate) unsafe fn clear_busy(&self) -> bool {
        let raw = self.raw.load(Ordering::Relaxed);
        if raw.is_null() {
            return false;
        }
        // SAFETY: As in `set_busy`; `missed` is accessed under that lock only, too.
        unsafe {
            (*raw).busy = false;
            core::mem::take(&mut (*raw).missed)
        }
    }
}
