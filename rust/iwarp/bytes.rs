// SPDX-License-Identifier: GPL-2.0

//! Network byte order fields at fixed places of fixed-size headers.
//!
//! Places are const parameters and are checked against the header's size when the code is compiled,
//! so that no access needs a check, or could panic, when it runs.

/// Big-endian 16-bit field at octet `AT`.
#[inline(always)]
pub(crate) fn be16<const AT: usize, const N: usize>(b: &[u8; N]) -> u16 {
    const { assert!(AT + 2 <= N) };
    u16::from_be_bytes([b[AT], b[AT + 1]])
}

/// Big-endian 32-bit field at octet `AT`.
#[inline(always)]
pub(crate) fn be32<const AT: usize, const N: usize>(b: &[u8; N]) -> u32 {
    const { assert!(AT + 4 <= N) };
    u32::from_be_bytes([b[AT], b[AT + 1], b[AT + 2], b[AT + 3]])
}

/// Big-endian 64-bit field at octet `AT`.
#[inline(always)]
pub(crate) fn be64<const AT: usize, const N: usize>(b: &[u8; N]) -> u64 {
    const { assert!(AT + 8 <= N) };
    u64::from_be_bytes([
        b[AT],
        b[AT + 1],
        b[AT + 2],
        b[AT + 3],
        b[AT + 4],
        b[AT + 5],
        b[AT + 6],
        b[AT + 7],
    ])
}

/// Stores `v` at octet `AT`.
#[inline(always)]
pub(crate) fn put<const AT: usize, const M: usize, const N: usize>(b: &mut [u8; N], v: [u8; M]) {
    const { assert!(AT + M <= N) };
    b[AT..AT + M].copy_from_slice(&v);
}
