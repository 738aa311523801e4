// SPDX-License-Identifier: GPL-2.0

//! Copies of a few bytes that others may change meanwhile, each of which is read once.

use core::{
    mem::take,
    sync::atomic::{AtomicU8, Ordering},
};

/// A word at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned<T>(T);

/// Returns a copy of `bytes`, of which none is read twice. Where `N` is known to the compiler and
/// small, these are a load for each word.
#[inline(always)]
pub fn load<const N: usize>(bytes: &[AtomicU8; N]) -> [u8; N] {
    let mut copy = [0; N];
    let (mut from, mut to) = (&bytes[..], &mut copy[..]);
    // The compiler unrolls these loops: they are of slices whose lengths it knows.
    while let Some((bytes, behind)) = from.split_first_chunk() {
        let Some((copy, room)) = take(&mut to).split_first_chunk_mut() else {
            break;
        };
        *copy = word::<u64, 8>(bytes).to_ne_bytes();
        (from, to) = (behind, room);
    }
    while let Some((bytes, behind)) = from.split_first_chunk() {
        let Some((copy, room)) = take(&mut to).split_first_chunk_mut() else {
            break;
        };
        *copy = word::<u32, 4>(bytes).to_ne_bytes();
        (from, to) = (behind, room);
    }
    for (byte, copy) in from.iter().zip(to) {
        *copy = byte.load(Ordering::Relaxed);
    }
    copy
}

/// The word that `bytes` are, which has their size.
#[inline(always)]
fn word<T: Word, const N: usize>(bytes: &[AtomicU8; N]) -> T {
    const { assert!(size_of::<T>() == N) };
    let word = bytes.as_ptr().cast::<Unaligned<T>>();
    // SAFETY: `word` points to the `N` bytes of `bytes`, as many as a `T` has, and needs no
    // alignment. They are valid for reads, and any value of them is a `T`. Others may write to them
    // meanwhile, processes or the kernel's C code. The kernel's memory model gives a meaning to a
    // volatile read that races with such a write, as to `READ_ONCE()`: each byte has a value that
    // was there, and the compiler neither repeats the read nor adds others.
    unsafe { word.read_volatile() }.0
}

/// An integer, of which any bytes are a value.
trait Word: Copy {}

impl Word for u32 {}
impl Word for u64 {}
