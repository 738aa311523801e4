// SPDX-License-Identifier: GPL-2.0

//! Distinguished names of X.509 certificates: the common name.

use kernel::prelude::*;

/// Tags of DER (X.690).
mod tag {
    pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(super) const SEQUENCE: u8 = 0x30;
    pub(super) const SET: u8 = 0x31;
}

/// `id-at-commonName` (RFC 5280, appendix A.1).
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// Splits the first element off: its tag, its contents, and what follows. Lengths of more than two
/// bytes are not taken: no certificate that TLS takes has names of that length.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (len, rest) = match der {
        [_, len @ 0..=0x7f, rest @ ..] => (usize::from(*len), rest),
        [_, 0x81, len, rest @ ..] => (usize::from(*len), rest),
        [_, 0x82, high, low, rest @ ..] => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(len)?;
    Some((*der.first()?, contents, rest))
}

/// Splits the first element off, which has to have that tag: its contents, and what follows.
fn element_of(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    element(der)
        .filter(|found| found.0 == tag)
        .map(|found| (found.1, found.2))
}

/// The last common name in the contents of a `Name`, in which a set may have several attributes.
/// `None` also if that is no `Name` to its end: the part that is not understood may have the last
/// one.
pub(crate) fn common_name(mut names: &[u8]) -> Option<&[u8]> {
    let mut last = None;
    // Each turn of both loops takes two bytes at least.
    while !names.is_empty() {
        let (mut set, rest) = element_of(tag::SET, names)?;
        names = rest;
        while !set.is_empty() {
            let (attribute, rest) = element_of(tag::SEQUENCE, set)?;
            set = rest;
            let (kind, value) = element_of(tag::OBJECT_IDENTIFIER, attribute)?;
            if kind == COMMON_NAME {
                last = Some(element(value)?.1);
            }
        }
    }
    last
}

#[kunit_tests(rsiw_net_name)]
mod tests {
    use super::*;

    /// O=Acme, CN=host
    const NAMES: &[u8] = b"\x31\x0d\x30\x0b\x06\x03\x55\x04\x0a\x0c\x04Acme\
        \x31\x0d\x30\x0b\x06\x03\x55\x04\x03\x0c\x04host";

    #[test]
    fn the_common_name_is_found() {
        assert_eq!(common_name(NAMES), Some(&b"host"[..]));
        assert_eq!(common_name(&NAMES[..15]), None);
        assert_eq!(common_name(&[]), None);
    }

    /// CN=hosta, O=x + CN=hostb
    const SEVERAL: &[u8] = b"\x31\x0e\x30\x0c\x06\x03\x55\x04\x03\x0c\x05hosta\
        \x31\x18\x30\x08\x06\x03\x55\x04\x0a\x0c\x01x\x30\x0c\x06\x03\x55\x04\x03\x0c\x05hostb";

    #[test]
    fn the_last_of_several_is_found() {
        assert_eq!(common_name(SEVERAL), Some(&b"hostb"[..]));
        // The first set, and a part of the second.
        assert_eq!(common_name(&SEVERAL[..16]), Some(&b"hosta"[..]));
        for len in 17..SEVERAL.len() {
            assert!(common_name(SEVERAL.get(..len).unwrap_or_default()).is_none());
        }
    }

    #[test]
    fn what_is_cut_or_changed_is_no_name() {
        for len in 0..NAMES.len() {
            let name = common_name(NAMES.get(..len).unwrap_or_default());
            assert!(name.is_none());
        }
        for first in [0x82, 0x83, 0xff] {
            assert!(common_name(&[0x31, first, 0xff, 0xff, 0x30]).is_none());
        }
    }
}
