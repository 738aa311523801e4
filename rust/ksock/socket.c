// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel TCP sockets for Rust, see ksock.h: making sockets, their callbacks, and
 * receiving.
 */

#include <linux/bpf-cgroup.h>
#include <linux/netdevice.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <linux/uio.h>
#include <net/inet_sock.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/route.h>
#include <net/tcp.h>
#include <trace/events/sock.h>

#include "ksock.h"

/* Network namespaces */

struct net *rust_helper_ksock_net_init(void)
{
	return get_net(&init_net);
}

struct net *rust_helper_ksock_net_of_netdev(const struct net_device *dev)
{
	struct net *net;

	/* The device may move meanwhile; a namespace's memory stays for a grace period. */
	rcu_read_lock();
	net = maybe_get_net(dev_net_rcu(dev));
	rcu_read_unlock();
	return net;
}

void rust_helper_ksock_net_put(struct net *net)
{
	put_net(net);
}

/* The range that connect() picks from, read as inet_get_local_port_range() does. */
bool rust_helper_ksock_net_ephemeral_port(const struct net *net, u16 port)
{
	u32 range = READ_ONCE(net->ipv4.ip_local_ports.range);

	return port >= (range & 0xffff) && port <= (range >> 16);
}

/* Making sockets */

/*
 * Sending must never wait for I/O: storage may be reached through this very
 * connection. For the same reason this socket does not use the page fragment of
 * the current task: the task may be in the middle of a send of its own, and
 * have come here because that needs memory.
 *
 * There is no sk_set_memalloc(): it would let every consumer's traffic use the
 * emergency reserves, and the socket cannot know whose traffic it carries.
 */
static void ksock_tune(struct sock *sk)
{
	sk->sk_allocation = GFP_NOIO;
	sk->sk_use_task_frag = false;
	tcp_sock_set_nodelay(sk);
}

/*
 * Returns 1 if programs of a cgroup were asked, which are to be told of the
 * socket's end, too.
 */
int rust_helper_ksock_create(struct net *net, int family, struct socket **res)
{
	bool asks = !(current->flags & PF_KTHREAD);
	struct socket *sock;
	int ret;

	ret = sock_create_kern(net, family, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (ret)
		return ret;

	/*
	 * The socket belongs to the cgroup of the caller. If that is a process,
	 * programs of its cgroup may forbid the socket, mark it, or restrict it
	 * to an interface, as they may a socket of the process' own.
	 */
	if (asks) {
		ret = BPF_CGROUP_RUN_PROG_INET_SOCK(sock->sk);
		if (ret) {
			sock_release(sock);
			return ret;
		}
	}

	/*
	 * The socket counts its namespace: only such sockets may finish their
	 * FIN handshake after they were released (see __tcp_close()).
	 */
	sk_net_refcnt_upgrade(sock->sk);
	sock_set_reuseaddr(sock->sk);
	ksock_tune(sock->sk);
	*res = sock;
	return asks;
}

/*
 * Gives a socket that takes the place of another one what the other has of its
 * maker, except the cgroup.
 */
void rust_helper_ksock_inherit(struct sock *sk, const struct sock *from)
{
	lock_sock(sk);
	WRITE_ONCE(sk->sk_bound_dev_if, READ_ONCE(from->sk_bound_dev_if));
	WRITE_ONCE(sk->sk_mark, READ_ONCE(from->sk_mark));
	WRITE_ONCE(sk->sk_priority, READ_ONCE(from->sk_priority));
	WRITE_ONCE(sk->sk_uid, READ_ONCE(from->sk_uid));
	release_sock(sk);
}

/*
 * Restricts a socket that is not bound yet to an interface. If it is restricted
 * already, by a program of its cgroup, to the interface or the interface's L3
 * master, that becomes narrower; to another interface, it stays and this fails.
 */
int rust_helper_ksock_bind_to_device(struct sock *sk, int ifindex)
{
	struct net *net = sock_net(sk);
	int ret = 0, old;

	lock_sock(sk);
	old = sk->sk_bound_dev_if;
	if (old && old != ifindex &&
	    old != l3mdev_master_ifindex_by_index(net, ifindex))
		ret = -EADDRNOTAVAIL;
	else
		WRITE_ONCE(sk->sk_bound_dev_if, ifindex);
	release_sock(sk);
	return ret;
}

/*
 * Restricts a socket that is not bound yet to the L3 master of an interface, if
 * there is one and the socket is not restricted already.
 */
void rust_helper_ksock_bind_to_l3_master(struct sock *sk, int ifindex)
{
	int master = l3mdev_master_ifindex_by_index(sock_net(sk), ifindex);

	lock_sock(sk);
	if (!sk->sk_bound_dev_if)
		WRITE_ONCE(sk->sk_bound_dev_if, master);
	release_sock(sk);
}

void rust_helper_ksock_share_port(struct sock *sk)
{
	lock_sock(sk);
	sk->sk_reuse = SK_FORCE_REUSE;
	release_sock(sk);
}

int rust_helper_ksock_bind(struct socket *sock, const void *addr, int len)
{
	return kernel_bind(sock, (struct sockaddr_unsized *)addr, len);
}

int rust_helper_ksock_connect(struct socket *sock, const void *addr, int len)
{
	return kernel_connect(sock, (struct sockaddr_unsized *)addr, len,
			      O_NONBLOCK);
}

int rust_helper_ksock_set_tos(struct socket *sock, u8 tos)
{
	int val = tos;

	sock_set_priority(sock->sk, rt_tos2priority(tos));
	if (sock->sk->sk_family == AF_INET6)
		return sock->ops->setsockopt(sock, SOL_IPV6, IPV6_TCLASS,
					     KERNEL_SOCKPTR(&val), sizeof(val));
	ip_sock_set_tos(sock->sk, tos);
	return 0;
}

int rust_helper_ksock_set_v6only(struct socket *sock)
{
	return ip6_sock_set_v6only(sock->sk);
}

/* Looking at sockets */

struct sock *rust_helper_ksock_sk(const struct socket *sock)
{
	return sock->sk;
}

int rust_helper_ksock_state(const struct socket *sock)
{
	return inet_sk_state_load(sock->sk);
}

int rust_helper_ksock_take_error(struct socket *sock)
{
	return sock_error(sock->sk);
}

u32 rust_helper_ksock_mss(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->mss_cache);
}

