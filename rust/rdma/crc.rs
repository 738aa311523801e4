// SPDX-License-Identifier: GPL-2.0

//! CRC32c by tables, for processors whose own way is slow.

/// CRC32c, bits reversed (RFC 3720 section 12.1).
const POLYNOMIAL: u64 = 0x82f6_3b78;

/// How many bits of a word are looked up at a time. Where this is used, under emulation, what costs
/// is each access to memory: six and one for a word, not eight for its octets and another five for
/// the octets, which is what the usual tables come to. More bits would be too much for the caches near a processor (48 KiB).
const BITS: usize = 11;
const ENTRIES: usize = 1 << BITS;
const COUNT: usize = 64usize.div_ceil(BITS);

/// `TABLES[n][bits]`: what `bits` become, where they lie in a word from bit `n * BITS` on. (A quarter of
/// the last one is in use.)
static TABLES: [[u32; ENTRIES]; COUNT] = tables();

/// What a word with one bit becomes.
const fn of_bit(bit: usize) -> u32 {
    let mut word = 1u64 << bit;
    let mut n = 0;
    while n < 64 {
        word = word >> 1 ^ if word & 1 != 0 { POLYNOMIAL } else { 0 };
        n += 1;
    }
    // CAST: All 64 bits of the word have been shifted out; the polynomial has 32.
    word as u32
}

const fn tables() -> [[u32; ENTRIES]; COUNT] {
    let mut tables = [[0; ENTRIES]; COUNT];
    let mut bit = 0;
    while bit < 64 {
        let (n, high) = (bit / BITS, 1 << bit % BITS);
        let crc = of_bit(bit);
        // The sum of what its bits become.
        let mut rest = 0;
        while rest < high {
            tables[n][high + rest] = tables[n][rest] ^ crc;
            rest += 1;
        }
        bit += 1;
    }
    tables
}

/// What bits `n * BITS` and up of a word become.
#[inline(always)]
fn part(word: u64, n: usize) -> u32 {
    // CAST: Its low bits are wanted.
    TABLES[n][(word >> (n * BITS)) as usize % ENTRIES]
}

/// Continues `crc` over `data`, without inversion before and after. Eight octets at a step, of which
/// each group of bits finds what it becomes by itself. Context: any.
pub(crate) fn by_tables(mut crc: u32, data: &[u8]) -> u32 {
    // Nothing that the compiler knows of: or it reads the octets of the word that a part needs, each
    // by itself, once more.
    let all = core::hint::black_box(u64::MAX);
    let mut words = data.chunks_exact(8);
    for w in &mut words {
        let word = u64::from_le_bytes([w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]]);
        let word = word & all ^ u64::from(crc);
        crc = part(word, 0)
            ^ part(word, 1)
            ^ part(word, 2)
            ^ part(word, 3)
            ^ part(word, 4)
            ^ part(word, 5);
    }
    for byte in words.remainder() {
        // An octet at the upper end of a word is the last that comes in.
        // CAST: Its low octet is wanted.
        let top = u64::from(crc as u8 ^ *byte) << 56;
        crc = crc >> 8 ^ part(top, COUNT - 1);
    }
    crc
}
