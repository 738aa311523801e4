// SPDX-License-Identifier: GPL-2.0

//! A driver's own attributes in the description of an object (`rdma -dd res show`).
//!
//! There are none of PDs, for which the core has no operation, and none of CM_IDs: that operation
//! (`fill_res_cm_id_entry`) gets the consumer's identifier, which leads to the connection through
//! its queue pair only, and the consumer may destroy that meanwhile.

use core::{fmt::Display, format_args, marker::PhantomData, ptr::NonNull};
use kernel::{
    error::to_result,
    prelude::*,
    str::{CStr, CString},
};
use rdma_bindings as bindings;

/// A list of named numbers and texts in a netlink message that is being written.
pub struct Details<'a> {
    /// INVARIANT: During `'a` this message is being written, and a list was begun in it.
    msg: *mut bindings::sk_buff,
    _writing: PhantomData<&'a mut bindings::sk_buff>,
}

impl Details<'_> {
    /// Begins a list in `msg`, has `describe` fill it, and ends it. Errors: `EMSGSIZE` if there is
    /// no room; those of `describe`. The message has nothing of the list then.
    ///
    /// # Safety
    ///
    /// `msg` must be a netlink message that the caller is writing.
    pub(crate) unsafe fn write(
        msg: *mut bindings::sk_buff,
        describe: impl FnOnce(&mut Details<'_>) -> Result,
    ) -> Result {
        // SAFETY: By the contract of this function the caller is writing `msg`.
        let nest = unsafe { bindings::rdma_details_start(msg) };
        let nest = NonNull::new(nest).ok_or(crate::errno::message_size())?;
        // INVARIANT: The caller is writing `msg`, and the list was begun above.
        let mut details = Details {
            msg,
            _writing: PhantomData,
        };
        let done = describe(&mut details);
        // SAFETY: `nest` is the list that was begun in `msg` above, and it ends here.
        unsafe {
            match done {
                Ok(()) => bindings::rdma_details_end(msg, nest.as_ptr()),
                Err(_) => bindings::rdma_details_cancel(msg, nest.as_ptr()),
            }
        }
        done
    }

    /// Adds a word. Errors: `EMSGSIZE` if there is no room.
    pub fn word(&mut self, name: &CStr, value: &CStr) -> Result {
        let (name, value) = (name.as_char_ptr(), value.as_char_ptr());
        // SAFETY: By the type invariant the message is being written. The function copies both.
        to_result(unsafe { bindings::rdma_nl_put_driver_string(self.msg, name, value) })
    }

    /// Adds a number that tools show in hexadecimal. Errors: `EMSGSIZE` if there is no room.
    pub fn hex(&mut self, name: &CStr, value: u64) -> Result {
        let name = name.as_char_ptr();
        // SAFETY: By the type invariant the message is being written. The function copies the name.
        to_result(unsafe { bindings::rdma_nl_put_driver_u64_hex(self.msg, name, value) })
    }

    /// Adds a number. Errors: `EMSGSIZE` if there is no room.
    pub fn number(&mut self, name: &CStr, value: u64) -> Result {
        // SAFETY: By the type invariant the message is being written. The function copies the name.
        to_result(unsafe { bindings::rdma_nl_put_driver_u64(self.msg, name.as_char_ptr(), value) })
    }

    /// Adds a text. Errors: `EMSGSIZE` if there is no room; `EINVAL` if it has a NUL; `ENOMEM`.
    /// Context: sleeping.
    pub fn text(&mut self, name: &CStr, value: impl Display) -> Result {
        let value = CString::try_from_fmt(format_args!("{value}"))?;
        // SAFETY: By the type invariant the message is being written. The function copies name and
        // value.
        to_result(unsafe {
            let (name, value) = (name.as_char_ptr(), value.as_char_ptr());
            bindings::rdma_nl_put_driver_string(self.msg, name, value)
        })
    }
}
