// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel TCP sockets for Rust, see ksock.h: a keyring with pre-shared keys.
 *
 * Keys have the type "psk", which nvme-keyring.ko brings, as tlshd's server looks
 * for that type only. The kernel exports no pointer to a type that another module
 * has, so a key is found by a look at each key of the keyring.
 */

#include "ksock.h"

#if IS_ENABLED(CONFIG_KEYS)

#include <linux/cred.h>
#include <linux/key.h>
#include <linux/string.h>

/* Rights as .nvme has them: processes of root put keys into it, tlshd's among them read. */
int ksock_keyring_alloc(const char *name, struct key **res)
{
	struct key *keyring;

	keyring = keyring_alloc(name, GLOBAL_ROOT_UID, GLOBAL_ROOT_GID, current_cred(),
				(KEY_POS_ALL & ~KEY_POS_SETATTR) |
				(KEY_USR_ALL & ~KEY_USR_SETATTR),
				KEY_ALLOC_NOT_IN_QUOTA, NULL, NULL);
	if (IS_ERR(keyring))
		return PTR_ERR(keyring);
	*res = keyring;
	return 0;
}

/* A process may have a link to the keyring. It finds nothing in it afterwards. */
void ksock_keyring_free(struct key *keyring)
{
	key_revoke(keyring);
	key_put(keyring);
}

/* The numbers of the first @n keys of the keyring; returns how many they are. */
int ksock_keyring_list(struct key *keyring, int *serials, unsigned int n)
{
	long size;

	BUILD_BUG_ON(!__same_type(key_serial_t, int));
	down_read(&keyring->sem);
	size = keyring->type->read(keyring, (char *)serials, n * sizeof(*serials));
	up_read(&keyring->sem);
	return size < 0 ? size : min_t(long, size / sizeof(*serials), n);
}

/*
 * What a pre-shared key is called, if it can be used now, by sockets of @sk's
 * namespace: the kernel keeps keys of this type apart by the namespace of the
 * process that made them. Returns the length; 0 for other keys, and for names
 * that have no room.
 */
int ksock_psk_name(int serial, const struct sock *sk, char *buf, size_t len)
{
	struct key *key = key_lookup(serial);
	size_t n = 0;

	if (IS_ERR(key))
		return 0;
	down_read(&key->sem);
	if (key->description && !strcmp(key->type->name, "psk") &&
	    key->index_key.domain_tag == sock_net(sk)->key_domain && !key_validate(key))
		n = strlen(key->description);
	if (n > len)
		n = 0;
	memcpy(buf, key->description, n);
	up_read(&key->sem);
	key_put(key);
	return n;
}

#else /* A kernel without keys has an empty keyring. */

int ksock_keyring_alloc(const char *name, struct key **res)
{
	*res = NULL;
	return 0;
}

void ksock_keyring_free(struct key *keyring) {}

int ksock_keyring_list(struct key *keyring, int *serials, unsigned int n)
{
	return 0;
}

int ksock_psk_name(int serial, const struct sock *sk, char *buf, size_t len)
{
	return 0;
}

#endif
