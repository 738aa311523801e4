// SPDX-License-Identifier: GPL-2.0

//! Differences between the supported kernels (7.2 and 7.3), in what this crate and drivers use.

use core::borrow::Borrow;

/// A count for C: a device's limits are `int` in 7.2 and `u32` in 7.3. A count that does not fit an
/// `int` is as good as unlimited, and becomes the largest that does.
pub(crate) fn limit<T: TryFrom<u32> + Default>(count: u32) -> T {
    T::try_from(count.min(i32::MAX as u32)).unwrap_or_default()
}

/// The value of a module parameter: `rdma::compat::param(module_parameters::name.value())`.
/// `value()` returns a reference in 7.2 and the value itself in 7.3.
pub fn param<T: Copy>(value: impl Borrow<T>) -> T {
    *value.borrow()
}
