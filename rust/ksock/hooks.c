// SPDX-License-Identifier: GPL-2.0
/* Kernel TCP sockets for Rust, see ksock.h: the socket lock and the callbacks. */

#include <linux/tcp.h>
#include <linux/timer.h>
#include <net/tcp.h>
#include <trace/events/sock.h>

#include "ksock.h"

void ksock_lock(struct sock *sk)
{
	lock_sock(sk);
}

void ksock_unlock(struct sock *sk)
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
void ksock_look_again(struct sock *sk)
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

/*
 * This one and the next pass a number, which needs no lock. The kernel calls
 * the next without it, too, when it has queued an error message.
 */
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
int ksock_attach(struct sock *sk, struct ksock_hooks *hooks)
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

int ksock_attach_listener(struct sock *sk,
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
void ksock_detach(struct sock *sk, struct ksock_hooks *hooks)
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
