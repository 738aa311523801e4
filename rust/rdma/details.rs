// SPDX-License-Identifier: GPL-2.0

//! What a driver adds to the description of an object (`rdma -dd res show`).

use core::{marker::PhantomData, ptr::NonNull};
use kernel::{error::to_result, prelude::*, str::CStr};
use rdma_bindings as bindings;

/// A list of named numbers in a netlink message, under construction.
pub struct Details<'a> {
    /// INVARIANT: A message that is being written, with a list begun in it, during `'a`.
    msg: *mut bindings::sk_buff,
    _writing: PhantomData<&'a mut bindings::sk_buff>,
}

impl Details<'_> {
    /// Begins a list in `msg`, has `describe` fill it, and ends it. Errors: `EMSGSIZE` when there is
    /// no room, of which nothing is left in the message.
    ///
    /// # Safety
    ///
    /// `msg` is a netlink message that is being written by the caller.
    pub(crate) unsafe fn write(
        msg: *mut bindings::sk_buff,
        describe: impl FnOnce(&mut Details<'_>) -> Result,
    ) -> Result {
        // SAFETY: By the contract of this function.
        let nest = unsafe { bindings::rdma_details_start(msg) };
        let nest = NonNull::new(nest).ok_or(crate::errno::message_size())?;
        // INVARIANT: By the contract of this function, and begun above.
        let mut details = Details {
            msg,
            _writing: PhantomData,
        };
        let done = describe(&mut details);
        // SAFETY: The list was begun in this message.
        unsafe {
            match done {
                Ok(()) => bindings::rdma_details_end(msg, nest.as_ptr()),
                Err(_) => bindings::rdma_details_cancel(msg, nest.as_ptr()),
            }
        }
        done
    }

    /// Adds a number. Errors: `EMSGSIZE` when there is no room.
    pub fn number(&mut self, name: &CStr, value: u64) -> Result {
        // SAFETY: By the type invariant; the name is copied.
        to_result(unsafe { bindings::rdma_nl_put_driver_u64(self.msg, name.as_char_ptr(), value) })
    }
}
