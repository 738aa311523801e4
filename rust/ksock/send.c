// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel TCP sockets for Rust, see ksock.h: sending, and the pages that are sent.
 */

#include <linux/gfp.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/uio.h>
#include <net/hotdata.h>
#include <net/rps.h>
#include <net/tcp.h>

#include "ksock.h"

/* Sending */

/* The most fragments that @skb needs in addition to take all of @iter. */
static int ksock_frags(const struct sk_buff *skb, const struct iov_iter *iter)
{
	const struct bio_vec *bv = iter->bvec;
	unsigned int i;
	int frags = 0;

	/* A page fragment may end in the middle of the bytes to copy. */
	if (!iov_iter_is_bvec(iter))
		return 2;
	/* The first page may continue the last fragment. */
	if (skb_can_coalesce((struct sk_buff *)skb, skb_shinfo(skb)->nr_frags,
			     bv->bv_page + (bv->bv_offset >> PAGE_SHIFT),
			     offset_in_page(bv->bv_offset)))
		frags = -1;
	for (i = 0; i < iter->nr_segs; i++, bv++)
		frags += DIV_ROUND_UP(offset_in_page(bv->bv_offset) +
				      bv->bv_len, PAGE_SIZE);
	return frags;
}

/*
 * Sends bytes so that no frame lies across two segments. TCP cuts bytes that
 * it has not sent at multiples of the segment size.
 *
 * @segment_offset: how many bytes of a segment the sender believes to be
 * unsent and to precede these. The first frame has that many bytes less. If
 * TCP has sent them meanwhile, that frame gets a segment of its own, and the
 * rest is left for another call; likewise if the packet has no room for all.
 * Less than 0: frames may lie anywhere. On return it is the number that really
 * preceded.
 */
static int ksock_sendmsg_locked(struct sock *sk, struct msghdr *msg, size_t len,
				int *segment_offset)
{
	struct sk_buff *unsent = tcp_write_queue_tail(sk);
	const int mss = tcp_sk(sk)->mss_cache;
	const int first = mss - *segment_offset;
	int room = 0;

	/* Beneath TLS, say: these bytes would be sent in the clear, in the middle of a record. */
	if (unlikely(inet_csk(sk)->icsk_ulp_ops))
		return -EINVAL;

	if (*segment_offset < 0)
		return tcp_sendmsg_locked(sk, msg, len);

	if (unsent && !TCP_SKB_CB(unsent)->eor) {
		if (unsent->len % mss == *segment_offset)
			room = READ_ONCE(net_hotdata.sysctl_max_skb_frags) -
			       skb_shinfo(unsent)->nr_frags;
		/* The bytes that fill the segment are in two pages at most. */
		if (room < (*segment_offset ? 2 : 1)) {
			TCP_SKB_CB(unsent)->eor = 1;
			room = 0;
		}
	}
	if (!room && (!*segment_offset || first <= 0 || len <= first)) {
		*segment_offset = 0;
	} else if (room && ksock_frags(unsent, &msg->msg_iter) <= room) {
		/* All of it goes into that packet. */
	} else if (*segment_offset) {
		len = min_t(size_t, len, first);
		iov_iter_truncate(&msg->msg_iter, len);
		msg->msg_flags |= MSG_EOR;
	} else {
		TCP_SKB_CB(unsent)->eor = 1;
	}
	return tcp_sendmsg_locked(sk, msg, len);
}

/*
 * The page that TCP copies to is lent to the socket for this call. If the
 * socket kept it, each connection that has sent something would have 32 KiB.
 * Afterwards @frag has the page that the socket has then, which may be another
 * one.
 */
static int ksock_copy_locked(struct sock *sk, struct msghdr *msg, size_t len,
			     struct page_frag *frag, int *segment_offset)
{
	int ret;

	if (frag)
		swap(sk->sk_frag, *frag);
	ret = ksock_sendmsg_locked(sk, msg, len, segment_offset);
	if (frag) {
		swap(sk->sk_frag, *frag);
	} else if (unlikely(sk->sk_frag.page)) {
		/* TCP has copied pages, for a route without scatter/gather. */
		put_page(sk->sk_frag.page);
		sk->sk_frag.page = NULL;
	}
	return ret;
}

/*
 * Not sock_sendmsg(): security modules would judge the kernel's own traffic by
 * the task that happens to send it.
 */
static int ksock_sendmsg(struct sock *sk, struct msghdr *msg, size_t len,
			 struct page_frag *frag, int *segment_offset)
{
	int ret;

	/* As inet_sendmsg() does, for receive flow steering. */
	sock_rps_record_flow(sk);
	lock_sock(sk);
	ret = ksock_copy_locked(sk, msg, len, frag, segment_offset);
	release_sock(sk);
	return ret;
}

