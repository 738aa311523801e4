// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel TCP sockets for Rust, see ksock.h: memory of others that TCP sends from.
 *
 * It is MSG_ZEROCOPY as processes have it, and not MSG_SPLICE_PAGES: whoever gave
 * the memory wants to know when he can change it. An acknowledgment does not tell
 * that: on the way to a socket of this host, a packet with such pages is received
 * as it is, and acknowledged before it is read. Packets with a notification have
 * their bytes copied there (skb_orphan_frags_rx()), so the notification comes when
 * nobody has the pages any more. Its code is the kernel's, so this module may be gone
 * by then.
 */

#include <linux/errqueue.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/sched/mm.h>
#include <linux/uio.h>
#include <net/dst.h>
#include <net/inet_connection_sock.h>
#include <net/sock.h>

#include "ksock.h"

/*
 * Whether that is sound and spares a copy. The receiver makes one if the packets do not
 * leave the host. Devices of a bus, virtio's among them, take them out of it, and others
 * may not. A probe of the path's MTU has pages without their notification
 * (tcp_clone_payload()), so there must be none.
 */
bool ksock_may_refer(struct sock *sk)
{
	const struct dst_entry *dst;
	bool may;

	if (READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_mtu_probing) ||
	    inet_csk(sk)->icsk_mtup.enabled)
		return false;
	rcu_read_lock();
	dst = __sk_dst_get(sk);
	may = dst && dst_dev_rcu(dst)->dev.parent;
	rcu_read_unlock();
	return may && READ_ONCE(sk->sk_route_caps) & NETIF_F_SG;
}

/*
 * A reference to the page that has a kernel address, or to the head of its compound
 * page; NULL if TCP cannot refer to it. @addr is mapped during the call, by one who has
 * that page and goes on having it.
 */
struct page *ksock_page_of(const void *addr)
{
	struct page *page;

	if (!virt_addr_valid(addr))
		return NULL;
	page = virt_to_page(addr);
	if (!sendpage_ok(page) || is_zone_device_page(page))
		return NULL;
	page = compound_head(page);
	get_page(page);
	return page;
}

/*
 * As ksock_send_pages(), of pages that others may change once they are told. If the
 * kernel has no memory for a notification, or the task may have no more pages pinned,
 * TCP copies the bytes.
 */
int ksock_send_referring(struct sock *sk, const struct bio_vec *pages,
			 unsigned int count, size_t len, bool end)
{
	struct msghdr msg = { .msg_flags = ksock_flags(end) | MSG_ZEROCOPY };
	int segment_offset = -1;
	unsigned int flags;
	int ret;

	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, pages, count, len);
	sock_rps_record_flow(sk);
	/* The kernel allocates the notification with GFP_KERNEL; we may serve storage. */
	flags = memalloc_noio_save();
	lock_sock(sk);
	sock_set_flag(sk, SOCK_ZEROCOPY);
	ret = ksock_copy_locked(sk, &msg, len, NULL, &segment_offset);
	if (ret == -ENOBUFS) {
		msg.msg_flags &= ~MSG_ZEROCOPY;
		ret = ksock_copy_locked(sk, &msg, len, NULL, &segment_offset);
	}
	release_sock(sk);
	memalloc_noio_restore(flags);
	return ret;
}

/* How many sends have referred to memory of others so far; wraps. */
u32 ksock_referred(const struct sock *sk)
{
	return atomic_read(&sk->sk_zckey);
}

/*
 * The next notification: the sends from @first to @last have nothing left. Each send
 * is in one of them, and they may come in another order.
 */
bool ksock_released(struct sock *sk, u32 *first, u32 *last)
{
	const struct sock_extended_err *err;
	struct sk_buff *skb;
	bool found = false;

	while (!found && (skb = sock_dequeue_err_skb(sk))) {
		err = &SKB_EXT_ERR(skb)->ee;
		found = err->ee_origin == SO_EE_ORIGIN_ZEROCOPY;
		*first = err->ee_info;
		*last = err->ee_data;
		consume_skb(skb);
	}
	return found;
}
