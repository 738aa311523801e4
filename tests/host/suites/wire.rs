// SPDX-License-Identifier: GPL-2.0

//! Bytes on the wire, made without the engine.

/// A sequence of up to `N` bytes.
#[derive(Clone)]
pub(crate) struct Wire<const N: usize = 256> {
    buf: [u8; N],
    len: usize,
}

impl Wire {
    /// An empty sequence.
    pub(crate) const fn new() -> Self {
        Self::empty()
    }
}

impl<const N: usize> Wire<N> {
    /// An empty sequence of any capacity.
    pub(crate) const fn empty() -> Self {
        Self {
            buf: [0; N],
            len: 0,
        }
    }

    /// Appends bytes. Bytes beyond the capacity are lost, so the comparisons of a case fail.
    pub(crate) fn bytes(mut self, b: &[u8]) -> Self {
        if let Some(room) = self.buf.get_mut(self.len..self.len + b.len()) {
            room.copy_from_slice(b);
            self.len += b.len();
        }
        self
    }

    /// Appends a byte in place, as [`Self::bytes`].
    pub(crate) fn push(&mut self, v: u8) {
        if let Some(room) = self.buf.get_mut(self.len) {
            *room = v;
            self.len += 1;
        }
    }

    /// Appends a byte.
    pub(crate) fn u8(mut self, v: u8) -> Self {
        self.push(v);
        self
    }

    /// Appends a 16-bit field.
    pub(crate) fn u16(self, v: u16) -> Self {
        self.bytes(&v.to_be_bytes())
    }

    /// Appends a 32-bit field.
    pub(crate) fn u32(self, v: u32) -> Self {
        self.bytes(&v.to_be_bytes())
    }

    /// Appends a 64-bit field.
    pub(crate) fn u64(self, v: u64) -> Self {
        self.bytes(&v.to_be_bytes())
    }

    /// Appends the byte `v` `n` times.
    pub(crate) fn fill(mut self, v: u8, n: usize) -> Self {
        for _ in 0..n {
            self = self.u8(v);
        }
        self
    }

