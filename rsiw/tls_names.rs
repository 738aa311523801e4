// SPDX-License-Identifier: GPL-2.0

//! Names of peers that may connect to a device: the setting `tls_names`.
//!
//! A list has entries `NAME`, for all ports, and `PORT=NAME`, with commas between them. (Not
//! newlines: shells write each line by itself, and the last would be all that is left.) If there
//! are entries for a port, they alone count there. So a port can have fewer peers than the others,
//! or more. A list with entries, none of which is for a port, lets nobody connect there.

use core::str::from_utf8;
use kernel::prelude::*;
use net::Identity;

/// The name that each verified peer has.
const ANY: &str = "*";

/// Bytes of a list: with a newline it fits into a page.
const MOST: usize = 4000;

/// A list of names, as text: entries in order, with a comma and a space between them.
pub(crate) struct Names(KVec<u8>);

impl Names {
    /// An empty list, which lets everybody connect.
    pub(crate) fn new() -> Self {
        Self(KVec::new())
    }

    /// Reads a list. Errors: `EINVAL` if an entry is none; `E2BIG`, `ENOMEM`.
    pub(crate) fn read(text: &[u8]) -> Result<Self> {
        if text.len() > MOST {
            return Err(E2BIG);
        }
        let text = from_utf8(text).map_err(|_| EINVAL)?;
        let mut list = KVec::with_capacity(text.len(), GFP_KERNEL)?;
        for entry in text.split(',').map(str::trim) {
            if entry.is_empty() {
                continue;
            }
            Entry::read(entry).ok_or(EINVAL)?;
            if !list.is_empty() {
                list.extend_from_slice(b", ", GFP_KERNEL)?;
            }
            list.extend_from_slice(entry.as_bytes(), GFP_KERNEL)?;
        }
        if list.len() > MOST {
            return Err(E2BIG);
        }
        Ok(Self(list))
    }

    /// The list, which [`Names::read`] reads.
    pub(crate) fn text(&self) -> &[u8] {
        &self.0
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let text = from_utf8(&self.0).unwrap_or_default();
        text.split(", ").filter_map(Entry::read)
    }

    /// Whether `peer` may connect to `port`. A peer that no TLS has verified is `None`.
    pub(crate) fn admit(&self, port: u16, peer: Option<&Identity>) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let own = Some(port);
        let which = if self.entries().any(|entry| entry.port == own) {
            own
        } else {
            None
        };
        peer.is_some_and(|peer| {
            self.entries()
                .any(|entry| entry.port == which && (entry.name == ANY || peer.is(entry.name)))
        })
    }
}

struct Entry<'a> {
    /// `None`: all ports that have no entries of their own.
    port: Option<u16>,
    name: &'a str,
}

impl<'a> Entry<'a> {
    fn read(entry: &'a str) -> Option<Self> {
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (port, name) = match entry.split_once('=') {
            Some((port, name)) if is_number(port.trim_end()) => {
                let port = port.trim_end().parse().ok().filter(|port| *port != 0)?;
                (Some(port), name.trim())
            }
            _ => (None, entry),
        };
        let is_name = (1..=Identity::MOST).contains(&name.len())
            && name.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
        is_name.then_some(Self { port, name })
    }
}

#[kunit_tests(rsiw_tls_names)]
mod tests {
    use super::*;

    fn admits(list: &str, port: u16, peer: &str) -> bool {
        let peer = Identity::for_test(peer);
        Names::read(list.as_bytes()).is_ok_and(|names| names.admit(port, Some(&peer)))
    }

    #[test]
    fn names_are_those_of_the_port_or_of_all() {
        for list in [
            "hosta",
            " hosta,",
            "hostc,hosta\n",
            "hostb, hosta",
            "7=x,hosta",
            "*",
        ] {
            assert!(admits(list, 80, "hosta"));
        }
        for list in [
            "80=hosta",
            "hostb, 80=hosta",
            "80=hostb,80 = hosta",
            "80=*",
            "7=x, *",
        ] {
            assert!(admits(list, 80, "hosta"));
        }
        for list in [
            "hostb",
            "host",
            "hostaa",
            "Hosta",
            "81=hosta",
            "hosta, 80=hostb",
            "7=*",
        ] {
            assert!(!admits(list, 80, "hosta"));
        }
        assert!(admits("hosta@[fd07::1]", 80, "hosta@[fd07::1]"));
        assert!(admits("Acme = host a", 80, "Acme = host a"));
    }

    #[test]
    fn only_an_empty_list_is_for_peers_without_names() {
        for list in ["", "\n", " , , \n"] {
            let empty = Names::read(list.as_bytes());
            assert!(empty.is_ok_and(|names| names.admit(80, None) && names.text().is_empty()));
        }
        for list in ["*", "80=*", "hosta", "81=hosta"] {
            let names = Names::read(list.as_bytes());
            assert!(names.is_ok_and(|names| !names.admit(80, None)));
        }
        assert!(!admits("hosta", 80, ""));
    }

    #[test]
    fn other_texts_are_no_lists() {
        for list in [
            "0=hosta",
            "65536=hosta",
            "99999999999=a",
            "=hosta",
            "80=",
            "80= ",
            "a\tb",
            "a\nb",
            "\x7f",
            "h\u{f6}",
            "a, 0=b",
        ] {
            assert!(Names::read(list.as_bytes()).is_err());
        }
        assert!(Names::read(b"\xff").is_err());
        assert!(Names::read(&[b'a'; 129]).is_err());
        assert!(Names::read(&[b','; MOST + 1]).is_err());
        assert!(Names::read(&[b'a'; 128]).is_ok());
    }

    #[test]
    fn a_list_is_shown_as_it_is_read() {
        let shown = Names::read(b"a,,b , 80 = c , 7=d\n");
        assert!(shown.is_ok_and(|names| names.text() == b"a, b, 80 = c, 7=d"));
    }
}
