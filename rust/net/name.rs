// SPDX-License-Identifier: GPL-2.0

//! Distinguished names of X.509 certificates, as far as a log needs them.

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
/// octets are not taken: no certificate that TLS takes has names of that length.
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

/// The contents of the first element, if it has that tag.
fn contents(der: &[u8], tag: u8) -> Option<&[u8]> {
    element(der)
        .filter(|found| found.0 == tag)
        .map(|found| found.1)
}

/// The last common name in the contents of a `Name`.
pub(crate) fn common_name(mut names: &[u8]) -> Option<&[u8]> {
    let mut last = None;
    // Each turn takes two octets at least.
    while let Some((tag::SET, set, rest)) = element(names) {
        names = rest;
        let Some((tag::OBJECT_IDENTIFIER, COMMON_NAME, value)) =
            contents(set, tag::SEQUENCE).and_then(element)
        else {
            continue;
        };
        last = element(value).map(|found| found.1);
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
