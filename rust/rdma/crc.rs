// SPDX-License-Identifier: GPL-2.0

//! CRC32c by tables, for processors whose own way is slow.

/// CRC32c, bits reversed (RFC 3720 section 12.1).
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[n][byte]`: what `byte` becomes, `n` octets of zeros behind it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        // CAST: Below 256.
        let mut crc = byte as u32;
        let mut n = 0;
        while n < 64 {
            crc = crc >> 1 ^ if crc & 1 != 0 { POLYNOMIAL } else { 0 };
            n += 1;
            if n % 8 == 0 {
                tables[n / 8 - 1][byte] = crc;
            }
        }
        byte += 1;
    }
    tables
}

/// Octet `n` of a word.
#[inline(always)]
fn octet(word: u64, n: usize) -> usize {
    // CAST: That is the point.
    (word >> (8 * n)) as u8 as usize
}

/// Continues `crc` over `data`, without inversion before and after. Eight octets at a step, of which
/// each finds what it becomes by itself ("slicing by 8"). Context: any.
pub(crate) fn by_tables(mut crc: u32, data: &[u8]) -> u32 {
    let mut words = data.chunks_exact(8);
    for w in &mut words {
        let word =
            u64::from_le_bytes([w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]]) ^ u64::from(crc);
        crc = TABLES[7][octet(word, 0)]
            ^ TABLES[6][octet(word, 1)]
            ^ TABLES[5][octet(word, 2)]
            ^ TABLES[4][octet(word, 3)]
            ^ TABLES[3][octet(word, 4)]
            ^ TABLES[2][octet(word, 5)]
            ^ TABLES[1][octet(word, 6)]
            ^ TABLES[0][octet(word, 7)];
    }
    for byte in words.remainder() {
        crc = crc >> 8 ^ TABLES[0][octet(u64::from(crc) ^ u64::from(*byte), 0)];
    }
    crc
}
