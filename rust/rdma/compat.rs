// SPDX-License-Identifier: GPL-2.0

//! Where the supported kernels (7.2 and 7.3) differ in what this crate and drivers use.

use core::borrow::Borrow;

/// A count for C, which has `int` for the limits of a device in 7.2 and `u32` in 7.3. What does
/// not fit the former is as good as unlimited.
pub(crate) fn limit<T: TryFrom<u32> + Default>(count: u32) -> T {
    T::try_from(count.min(i32::MAX as u32)).unwrap_or_default()
}

/// The value of a module parameter; what `value()` returns is a reference in 7.2 and the value
/// itself in 7.3: `rdma::compat::param(module_parameters::name.value())`.
pub fn param<T: Copy>(value: impl Borrow<T>) -> T {
    *value.borrow()
}
