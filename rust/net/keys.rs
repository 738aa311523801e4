// SPDX-License-Identifier: GPL-2.0

//! Pre-shared keys: a keyring that processes of root fill, and whose key is for whom.
//!
//! A key is called by its identity on the wire, `NAME@[ADDRESS]`: the client of that name connects
//! to the server at that address by it, and by no other key. So a key has one client and one
//! server, which are not to change places (RFC 9257, section 6): else a server would take its own
//! words, sent back to it, for a client's. The brackets end the name, as some kernels find a key
//! also by the beginning of its name.
//!
//! C header: [`include/linux/key.h`](srctree/include/linux/key.h).

use crate::{bindings, errno, sock_ref::SockRef, Identity};
use core::{net::IpAddr, ptr::NonNull};
use kernel::{error::to_result, prelude::*, str::CStr};

/// Keys of a keyring that are looked at.
const MOST_KEYS: usize = 1024;

/// A keyring of the kernel's. Dropping it revokes it, with the links that processes have to it.
pub struct Keyring(
    /// INVARIANT: A keyring to which this object has a reference; `None` in a kernel without keys.
    Option<NonNull<bindings::key>>,
);

// SAFETY: A keyring belongs to no thread, and the functions called on it lock it themselves.
unsafe impl Send for Keyring {}
// SAFETY: As above.
unsafe impl Sync for Keyring {}

impl Keyring {
    /// Makes an empty keyring of that name, in which root's processes have all rights. Context:
    /// sleeping. Errors: `ENOMEM`. C: `keyring_alloc()`.
    pub fn new(name: &'static CStr) -> Result<Self> {
        let mut keyring = core::ptr::null_mut();
        // SAFETY: `name` is a string, and `keyring` is valid for a write.
        to_result(unsafe { bindings::ksock_keyring_alloc(name.as_char_ptr(), &mut keyring) })?;
        // INVARIANT: On success the helper has passed its reference to us, or there are no keys.
        Ok(Self(NonNull::new(keyring)))
    }

    pub(crate) fn as_ptr(&self) -> *mut bindings::key {
        self.0.map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    /// The numbers of its keys.
    fn keys(&self) -> Result<KVec<c_int>> {
        let mut keys = KVec::from_elem(0, MOST_KEYS, GFP_KERNEL)?;
        let Some(keyring) = self.0 else {
            return Ok(KVec::new());
        };
        // SAFETY: By the type invariant `keyring` is one. `keys` is valid for writes of its length,
        // which `MOST_KEYS` is.
        let n = unsafe {
            bindings::ksock_keyring_list(keyring.as_ptr(), keys.as_mut_ptr(), MOST_KEYS as u32)
        };
        to_result(n)?;
        keys.truncate(usize::try_from(n).unwrap_or(0));
        Ok(keys)
    }

    /// The identity of the key with that number, if it is one that `sk` can use.
    fn identity_of(key: c_int, sk: &SockRef) -> Option<Identity> {
        let mut name = [0; Identity::MOST];
        // SAFETY: `sk` is valid, and `name` is valid for writes of its length.
        let len = unsafe {
            bindings::ksock_psk_name(key, sk.as_ptr(), name.as_mut_ptr().cast(), name.len())
        };
        let name = name.get(..usize::try_from(len).ok()?)?;
        server_of(name).map(|_| Identity::named(name))
    }

    /// The number of the key by which `sk` can connect to `server`. Context: sleeping.
    ///
    /// # Errors
    ///
    /// `ENOKEY`: there is none. `ENOTUNIQ`: there are several, and which one the server has is not
    /// known. `ENOMEM`.
    pub(crate) fn find(&self, sk: &SockRef, server: IpAddr) -> Result<c_int> {
        let mut found = None;
        for &key in self.keys()?.iter() {
            if !Self::identity_of(key, sk).is_some_and(|identity| is_for(&identity, server)) {
                continue;
            }
            if found.replace(key).is_some() {
                return Err(errno::ENOTUNIQ.into());
            }
        }
        found.ok_or(errno::ENOKEY.into())
    }

    /// The identity of the key with that number, by which `sk` has got a connection to `server`. A
    /// process that makes a handshake may have other keyrings, and thus other keys. Context:
    /// sleeping. Errors: `EKEYREJECTED`: it is no key of this keyring for that. `ENOMEM`.
    pub(crate) fn identity(&self, key: c_int, sk: &SockRef, server: IpAddr) -> Result<Identity> {
        let known = self.keys()?.contains(&key);
        known
            .then(|| Self::identity_of(key, sk))
            .flatten()
            .filter(|identity| is_for(identity, server))
            .ok_or(errno::EKEYREJECTED.into())
    }
}

impl Drop for Keyring {
    fn drop(&mut self) {
        if let Some(keyring) = self.0 {
            // SAFETY: By the type invariant it is a keyring, and the reference is ours.
            unsafe { bindings::ksock_keyring_free(keyring.as_ptr()) };
        }
    }
}

/// Whether the key with that identity is for connections to `server`.
fn is_for(identity: &Identity, server: IpAddr) -> bool {
    server_of(identity.bytes()) == Some(server.to_canonical())
}

/// The server's address in an identity.
fn server_of(identity: &[u8]) -> Option<IpAddr> {
    let (name, server) = core::str::from_utf8(identity).ok()?.rsplit_once('@')?;
    let server = server.strip_prefix('[')?.strip_suffix(']')?;
    // tlshd takes what is behind the last semicolon for the identity.
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b';');
    let server: IpAddr = server.parse().ok()?;
    is_name.then_some(server.to_canonical())
}

#[kunit_tests(rsiw_net_keys)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn an_identity_names_the_server() {
        let v4 = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let v6 = IpAddr::V6(Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 1));
        for (identity, server) in [
            ("hosta@[192.0.2.1]", v4),
            ("hosta@[::ffff:192.0.2.1]", v4),
            ("nfs@hosta@[192.0.2.1]", v4),
            ("hosta@[fd07::1]", v6),
            ("hosta@[FD07:0:0:0:0:0:0:1]", v6),
        ] {
            assert_eq!(server_of(identity.as_bytes()), Some(server));
            assert!(is_for(&Identity::named(identity.as_bytes()), server));
        }
        let mapped = IpAddr::V6(Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped());
        assert!(is_for(&Identity::named(b"hosta@[192.0.2.1]"), mapped));
        assert!(!is_for(&Identity::named(b"hosta@[192.0.2.1]"), v6));
    }

    #[test]
    fn other_names_are_no_identities() {
        for identity in [
            &b""[..],
            b"hosta",
            b"@[192.0.2.1]",
            b"hosta@192.0.2.1",
            b"hosta@[192.0.2.1",
            b"hosta@192.0.2.1]",
            b"hosta@[192.0.2.1]]",
            b"hosta@[192.0.2.1] ",
            b"hosta@[192.0.2]",
            b"hosta@[192.0.2.256]",
            b"hosta@[fe80::1%eth0]",
            b"hosta@[hostb]",
            b"hosta@[]",
            b"host a@[192.0.2.1]",
            b"host\x7f@[192.0.2.1]",
            b"a;hosta@[192.0.2.1]",
            b"host\xc3\xa9@[192.0.2.1]",
            b"host\xff@[192.0.2.1]",
            b"NVMe0R01 nqn.a nqn.b",
        ] {
            assert!(server_of(identity).is_none());
        }
    }
}
