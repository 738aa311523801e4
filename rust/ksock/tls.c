// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel TCP sockets for Rust, see ksock.h: TLS 1.3 on them.
 *
 * tlshd, a process, makes the handshake by the kernel's upcall and gives the keys
 * to the socket. From then on the socket's operations are those of net/tls, so
 * this file calls them by the socket's tables: tls.ko is loaded when the first
 * handshake ends, and this module does not depend on it.
 */

#include <linux/bpf-cgroup.h>
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/net.h>
#include <linux/uio.h>

#include "ksock.h"

/*
 * A process can be given the socket only as a file, whose name is @peer's. On
 * failure the socket is gone.
 */
int ksock_give_file(struct socket *sock, const char *peer)
{
	return PTR_ERR_OR_ZERO(sock_alloc_file(sock, O_CLOEXEC, peer));
}

/* For the owner of a socket: keeps the sock longer than the socket. */
void ksock_hold(struct sock *sk)
{
	sock_hold(sk);
}

void ksock_put(struct sock *sk)
{
	sock_put(sk);
}

/*
 * The one place where sockets end. The file may stay if a process has it, too.
 * If @asked, programs of a cgroup are told, as for a socket of a process.
 */
void ksock_release(struct socket *sock, bool asked)
{
	if (asked)
		BPF_CGROUP_RUN_PROG_INET_SOCK_RELEASE(sock->sk);
	if (sock->file)
		__fput_sync(sock->file);
	else
		sock_release(sock);
}

/* Whether the peer's first byte has come; -EAGAIN, 0 at the end of the stream. */
int ksock_peek(struct socket *sock, u8 *byte)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_PEEK };
	struct kvec vec = { .iov_base = byte, .iov_len = 1 };

	return kernel_recvmsg(sock, &msg, &vec, 1, 1, msg.msg_flags);
}

#if IS_ENABLED(CONFIG_TLS) && IS_ENABLED(CONFIG_NET_HANDSHAKE) && IS_ENABLED(CONFIG_KEYS)

#include <linux/key.h>
#include <linux/rcupdate.h>
#include <linux/string.h>
#include <keys/asymmetric-subtype.h>
#include <keys/asymmetric-type.h>
#include <net/handshake.h>
#include <net/rps.h>
#include <net/tls.h>
#include <net/tls_prot.h>

/*
 * Returns 0 if @done will be called once, in the context of tlshd or of the end
 * of the network namespace, unless ksock_tls_cancel() returns true before. Ends
 * show certificates if @keyring is NULL. Otherwise a client has the key @psk, and
 * tlshd may find both ends' keys in @keyring.
 *
 * The peer's name is that of the file, and lives as long as it: tlshd may be
 * about to take a handshake that is cancelled meanwhile. It then reads the name
 * after the cancellation, but has a reference to the file.
 */
int ksock_tls_handshake(struct socket *sock, bool server, struct key *keyring,
			int psk, unsigned int timeout_ms,
			void (*done)(void *data, int status, int peer), void *data)
{
	struct tls_handshake_args args = {
		.ta_sock = sock,
		.ta_done = done,
		.ta_data = data,
		.ta_timeout_ms = timeout_ms,
		.ta_keyring = key_serial(keyring),
		.ta_my_peerids = { psk },
		.ta_num_peerids = 1,
	};

	BUILD_BUG_ON(!__same_type(key_serial_t, int));
	if (!sock->file)
		return -EINVAL;
	args.ta_peername = sock->file->f_path.dentry->d_name.name;
	if (keyring)
		return server ? tls_server_hello_psk(&args, GFP_KERNEL) :
				tls_client_hello_psk(&args, GFP_KERNEL);
	return server ? tls_server_hello_x509(&args, GFP_KERNEL) :
			tls_client_hello_x509(&args, GFP_KERNEL);
}

bool ksock_tls_cancel(struct sock *sk)
{
	return tls_handshake_cancel(sk);
}

/*
 * A handshake's @done tells that it has ended, and then returns to the kernel
 * through this module, where its thread may be preempted. Waits until none is
 * there any more; no handshake may be going on.
 */
void ksock_tls_done_returned(void)
{
	synchronize_rcu_tasks();
}

static struct tls_context *ksock_tls(const struct sock *sk)
{
	const struct tcp_ulp_ops *ulp = inet_csk(sk)->icsk_ulp_ops;

	return ulp && !strcmp(ulp->name, "tls") ? tls_get_ctx(sk) : NULL;
}