/* Segments of the largest packet that TCP makes; 0 if TCP does not know yet. */
u16 rust_helper_ksock_gso_segs(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->gso_segs);
}

/* Octets that were received and not read. Call it with the socket locked. */
u32 rust_helper_ksock_unread(const struct sock *sk)
{
	return tcp_sk(sk)->rcv_nxt - tcp_sk(sk)->copied_seq;
}

/* What TCP_QUICKACK of 0 does. Call it with the socket locked. */
void rust_helper_ksock_leave_quickack(struct sock *sk)
{
	inet_csk_enter_pingpong_mode(sk);
}

/* Octets that TCP was given and has not sent, as of a moment ago. */
u32 rust_helper_ksock_unsent(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->write_seq) - READ_ONCE(tcp_sk(sk)->snd_nxt);
}

u64 rust_helper_ksock_bytes_acked(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->bytes_acked);
}

u32 rust_helper_ksock_last_ack_ms(const struct sock *sk)
{
	return jiffies_to_msecs(tcp_jiffies32 - READ_ONCE(tcp_sk(sk)->rcv_tstamp));
}

u64 rust_helper_ksock_bytes_received(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->bytes_received);
}

bool rust_helper_ksock_writable(const struct socket *sock)
{
	return sk_stream_is_writeable(sock->sk);
}

void rust_helper_ksock_abort(struct socket *sock)
{
	tcp_abort(sock->sk, ECONNABORTED);
}

/* The socket lock and the callbacks */

void rust_helper_ksock_lock(struct sock *sk)
{
	lock_sock(sk);
}

void rust_helper_ksock_unlock(struct sock *sk)
{
	release_sock(sk);
}

/*
 * sk_user_data points to the hooks. It is marked NOCOPY, so that the children
 * of a listener start without. Call this with sk_callback_lock held.
 */
static struct ksock_hooks *ksock_hooks(const struct sock *sk)
{
	return __locked_read_sk_user_data_with_flags(sk,
						     SK_USER_DATA_NOCOPY);
}

