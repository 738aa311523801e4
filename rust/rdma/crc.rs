// SPDX-License-Identifier: GPL-2.0

//! CRC32c by shifts, and by tables, for processors whose own way is slow.
//!
//! What a bit of the data contributes to the sum does not change if the bit is taken away and some
//! others behind it are changed instead, as long as the bit and they, as a polynomial, are a multiple
//! of the CRC's. The sparsest such multiples of less than 5,000 bits have six terms, and so [`FOLDS`]
//! are the five distances of one. Whole words are taken away so, with what comes to the next five words
//! kept in registers: ten shifts and exclusive ors each, and no look at a table, which costs an
//! emulated processor most. In the end 40 to 79 octets are left, for which there are tables. (The idea
//! is that of "Chorba", by Sam Russell, 2024.)

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
            crc = step(crc);
            n += 1;
            if n % 8 == 0 {
                tables[n / 8 - 1][byte] = crc;
            }
        }
        byte += 1;
    }
    tables
}

/// One bit further.
const fn step(crc: u32) -> u32 {
    crc >> 1 ^ if crc & 1 != 0 { POLYNOMIAL } else { 0 }
}

/// How many bits behind a bit those are that may be changed instead. The first is more than a word
/// away, so that no word changes itself, and the last less than five.
const FOLDS: [u32; 5] = [101, 105, 219, 255, 297];

/// Words that are changed instead of one: those that follow it.
const WORDS: usize = 5;

// A bit, and zeros up to the last of the others, sum up to what the others do.
const _: () = {
    let mut others = 0;
    let (mut crc, mut zeros) = (1 << 31, 0);
    while zeros < FOLDS[4] {
        let mut n = 0;
        while n < FOLDS.len() {
            if FOLDS[4] - FOLDS[n] == zeros {
                others ^= crc;
            }
            n += 1;
        }
        (crc, zeros) = (step(crc), zeros + 1);
    }
    assert!(others == crc);
};

/// Octet `n` of a word.
#[inline(always)]
fn octet(word: u64, n: usize) -> usize {
    // CAST: That is the point.
    (word >> (8 * n)) as u8 as usize
}

/// Continues `crc`, of which only that is left, over a word.
#[inline(always)]
fn over_word(word: u64) -> u32 {
    TABLES[7][octet(word, 0)]
        ^ TABLES[6][octet(word, 1)]
        ^ TABLES[5][octet(word, 2)]
        ^ TABLES[4][octet(word, 3)]
        ^ TABLES[3][octet(word, 4)]
        ^ TABLES[2][octet(word, 5)]
        ^ TABLES[1][octet(word, 6)]
        ^ TABLES[0][octet(word, 7)]
}

/// A word of eight octets. To be called of such pieces only, which then costs no check.
#[inline(always)]
fn word(octets: &[u8]) -> u64 {
    octets.first_chunk().map_or(0, |w| u64::from_le_bytes(*w))
}

/// Continues `crc` over `data`, without inversion before and after. Eight octets at a step, of which
/// each finds what it becomes by itself ("slicing by 8").
fn by_tables(mut crc: u32, data: &[u8]) -> u32 {
    for w in data.chunks_exact(8) {
        crc = over_word(word(w) ^ u64::from(crc));
    }
    for byte in data.chunks_exact(8).remainder() {
        crc = crc >> 8 ^ TABLES[0][octet(u64::from(crc) ^ u64::from(*byte), 0)];
    }
    crc
}

/// Takes a word away: `at[0]` is what it has been changed by so far, `at[1]` and so on what the words
/// behind it have been. Returns those, as they are then.
#[inline(always)]
fn fold(word: u64, at: [u64; WORDS]) -> [u64; WORDS] {
    const fn shift(n: usize) -> u32 {
        FOLDS[n] % 64
    }
    const _: () = assert!(
        FOLDS[0] / 64 == 1
            && FOLDS[1] / 64 == 1
            && FOLDS[2] / 64 == 3
            && FOLDS[3] / 64 == 3
            && FOLDS[4] / 64 == 4
    );
    let word = word ^ at[0];
    // Bits that come later are higher ones; those beyond the highest are in the next word.
    let (here, next) = (|n| word << shift(n), |n| word >> (64 - shift(n)));
    [
        at[1] ^ here(0) ^ here(1),
        at[2] ^ next(0) ^ next(1),
        at[3] ^ here(2) ^ here(3),
        at[4] ^ next(2) ^ next(3) ^ here(4),
        next(4),
    ]
}

/// Octets of the words that are done in turn, so that none has to change its register.
const BLOCK: usize = 8 * WORDS;

/// Whole blocks, one more, and what is left; `None` if there is not even one.
#[inline(always)]
fn split(data: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let most = data.len().checked_sub(BLOCK)? / BLOCK * BLOCK;
    let (most, last) = data.split_at_checked(most)?;
    let (front, rest) = last.split_at_checked(BLOCK)?;
    Some((most, front, rest))
}

/// Continues `crc` over `data`, without inversion before and after. Context: any.
pub(crate) fn by_shifts(crc: u32, data: &[u8]) -> u32 {
    let Some((most, front, rest)) = split(data) else {
        return by_tables(crc, data);
    };
    let mut at = [u64::from(crc), 0, 0, 0, 0];
    for block in most.chunks_exact(BLOCK) {
        for w in block.chunks_exact(8) {
            at = fold(word(w), at);
        }
    }
    // What has come to the words behind those blocks.
    let mut crc = 0;
    for (w, at) in front.chunks_exact(8).zip(at) {
        crc = over_word(word(w) ^ at ^ u64::from(crc));
    }
    by_tables(crc, rest)
}
