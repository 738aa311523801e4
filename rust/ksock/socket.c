// SPDX-License-Identifier: GPL-2.0
/* Kernel TCP sockets for Rust, see ksock.h: making sockets, and what they tell of themselves. */

#include <linux/bpf-cgroup.h>
#include <linux/netdevice.h>
#include <linux/sched.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <net/inet_sock.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/route.h>
#include <net/tcp.h>

#include "ksock.h"

/* Network namespaces */

struct net *ksock_net_init(void)
{
	return get_net(&init_net);
}

struct net *ksock_net_of_netdev(const struct net_device *dev)
{
	struct net *net;

	/* The device may move meanwhile; a namespace's memory stays for a grace period. */
	rcu_read_lock();
	net = maybe_get_net(dev_net_rcu(dev));
	rcu_read_unlock();
	return net;
}

void ksock_net_put(struct net *net)
{
	put_net(net);
}

/* The range that connect() picks from, read as inet_get_local_port_range() does. */
bool ksock_net_ephemeral_port(const struct net *net, u16 port)
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
int ksock_create(struct net *net, int family, struct socket **res)
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
void ksock_inherit(struct sock *sk, const struct sock *from)
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
int ksock_bind_to_device(struct sock *sk, int ifindex)
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
void ksock_bind_to_l3_master(struct sock *sk, int ifindex)
{
	int master = l3mdev_master_ifindex_by_index(sock_net(sk), ifindex);

	lock_sock(sk);
	if (!sk->sk_bound_dev_if)
		WRITE_ONCE(sk->sk_bound_dev_if, master);
	release_sock(sk);
}

void ksock_share_port(struct sock *sk)
{
	lock_sock(sk);
	sk->sk_reuse = SK_FORCE_REUSE;
	release_sock(sk);
}

int ksock_bind(struct socket *sock, const void *addr, int len)
{
	return kernel_bind(sock, (struct sockaddr_unsized *)addr, len);
}

int ksock_bind_as_kernel(struct socket *sock, const void *addr,
			 int len)
{
	int ret = -EACCES;

	scoped_with_kernel_creds()
		ret = ksock_bind(sock, addr, len);
	return ret;
}

int ksock_connect(struct socket *sock, const void *addr, int len)
{
	return kernel_connect(sock, (struct sockaddr_unsized *)addr, len,
			      O_NONBLOCK);
}

int ksock_set_tos(struct socket *sock, u8 tos)
{
	int val = tos;

	sock_set_priority(sock->sk, rt_tos2priority(tos));
	if (sock->sk->sk_family == AF_INET6)
		return sock->ops->setsockopt(sock, SOL_IPV6, IPV6_TCLASS,
					     KERNEL_SOCKPTR(&val), sizeof(val));
	ip_sock_set_tos(sock->sk, tos);
	return 0;
}

int ksock_set_v6only(struct socket *sock)
{
	return ip6_sock_set_v6only(sock->sk);
}

/* TCP_RTO_MAX_MS, without its limits, and no longer than the administrator lets it be. */
void ksock_set_rto_max(struct sock *sk, u32 ms)
{
	u32 most = READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_rto_max_ms);

	ms = min(ms, most);
	WRITE_ONCE(inet_csk(sk)->icsk_rto_max, msecs_to_jiffies(ms));
}

/* Looking at sockets */

struct sock *ksock_sk(const struct socket *sock)
{
	return sock->sk;
}

int ksock_state(const struct socket *sock)
{
	return inet_sk_state_load(sock->sk);
}

int ksock_take_error(struct socket *sock)
{
	return sock_error(sock->sk);
}

u32 ksock_mss(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->mss_cache);
}

/* Segments of the largest packet that TCP makes; 0 if TCP does not know yet. */
u16 ksock_gso_segs(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->gso_segs);
}

/* Bytes that TCP was given and has not sent, as of a moment ago. */
u32 ksock_unsent(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->write_seq) - READ_ONCE(tcp_sk(sk)->snd_nxt);
}

/* Bytes that TCP was given and the peer has not acknowledged, as of a moment ago. */
u32 ksock_unacked(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->write_seq) - READ_ONCE(tcp_sk(sk)->snd_una);
}

u64 ksock_bytes_acked(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->bytes_acked);
}

u32 ksock_last_ack_ms(const struct sock *sk)
{
	return jiffies_to_msecs(tcp_jiffies32 - READ_ONCE(tcp_sk(sk)->rcv_tstamp));
}

/* Makes the cookie if nobody has asked for it before. */
u64 ksock_cookie(struct sock *sk)
{
	u32 halves[2];

	sock_diag_save_cookie(sk, halves);
	return (u64)halves[1] << 32 | halves[0];
}

u64 ksock_bytes_received(const struct sock *sk)
{
	return READ_ONCE(tcp_sk(sk)->bytes_received);
}

bool ksock_writable(const struct socket *sock)
{
	return sk_stream_is_writeable(sock->sk);
}

void ksock_abort(struct socket *sock)
{
	tcp_abort(sock->sk, ECONNABORTED);
}

/* Accepting */

/*
 * A child begins as a copy of its listener, including the callback. It gets the
 * callback that the listener had before.
 */
int ksock_accept(struct socket *listener, struct socket **res)
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
bool ksock_has_connection(const struct sock *listener)
{
	return !reqsk_queue_empty(&inet_csk(listener)->icsk_accept_queue);
}