static void ksock_data_ready(struct sock *sk)
{
	struct ksock_hooks *hooks;

	trace_sk_data_ready(sk);
	sock_owned_by_me(sk);

	read_lock_bh(&sk->sk_callback_lock);
	hooks = ksock_hooks(sk);
	/*
	 * TCP calls this with the socket locked. The Rust side relies on that:
	 * it gives the callee exclusive access to the data that the lock
	 * guards. TCP may also call it out of a function that the lock's holder
	 * calls (a send may process the backlog); the holder then looks again
	 * afterwards.
	 */
	if (hooks && hooks->busy) {
		hooks->missed = true;
	} else if (hooks) {
		hooks->busy = true;
		do {
			hooks->missed = false;
			hooks->data_ready(hooks, sk);
		} while (hooks->missed);
		hooks->busy = false;
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

/* For the lock's holder, if TCP called data_ready while it was busy. */
void rust_helper_ksock_look_again(struct sock *sk)
{
	ksock_data_ready(sk);
}

#define KSOCK_AGAIN (HZ / 50)

static void ksock_again(struct timer_list *timer)
{
	struct ksock_hooks *hooks = timer_container_of(hooks, timer, again);
	struct sock *sk = hooks->sk;

	bh_lock_sock(sk);
	if (sock_owned_by_user(sk))
		mod_timer(timer, jiffies + KSOCK_AGAIN);
	else
		ksock_data_ready(sk);
	bh_unlock_sock(sk);
}

/* Has data_ready called in a while, if there are hooks. Call this with the socket locked. */
static void ksock_look_later(struct sock *sk)
{
	struct ksock_hooks *hooks;

	sock_owned_by_me(sk);
	read_lock_bh(&sk->sk_callback_lock);
	hooks = ksock_hooks(sk);
	if (hooks)
		mod_timer(&hooks->again, jiffies + KSOCK_AGAIN);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void ksock_write_space(struct sock *sk)
{
	struct ksock_hooks *hooks;

	sock_owned_by_me(sk);

	read_lock_bh(&sk->sk_callback_lock);
	hooks = ksock_hooks(sk);
	if (hooks) {
		/* This clears SOCK_NOSPACE if there is room, so look first. */
		bool writable = sk_stream_is_writeable(sk);
		u64 acked = tcp_sk(sk)->bytes_acked;

		/*
		 * TCP also calls this out of a send that has found no memory
		 * while nothing was queued. There is no more room than the
		 * sender knows of, and it would try again at once, without
		 * end. A queue that has become empty since the last call was
		 * acknowledged.
		 */
		if (acked == hooks->acked && tcp_rtx_and_write_queues_empty(sk))
			writable = false;
		hooks->acked = acked;
		hooks->saved_write_space(sk);
		if (writable)
			hooks->write_space(hooks);
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

static void ksock_state_change(struct sock *sk)
{
	struct ksock_hooks *hooks;

	read_lock_bh(&sk->sk_callback_lock);
	hooks = ksock_hooks(sk);
	if (hooks) {
		hooks->saved_state_change(sk);
		hooks->state_change(hooks, inet_sk_state_load(sk));
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

static void ksock_error_report(struct sock *sk)
{
	struct ksock_hooks *hooks;

	read_lock_bh(&sk->sk_callback_lock);
	hooks = ksock_hooks(sk);
	if (hooks) {
		hooks->saved_error_report(sk);
		hooks->error_report(hooks, READ_ONCE(sk->sk_err));
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

/*
 * TCP calls a listener's callback with the child's lock held, not the
 * listener's, and on several CPUs at once. A child that was not accepted yet
 * has this callback, too, but no hooks.
 */
static void ksock_listen_ready(struct sock *sk)
{
	struct ksock_hooks *hooks;

	trace_sk_data_ready(sk);

	read_lock_bh(&sk->sk_callback_lock);
	hooks = ksock_hooks(sk);
	if (hooks)
		hooks->data_ready(hooks, sk);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void ksock_save(struct sock *sk, struct ksock_hooks *hooks)
{
	hooks->saved_data_ready = sk->sk_data_ready;
	hooks->saved_write_space = sk->sk_write_space;
	hooks->saved_state_change = sk->sk_state_change;
	hooks->saved_error_report = sk->sk_error_report;
	hooks->acked = tcp_sk(sk)->bytes_acked;
	hooks->sk = sk;
	timer_setup(&hooks->again, ksock_again, 0);
	__rcu_assign_sk_user_data_with_flags(sk, hooks, SK_USER_DATA_NOCOPY);
}

/* Call this and the next two with the socket lock held. */
int rust_helper_ksock_attach(struct sock *sk, struct ksock_hooks *hooks)
{
	int ret = -EBUSY;

	sock_owned_by_me(sk);
	write_lock_bh(&sk->sk_callback_lock);
	if (!sk->sk_user_data) {
		ksock_save(sk, hooks);
		sk->sk_data_ready = ksock_data_ready;
		sk->sk_write_space = ksock_write_space;
		sk->sk_state_change = ksock_state_change;
		sk->sk_error_report = ksock_error_report;
		ret = 0;
	}
	write_unlock_bh(&sk->sk_callback_lock);
	return ret;
}

int rust_helper_ksock_attach_listener(struct sock *sk,
				      struct ksock_hooks *hooks)
{
	int ret = -EBUSY;

	write_lock_bh(&sk->sk_callback_lock);
	if (!sk->sk_user_data) {
		ksock_save(sk, hooks);
		sk->sk_data_ready = ksock_listen_ready;
		ret = 0;
	}
	write_unlock_bh(&sk->sk_callback_lock);
	return ret;
}

/*
 * With the write lock held no callback is running, and those that begin later
 * find no hooks. The timer, which is set under the socket lock, is not set again:
 * the caller may free them on return.
 */
void rust_helper_ksock_detach(struct sock *sk, struct ksock_hooks *hooks)
{
	sock_owned_by_me(sk);
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_data_ready = hooks->saved_data_ready;
	sk->sk_write_space = hooks->saved_write_space;
	sk->sk_state_change = hooks->saved_state_change;
	sk->sk_error_report = hooks->saved_error_report;
	rcu_assign_sk_user_data(sk, NULL);
	write_unlock_bh(&sk->sk_callback_lock);
	timer_shutdown_sync(&hooks->again);
}

/*
 * A child begins as a copy of its listener, including the callback. It gets the
 * callback that the listener had before.
 */
int rust_helper_ksock_accept(struct socket *listener, struct socket **res)
{
	void (*data_ready)(struct sock *sk);
	struct ksock_hooks *hooks;
	struct sock *sk;
	int ret;

	ret = kernel_accept(listener, res, O_NONBLOCK);
	if (ret)
		return ret;

	sk = listener->sk;
	read_lock_bh(&sk->sk_callback_lock);
	hooks = ksock_hooks(sk);
	data_ready = hooks ? hooks->saved_data_ready : sk->sk_data_ready;
	read_unlock_bh(&sk->sk_callback_lock);

	sk = (*res)->sk;
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_data_ready = data_ready;
	write_unlock_bh(&sk->sk_callback_lock);
	ksock_tune(sk);
	return 0;
}

/* Whether a connection can be accepted from a listener. */
bool rust_helper_ksock_has_connection(const struct sock *listener)
{
	return !reqsk_queue_empty(&inet_csk(listener)->icsk_accept_queue);
}

/* Receiving */

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

int rust_helper_ksock_read(struct sock *sk, void *ctx,
			   size_t (*chunk)(void *ctx, const u8 *data,
					   size_t len))
{
	struct ksock_reader reader = { .ctx = ctx, .chunk = chunk };
	read_descriptor_t desc = { .count = 1 };
	int ret;

	/* The octets are another's, TLS' for one. */
	if (unlikely(inet_csk(sk)->icsk_ulp_ops))
		return -EINVAL;

	desc.arg.data = &reader;
	ret = tcp_read_sock(sk, &desc, ksock_read_skb);

	/* Urgent data has no place in the stream, and would stop it for good. */
	if (ret >= 0 && unlikely(tcp_sk(sk)->urg_data))
		return -EPROTO;
	return ret;
}

/* Makes the cookie if nobody has asked for it before. */
u64 rust_helper_ksock_cookie(struct sock *sk)
{
	u32 halves[2];

	sock_diag_save_cookie(sk, halves);
	return (u64)halves[1] << 32 | halves[0];
}

bool rust_helper_ksock_at_eof(const struct sock *sk)
{
	return skb_queue_empty(&sk->sk_receive_queue) &&
	       (sk->sk_shutdown & RCV_SHUTDOWN || sk->sk_state == TCP_CLOSE);
}

int rust_helper_ksock_recv(struct socket *sock, void *buf, size_t len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec = { .iov_base = buf, .iov_len = len };

	return kernel_recvmsg(sock, &msg, &vec, 1, len, msg.msg_flags);
}