    /// The bytes.
    pub(crate) fn get(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Inverts one bit.
    pub(crate) fn flip(mut self, at: usize, bit: u8) -> Self {
        if let Some(b) = self.buf.get_mut(at) {
            *b ^= 1 << bit;
        }
        self
    }
}

/// CRC32c register update, bit by bit from the polynomial (RFC 3720 s12.1: 0x11EDC6F41).
pub(crate) fn crc32c(mut crc: u32, data: &[u8]) -> u32 {
    for b in data {
        crc ^= u32::from(*b);
        for _ in 0..8 {
            crc = if crc & 1 != 0 {
                (crc >> 1) ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    crc
}

/// The FPDU of a ULPDU: length, ULPDU, zero pad to a multiple of four, CRC.
pub(crate) fn fpdu(ulpdu: &Wire) -> Wire {
    let mut w = Wire::new().u16(ulpdu.len() as u16).bytes(ulpdu.get());
    while w.len() % 4 != 0 {
        w = w.u8(0);
    }
    let crc = !crc32c(!0, w.get());
    w.bytes(&crc.to_le_bytes())
}

/// A sink that records its bytes. The payload is 1, 2, 3, ... by offset in the message, or zeros.
pub(crate) struct Tape<const N: usize = 256> {
    /// All bytes so far.
    pub(crate) out: Wire<N>,
    /// Offset of the next payload byte.
    pub(crate) at: u32,
    /// Payload is all zeros.
    pub(crate) zeros: bool,
    /// Number of calls of `crc32c`.
    pub(crate) crcs: u32,
    /// Number of calls to append bytes that will succeed.
    pub(crate) room: u32,
    /// Number of calls that have failed.
    pub(crate) failed: u32,
}

/// No room is left on a [`Tape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl<const N: usize> Tape<N> {
    /// An empty tape.
    pub(crate) const fn new(zeros: bool) -> Self {
        Self {
            out: Wire::empty(),
            at: 0,
            zeros,
            crcs: 0,
            room: u32::MAX,
            failed: 0,
        }
    }

    fn take_room(&mut self) -> Result<(), Full> {
        if self.room == 0 {
            self.failed += 1;
            return Err(Full);
        }
        self.room -= 1;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) {
        if let Some(room) = self
            .out
            .buf
            .get_mut(self.out.len..self.out.len + bytes.len())
        {
            room.copy_from_slice(bytes);
            self.out.len += bytes.len();
        }
    }
}

impl<const N: usize> iwarp::tx::Payload for Tape<N> {
    type Error = Full;

    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        self.crcs += 1;
        crc32c(crc, data)
    }

    fn copy_to(&mut self, dst: &mut [u8]) -> Result<(), Self::Error> {
        self.take_room()?;
        for byte in dst {
            self.at = self.at.wrapping_add(1);
            *byte = if self.zeros { 0 } else { self.at as u8 };
        }
        Ok(())
    }
}

impl<const N: usize> iwarp::tx::Sink for Tape<N> {
    type Error = Full;

    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        self.crcs += 1;
        crc32c(crc, data)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.take_room()?;
        self.append(bytes);
        Ok(())
    }

    fn put_payload(&mut self, len: u32, crc: Option<u32>) -> Result<u32, Self::Error> {
        self.take_room()?;
        self.crcs += u32::from(crc.is_some());
        let mut crc = crc;
        for _ in 0..len {
            self.at = self.at.wrapping_add(1);
            let byte = if self.zeros { 0 } else { self.at as u8 };
            self.append(&[byte]);
            crc = crc.map(|crc| crc32c(crc, &[byte]));
        }
        Ok(crc.unwrap_or(0))
    }
}

/// T and L flags and DDP version 1.
pub(crate) const TAGGED_LAST: u8 = 0xc1;
/// T flag and DDP version 1.
pub(crate) const TAGGED_MORE: u8 = 0x81;
/// L flag and DDP version 1.
pub(crate) const LAST: u8 = 0x41;
/// DDP version 1.
pub(crate) const MORE: u8 = 0x01;

/// RDMAP Control Fields, version 1 (RFC 5040 Figure 4, RFC 7306 Figure 2).
pub(crate) mod op {
    /// RDMA Write.
    pub(crate) const WRITE: u8 = 0x40;
    /// RDMA Read Request.
    pub(crate) const READ_REQUEST: u8 = 0x41;
    /// RDMA Read Response.
    pub(crate) const READ_RESPONSE: u8 = 0x42;
    /// Send.
    pub(crate) const SEND: u8 = 0x43;
    /// Send with Invalidate.
    pub(crate) const SEND_INV: u8 = 0x44;
    /// Send with Solicited Event.
    pub(crate) const SEND_SE: u8 = 0x45;
    /// Send with Solicited Event and Invalidate.
    pub(crate) const SEND_SE_INV: u8 = 0x46;
    /// Terminate.
    pub(crate) const TERMINATE: u8 = 0x47;
    /// Immediate Data.
    pub(crate) const IMMEDIATE: u8 = 0x48;
    /// Immediate Data with Solicited Event.
    pub(crate) const IMMEDIATE_SE: u8 = 0x49;
    /// Atomic Request.
    pub(crate) const ATOMIC_REQUEST: u8 = 0x4a;
    /// Atomic Response.
    pub(crate) const ATOMIC_RESPONSE: u8 = 0x4b;
    /// Send with immediate data, of no RFC.
    pub(crate) const SEND_IMM: u8 = 0x4c;
    /// Send with Solicited Event and immediate data, of no RFC.
    pub(crate) const SEND_SE_IMM: u8 = 0x4d;
}

/// Tagged ULPDU (RFC 5041 Figure 4).
pub(crate) fn tagged(ddp: u8, rdmap: u8, stag: u32, to: u64, payload: &[u8]) -> Wire {
    Wire::new()
        .u8(ddp)
        .u8(rdmap)
        .u32(stag)
        .u64(to)
        .bytes(payload)
}

/// Untagged ULPDU (RFC 5041 Figure 5), the Invalidate STag zero.
pub(crate) fn untagged(ddp: u8, rdmap: u8, qn: u32, msn: u32, mo: u32, payload: &[u8]) -> Wire {
    untagged_inv(ddp, rdmap, 0, qn, msn, mo, payload)
}

/// Untagged ULPDU with an Invalidate STag.
pub(crate) fn untagged_inv(
    ddp: u8,
    rdmap: u8,
    inv: u32,
    qn: u32,
    msn: u32,
    mo: u32,
    payload: &[u8],
) -> Wire {
    Wire::new()
        .u8(ddp)
        .u8(rdmap)
        .u32(inv)
        .u32(qn)
        .u32(msn)
        .u32(mo)
        .bytes(payload)
}

/// FPDU of a Send that is one segment.
pub(crate) fn send(msn: u32, payload: &[u8]) -> Wire {
    fpdu(&untagged(LAST, op::SEND, 0, msn, 0, payload))
}

/// FPDU of an RDMA Write that is one segment.
pub(crate) fn write(stag: u32, to: u64, payload: &[u8]) -> Wire {
    fpdu(&tagged(TAGGED_LAST, op::WRITE, stag, to, payload))
}

/// RDMA Read Request Header (RFC 5040 Figure 6).
pub(crate) fn read_header(
    sink_stag: u32,
    sink_to: u64,
    len: u32,
    src_stag: u32,
    src_to: u64,
) -> Wire {
    Wire::new()
        .u32(sink_stag)
        .u64(sink_to)
        .u32(len)
        .u32(src_stag)
        .u64(src_to)
}

/// FPDU of a Read Request.
pub(crate) fn read_request(msn: u32, header: &Wire) -> Wire {
    fpdu(&untagged(LAST, op::READ_REQUEST, 1, msn, 0, header.get()))
}

/// FPDU of a Terminate with this Terminate Header.
pub(crate) fn terminate(header: &Wire) -> Wire {
    fpdu(&untagged(LAST, op::TERMINATE, 2, 1, 0, header.get()))
}

/// FPDU of Immediate Data.
pub(crate) fn immediate(msn: u32, data: &[u8]) -> Wire {
    fpdu(&untagged(LAST, op::IMMEDIATE, 0, msn, 0, data))
}

/// Atomic Operation Request Header (RFC 7306 Figure 4). `operands`: Add or Swap Data, its mask,
/// Compare Data, its mask.
pub(crate) fn atomic_header(code: u32, id: u32, stag: u32, to: u64, operands: [u64; 4]) -> Wire {
    let [data, mask, compare, compare_mask] = operands;
    Wire::new()
        .u32(code)
        .u32(id)
        .u32(stag)
        .u64(to)
        .u64(data)
        .u64(mask)
        .u64(compare)
        .u64(compare_mask)
}

/// FPDU of an Atomic Request.
pub(crate) fn atomic_request(msn: u32, header: &Wire) -> Wire {
    fpdu(&untagged(LAST, op::ATOMIC_REQUEST, 1, msn, 0, header.get()))
}

/// FPDU of an Atomic Response (RFC 7306 Figure 6).
pub(crate) fn atomic_response(msn: u32, id: u32, value: u64) -> Wire {
    let header = Wire::new().u32(id).u64(value);
    fpdu(&untagged(
        LAST,
        op::ATOMIC_RESPONSE,
        3,
        msn,
        0,
        header.get(),
    ))
}

/// Segments of an RDMA Write of two bytes.
pub(crate) fn halves() -> [Wire; 2] {
    [
        fpdu(&tagged(TAGGED_MORE, op::WRITE, 5, 100, &[3])),
        fpdu(&tagged(TAGGED_LAST, op::WRITE, 5, 101, &[4])),
    ]
}
