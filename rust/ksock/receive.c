// SPDX-License-Identifier: GPL-2.0
/* Kernel TCP sockets for Rust, see ksock.h: receiving. */

#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/uio.h>
#include <net/tcp.h>

#include "ksock.h"

/* Bytes that were received and not read. Call it with the socket locked. */
u32 ksock_unread(const struct sock *sk)
{
	return tcp_sk(sk)->rcv_nxt - tcp_sk(sk)->copied_seq;
}

/* What TCP_QUICKACK of 0 does. Call it with the socket locked. */
void ksock_leave_quickack(struct sock *sk)
{
	inet_csk_enter_pingpong_mode(sk);
}

struct ksock_reader {
	void *ctx;
	size_t (*chunk)(void *ctx, const u8 *data, size_t len);
};

/*
 * Reads one skb: a cursor finds each contiguous run of it (linear part,
 * fragments, fragment list). A page that was spliced into a socket of this host
 * is a fragment of its own, and often touches the next. Such runs are passed on
 * as one, as each costs the reader some 500 instructions. They stay mapped, as
 * all memory is. What is not taken stays in the queue; tcp_read_sock() ends when
 * nothing is.
 */
#ifdef CONFIG_KMAP_LOCAL
#error "CONFIG_KMAP_LOCAL: a page is unmapped as soon as the next one is read"
#endif
static int ksock_read_skb(read_descriptor_t *desc, struct sk_buff *skb,
			  unsigned int offset, size_t len)
{
	struct ksock_reader *reader = desc->arg.data;
	struct skb_seq_state cursor;
	size_t taken = 0, found = 0;
	const u8 *run = NULL;

	/* A small packet is in the linear part. */
	if (offset + len <= skb_headlen(skb)) {
		taken = reader->chunk(reader->ctx, skb->data + offset, len);
		if (taken < len)
			desc->count = 0;
		return taken;
	}

	skb_prepare_seq_read(skb, offset, offset + len, &cursor);
	for (;;) {
		const u8 *data = NULL;
		size_t have = 0;

		/* A run may go on after the end, where urgent data may be. */
		if (found < len)
			have = min(skb_seq_read(found, &data, &cursor),
				   len - found);
		if (have && run && run + (found - taken) == data) {
			found += have;
			continue;
		}
		if (run) {
			taken += reader->chunk(reader->ctx, run, found - taken);
			if (taken < found) {
				desc->count = 0;
				break;
			}
		}
		if (!have)
			break;
		run = data;
		found += have;
	}
	skb_abort_seq_read(&cursor);
	return taken;
}

int ksock_read(struct sock *sk, void *ctx,
	       size_t (*chunk)(void *ctx, const u8 *data, size_t len))
{
	struct ksock_reader reader = { .ctx = ctx, .chunk = chunk };
	read_descriptor_t desc = { .count = 1 };
	int ret;

	/* The bytes are another's, TLS' for one. */
	if (unlikely(inet_csk(sk)->icsk_ulp_ops))
		return -EINVAL;

	desc.arg.data = &reader;
	ret = tcp_read_sock(sk, &desc, ksock_read_skb);

	/* Urgent data has no place in the stream, and would stop it for good. */
	if (ret >= 0 && unlikely(tcp_sk(sk)->urg_data))
		return -EPROTO;
	return ret;
}

bool ksock_at_eof(const struct sock *sk)
{
	return skb_queue_empty(&sk->sk_receive_queue) &&
	       (sk->sk_shutdown & RCV_SHUTDOWN || sk->sk_state == TCP_CLOSE);
}

int ksock_recv(struct socket *sock, void *buf, size_t len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = buf, .iov_len = len };

	return kernel_recvmsg(sock, &msg, &vec, 1, len, msg.msg_flags);
}