/* Whether both directions are encrypted, by TLS 1.3. Call it with the socket locked. */
bool ksock_tls_is_on(const struct sock *sk)
{
	struct tls_context *tls = ksock_tls(sk);

	return tls && tls->prot_info.version == TLS_1_3_VERSION &&
	       tls->tx_conf != TLS_BASE && tls->rx_conf != TLS_BASE;
}

/* One of TLS_CIPHER_*, which is that of both directions. Call it with the socket locked. */
u16 ksock_tls_cipher(const struct sock *sk)
{
	struct tls_context *tls = ksock_tls(sk);

	return tls ? tls->prot_info.cipher_type : 0;
}

/*
 * Whether TLS has records that TCP has not taken: it takes a record when it has
 * room for the first byte of it. Call it with the socket locked.
 */
bool ksock_tls_is_behind(const struct sock *sk)
{
	struct tls_context *tls = ksock_tls(sk);

	if (!tls)
		return false;
	return tls->partially_sent_record ||
	       (tls->tx_conf == TLS_SW && !list_empty(&tls_sw_ctx_tx(tls)->tx_list));
}

/*
 * Not sock_sendmsg(), as in send.c. A mutex is in the way, for which a process
 * with a signal does not wait. And TLS allocates memory before it looks for room.
 * The stream is as before then, and the caller is to try again, as it is when TCP
 * has no room: either it finds that there is some, or write_space is called, if
 * SOCK_NOSPACE says that somebody waits. The barrier is for callers that look for
 * room now; it pairs with that of tcp_check_space(), as in tcp_poll().
 */
static int ksock_tls_sendmsg(struct sock *sk, struct msghdr *msg, size_t len)
{
	int ret;

	sock_rps_record_flow(sk);
	ret = READ_ONCE(sk->sk_prot)->sendmsg(sk, msg, len);
	if (ret != -EINTR && ret != -ERESTARTSYS && ret != -ENOMEM)
		return ret;
	set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	/* Pairs with the barrier of tcp_check_space(). */
	smp_mb__after_atomic();
	return -EAGAIN;
}

int ksock_tls_send(struct sock *sk, const void *buf, size_t len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = (void *)buf, .iov_len = len };

	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, len);
	return ksock_tls_sendmsg(sk, &msg, len);
}

int ksock_tls_send_pages(struct sock *sk, const struct bio_vec *pages,
			 unsigned int count, size_t len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_SPLICE_PAGES };

	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, pages, count, len);
	return ksock_tls_sendmsg(sk, &msg, len);
}

/* Sends the alert that nothing follows. 0: it is with TLS. */
int ksock_tls_close_notify(struct sock *sk)
{
	u8 alert[] = { TLS_ALERT_LEVEL_WARNING, TLS_ALERT_DESC_CLOSE_NOTIFY };
	union {
		struct cmsghdr cmsg;
		u8 buf[CMSG_SPACE(sizeof(u8))];
	} u = { .cmsg = {
		.cmsg_level = SOL_TLS,
		.cmsg_type = TLS_SET_RECORD_TYPE,
		.cmsg_len = CMSG_LEN(sizeof(u8)),
	} };
	struct msghdr msg = {
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL,
		.msg_control = &u,
		.msg_controllen = sizeof(u),
	};
	struct kvec vec = { .iov_base = alert, .iov_len = sizeof(alert) };
	int ret;

	*(u8 *)CMSG_DATA(&u.cmsg) = TLS_RECORD_TYPE_ALERT;
	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, sizeof(alert));
	ret = ksock_tls_sendmsg(sk, &msg, sizeof(alert));
	return min(ret, 0);
}

/*
 * Nothing can be read. TLS may have had no memory for a record that has come: its
 * work tries again, and then calls the data_ready from before TLS, which is not
 * ours. So ours is called in a while, by which time the work may have the record.
 * Call it with the socket locked, for which the work waits.
 */
static void ksock_tls_nothing_read(struct sock *sk)
{
	struct tls_context *tls = ksock_tls(sk);
	struct tls_strparser *parser;

	if (!tls || tls->rx_conf == TLS_BASE)
		return;
	parser = &tls_sw_ctx_rx(tls)->strp;
	if (READ_ONCE(parser->msg_ready) || work_busy(&parser->work))
		ksock_look_later(sk);
}

