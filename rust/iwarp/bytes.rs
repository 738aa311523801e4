// SPDX-License-Identifier: GPL-2.0

//! Fields in network byte order, at fixed offsets of fixed-size headers.
//!
//! Offsets are const parameters, which the compiler checks against the header's size. So no access
//! needs a check at run time, or can panic.

/// Access to big-endian fields; `AT` is the byte at which a field starts.
pub(crate) trait Fields {
    fn be16<const AT: usize>(&self) -> u16;
    fn be32<const AT: usize>(&self) -> u32;
    fn be64<const AT: usize>(&self) -> u64;
    fn put_be32<const AT: usize>(&mut self, v: u32);
    fn put_be64<const AT: usize>(&mut self, v: u64);
}

impl<const N: usize> Fields for [u8; N] {
    #[inline(always)]
    fn be16<const AT: usize>(&self) -> u16 {
        const { assert!(AT + 2 <= N) };
        u16::from_be_bytes([self[AT], self[AT + 1]])
    }

    #[inline(always)]
    fn be32<const AT: usize>(&self) -> u32 {
        const { assert!(AT + 4 <= N) };
        u32::from_be_bytes([self[AT], self[AT + 1], self[AT + 2], self[AT + 3]])
    }

    #[inline(always)]
    fn be64<const AT: usize>(&self) -> u64 {
        const { assert!(AT + 8 <= N) };
        u64::from_be_bytes([
            self[AT],
            self[AT + 1],
            self[AT + 2],
            self[AT + 3],
            self[AT + 4],
            self[AT + 5],
            self[AT + 6],
            self[AT + 7],
        ])
    }

    #[inline(always)]
    fn put_be32<const AT: usize>(&mut self, v: u32) {
        const { assert!(AT + 4 <= N) };
        self[AT..AT + 4].copy_from_slice(&v.to_be_bytes());
    }

    #[inline(always)]
    fn put_be64<const AT: usize>(&mut self, v: u64) {
        const { assert!(AT + 8 <= N) };
        self[AT..AT + 8].copy_from_slice(&v.to_be_bytes());
    }
}