static int ksock_flags(bool end)
{
	return MSG_DONTWAIT | MSG_NOSIGNAL | (end ? MSG_EOR : 0);
}

/*
 * Unless @end, bytes that do not fill a segment leave it open. TCP may hold it
 * back while the device is busy (tcp_should_autocork()).
 */
int ksock_send(struct sock *sk, const void *buf, size_t len,
	       struct page_frag *frag, int *segment_offset, bool end)
{
	struct msghdr msg = { .msg_flags = ksock_flags(end) };
	struct kvec vec = { .iov_base = (void *)buf, .iov_len = len };

	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, len);
	return ksock_sendmsg(sk, &msg, len, frag, segment_offset);
}

/*
 * Nobody else writes to the pages, so they are not "shared" in the sense of
 * SKBFL_SHARED_FRAG, and TCP need not copy them for a software checksum.
 */
static void ksock_of_pages(struct msghdr *msg, const struct bio_vec *pages,
			   unsigned int count, size_t len)
{
	msg->msg_flags |= MSG_SPLICE_PAGES | MSG_NO_SHARED_FRAGS;
	iov_iter_bvec(&msg->msg_iter, ITER_SOURCE, pages, count, len);
}

int ksock_send_pages(struct sock *sk, const struct bio_vec *pages,
		     unsigned int count, size_t len, int *segment_offset,
		     bool end)
{
	struct msghdr msg = { .msg_flags = ksock_flags(end) };

	ksock_of_pages(&msg, pages, count, len);
	return ksock_sendmsg(sk, &msg, len, NULL, segment_offset);
}

/*
 * The next two send with the socket locked, possibly in a softirq. TCP then
 * allocates its own memory without sleeping, and with MSG_DONTWAIT it waits for
 * nothing else. The callers must have it make few packets at a time: before the
 * 17th it would process the backlog, which a process may be doing already.
 */
static int ksock_send_atomic(struct sock *sk, struct msghdr *msg, size_t len,
			     struct page_frag *frag, int *segment_offset)
{
	const gfp_t allocation = sk->sk_allocation;
	int ret;

	sk->sk_allocation = GFP_ATOMIC | __GFP_NOWARN;
	ret = ksock_copy_locked(sk, msg, len, frag, segment_offset);
	sk->sk_allocation = allocation;
	return ret;
}

int ksock_send_locked(struct sock *sk, const void *buf, size_t len,
		      struct page_frag *frag, int *segment_offset, bool end)
{
	struct msghdr msg = { .msg_flags = ksock_flags(end) };
	struct kvec vec = { .iov_base = (void *)buf, .iov_len = len };

	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, len);
	return ksock_send_atomic(sk, &msg, len, frag, segment_offset);
}

int ksock_send_pages_locked(struct sock *sk,
			    const struct bio_vec *pages,
			    unsigned int count, size_t len,
			    int *segment_offset, bool end)
{
	struct msghdr msg = { .msg_flags = ksock_flags(end) };

	ksock_of_pages(&msg, pages, count, len);
	return ksock_send_atomic(sk, &msg, len, NULL, segment_offset);
}

/* Pages to send from */

/* A large page if one is at hand, as in skb_page_frag_refill(); else a single one. */
struct page *ksock_page_alloc(bool atomic)
{
	const gfp_t gfp = (atomic ? GFP_NOWAIT : GFP_NOIO) | __GFP_NOWARN;
	const unsigned int order = get_order(32768);
	struct page *page;

	if (order) {
		page = alloc_pages((gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_COMP |
				   __GFP_NORETRY, order);
		if (likely(page))
			return page;
	}
	return alloc_page(gfp);
}

void ksock_page_get(struct page *page)
{
	get_page(page);
}

void ksock_page_put(struct page *page)
{
	put_page(page);
}

size_t ksock_page_size(struct page *page)
{
	return page_size(page);
}

/* Whether the page can be reused: nobody else has a reference, and it is no reserve. */
bool ksock_page_exclusive(struct page *page)
{
	if (page_ref_count(page) != 1)
		return false;
	/* Pairs with put_page() of the last reader: it is done before the page is written again. */
	smp_acquire__after_ctrl_dep();
	return !page_is_pfmemalloc(page);
}

/* Whether the page is of the emergency reserve, which is for memory reclaim. */
bool ksock_page_of_reserve(struct page *page)
{
	return page_is_pfmemalloc(page);
}

void *ksock_page_address(struct page *page)
{
	return page_address(page);
}

/* What TCP has sent again, and what has come out of order. */
u32 ksock_retransmits(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->total_retrans);
}

u32 ksock_out_of_order(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->rcv_ooopack);
}