/*
 * Receives bytes of one record, and tells its type. Returns 0 at the FIN.
 * -EAGAIN: nothing has come; data_ready follows. -EKEYEXPIRED: the peer has
 * changed its key.
 */
int ksock_tls_recv(struct socket *sock, void *buf, size_t len, u8 *type)
{
	union {
		struct cmsghdr cmsg;
		u8 buf[CMSG_SPACE(sizeof(u8))];
	} u = {};
	struct msghdr msg = {
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL,
		.msg_control = &u,
		.msg_controllen = sizeof(u),
	};
	struct kvec vec = { .iov_base = buf, .iov_len = len };
	int ret;

	ret = kernel_recvmsg(sock, &msg, &vec, 1, len, msg.msg_flags);
	*type = ret > 0 ? tls_get_record_type(sock->sk, &u.cmsg) : 0;
	if (ret == -EAGAIN) {
		lock_sock(sock->sk);
		ksock_tls_nothing_read(sock->sk);
		release_sock(sock->sk);
	}
	return ret;
}

/*
 * As ksock_read(), but one call takes the bytes of at least one record. The
 * caller has locked the socket as a process, and has it read again while this
 * returns more than 0. 0: the FIN, or, if @stopped, @chunk has had enough.
 * -EAGAIN: nothing has come; data_ready follows. -EINVAL: the next record is not
 * of data. TLS releases the lock for a moment if another thread reads.
 */
int ksock_tls_read(struct sock *sk, void *ctx,
		   size_t (*chunk)(void *ctx, const u8 *data, size_t len),
		   bool *stopped)
{
	struct ksock_reader reader = { .ctx = ctx, .chunk = chunk };
	read_descriptor_t desc = { .count = 1 };
	int ret;

	desc.arg.data = &reader;
	ret = READ_ONCE(sk->sk_socket->ops)->read_sock(sk, &desc, ksock_read_skb);
	*stopped = !desc.count;
	if (ret == -EAGAIN)
		ksock_tls_nothing_read(sk);
	return ret;
}

/*
 * Whom the key with this number is of: the subject of a certificate, in DER and
 * without the outer sequence (@der is set then), or what the key is called.
 * Returns the length.
 */
int ksock_key_owner(int serial, u8 *buf, size_t len, bool *der)
{
	struct key *key = key_lookup(serial);
	const void *owner;
	size_t n;

	if (IS_ERR(key))
		return PTR_ERR(key);
	down_read(&key->sem);
	owner = key->description ?: "";
	n = strlen(owner);
	*der = false;
	if (!strcmp(key->type->name, "asymmetric")) {
		const struct asymmetric_key_ids *ids = key->payload.data[asym_key_ids];
		const struct asymmetric_key_id *subject = ids ? ids->id[2] : NULL;

		if (subject) {
			owner = subject->data;
			n = subject->len;
			*der = true;
		}
	}
	n = min(n, len);
	memcpy(buf, owner, n);
	up_read(&key->sem);
	key_put(key);
	return n;
}

#else /* A kernel without TLS never has a handshake that ends well. */

int ksock_tls_handshake(struct socket *sock, bool server, struct key *keyring,
			int psk, unsigned int timeout_ms,
			void (*done)(void *data, int status, int peer), void *data)
{
	return -EOPNOTSUPP;
}

bool ksock_tls_cancel(struct sock *sk) { return false; }
void ksock_tls_done_returned(void) { }
bool ksock_tls_is_on(const struct sock *sk) { return false; }
u16 ksock_tls_cipher(const struct sock *sk) { return 0; }
bool ksock_tls_is_behind(const struct sock *sk) { return false; }
int ksock_tls_close_notify(struct sock *sk) { return -EOPNOTSUPP; }

int ksock_tls_send(struct sock *sk, const void *buf, size_t len)
{
	return -EOPNOTSUPP;
}

int ksock_tls_send_pages(struct sock *sk, const struct bio_vec *pages,
			 unsigned int count, size_t len)
{
	return -EOPNOTSUPP;
}

int ksock_tls_recv(struct socket *sock, void *buf, size_t len, u8 *type)
{
	return -EOPNOTSUPP;
}

int ksock_tls_read(struct sock *sk, void *ctx,
		   size_t (*chunk)(void *ctx, const u8 *data, size_t len),
		   bool *stopped)
{
	return -EOPNOTSUPP;
}

int ksock_key_owner(int serial, u8 *buf, size_t len, bool *der)
{
	return -EOPNOTSUPP;
}

#endif
