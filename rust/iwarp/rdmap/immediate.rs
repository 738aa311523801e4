// SPDX-License-Identifier: GPL-2.0

//! Immediate Data (RFC 7306 s6).

//= 7306-6.3-6: the Local Peer's RDMAP Layer MUST request that the DDP layer transmit
/// Bytes of an Immediate Data Message: "exactly 8 bytes of data" (s6.3).
pub const IMMEDIATE_LEN: usize = 8;

/// The 8 bytes of an Immediate Data Message.
///
/// Verbs have 32 bits of immediate data, and the RFC does not say where among the 64 they are. Some
/// RNICs put them first, others send the lower half of a little-endian number, which is first as
/// well, or the lower half of a big-endian one. So they are sent in both halves, and a half that is
/// zero is taken for unused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Immediate(pub [u8; IMMEDIATE_LEN]);

impl Immediate {
    /// The bytes that carry the 32 bits of verbs, which are given as they are sent.
    #[inline]
    pub const fn of_verbs([a, b, c, d]: [u8; 4]) -> Self {
        Self([a, b, c, d, a, b, c, d])
    }

    /// The 32 bits of verbs: the first half, unless that is zero.
    #[inline]
    pub const fn to_verbs(self) -> [u8; 4] {
        match self.0 {
            [0, 0, 0, 0, last @ ..] => last,
            [a, b, c, d, ..] => [a, b, c, d],
        }
    }
}
