/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel TCP sockets for Rust: the functions that rust/net calls, and no other
 * crate. They are logic in C, where the module has inlines, macros and tracepoints
 * in C otherwise, and on purpose:
 *
 * - A socket's callbacks follow rules that the kernel keeps in inline functions
 *   and macros: the flags in sk_user_data, sk_callback_lock, what the callback
 *   that was there before must still be told. So do an skb's control block, its
 *   fragments and the cursor that walks them. In Rust each of them would be a
 *   helper of its own, unsafe, and the rule would be nowhere.
 * - A call from Rust into C is never inlined. So there is one function for a
 *   step of a connection's life or for a unit of its traffic, not one for a
 *   field.
 *
 * Nothing else touches the insides of struct sock and sk_buff: the Rust side sees
 * opaque pointers, byte ranges, fragments of pages and one table of hooks. When to
 * read, what to send and who is told is decided there.
 */
#ifndef RUST_KSOCK_KSOCK_H
#define RUST_KSOCK_KSOCK_H

#include <linux/bvec.h>
#include <linux/net.h>
#include <linux/timer.h>
#include <linux/types.h>
#include <net/net_namespace.h>
#include <net/sock.h>

struct key;

/**
 * struct ksock_hooks - the callbacks of one socket
 * @data_ready: data or FIN has arrived, or can be read now; called with the socket
 *	lock held, by TCP, by @again, and by the lock's holder at the end
 *	(ksock_look_again()). Of a listener: a connection can be accepted; called by
 *	TCP only, without its lock
 * @write_space: the send buffer has room again
 * @state_change: the TCP state changed; gets the new one
 * @error_report: TCP recorded an error; gets it as a positive errno, which stays
 *	on the socket. Or 0: TCP has released memory of others (ksock_released())
 * @busy: the socket lock's holder is using the socket; written under that lock
 * @missed: data_ready was called while @busy; written under the socket lock
 * @acked: tp->bytes_acked when TCP called write_space last, or when the hooks
 *	were attached; written under the socket lock
 * @again: calls data_ready in a while
 * @sk: the socket, for @again
 *
 * All four are called with BH disabled and sk_callback_lock read-held. The
 * saved_ members belong to socket.c: the callbacks that the socket had before.
 */
struct ksock_hooks {
	void (*data_ready)(struct ksock_hooks *hooks, struct sock *sk);
	void (*write_space)(struct ksock_hooks *hooks);
	void (*state_change)(struct ksock_hooks *hooks, int state);
	void (*error_report)(struct ksock_hooks *hooks, int err);
	bool busy;
	bool missed;
	u64 acked;
	struct timer_list again;
	struct sock *sk;
	void (*saved_data_ready)(struct sock *sk);
	void (*saved_write_space)(struct sock *sk);
	void (*saved_state_change)(struct sock *sk);
	void (*saved_error_report)(struct sock *sk);
};

struct net *ksock_net_init(void);
struct net *ksock_net_of_netdev(const struct net_device *dev);
void ksock_net_put(struct net *net);
bool ksock_net_ephemeral_port(const struct net *net, u16 port);

int ksock_create(struct net *net, int family, struct socket **res);
int ksock_accept(struct socket *listener, struct socket **res);
bool ksock_has_connection(const struct sock *listener);
void ksock_inherit(struct sock *sk, const struct sock *from);
int ksock_bind_to_device(struct sock *sk, int ifindex);
void ksock_bind_to_l3_master(struct sock *sk, int ifindex);
void ksock_share_port(struct sock *sk);
int ksock_bind(struct socket *sock, const void *addr, int len);
int ksock_bind_as_kernel(struct socket *sock, const void *addr,
			 int len);
int ksock_connect(struct socket *sock, const void *addr, int len);
int ksock_set_tos(struct socket *sock, u8 tos);
int ksock_set_v6only(struct socket *sock);
void ksock_set_rto_max(struct sock *sk, u32 ms);
int ksock_state(const struct socket *sock);
int ksock_take_error(struct socket *sock);
u32 ksock_mss(const struct sock *sk);
u16 ksock_gso_segs(const struct sock *sk);
u32 ksock_unread(const struct sock *sk);
void ksock_leave_quickack(struct sock *sk);
u32 ksock_unsent(const struct sock *sk);
u32 ksock_unacked(const struct sock *sk);
u64 ksock_bytes_acked(const struct sock *sk);
u32 ksock_last_ack_ms(const struct sock *sk);
u64 ksock_bytes_received(const struct sock *sk);
bool ksock_writable(const struct socket *sock);
struct sock *ksock_sk(const struct socket *sock);
void ksock_abort(struct socket *sock);

void ksock_lock(struct sock *sk);
void ksock_unlock(struct sock *sk);
int ksock_attach(struct sock *sk, struct ksock_hooks *hooks);
int ksock_attach_listener(struct sock *sk,
			  struct ksock_hooks *hooks);
void ksock_detach(struct sock *sk, struct ksock_hooks *hooks);
void ksock_look_again(struct sock *sk);

int ksock_read(struct sock *sk, void *ctx,
	       size_t (*chunk)(void *ctx, const u8 *data, size_t len));
u64 ksock_cookie(struct sock *sk);
u32 ksock_retransmits(const struct sock *sk);
u32 ksock_out_of_order(const struct sock *sk);
bool ksock_at_eof(const struct sock *sk);
int ksock_recv(struct socket *sock, void *buf, size_t len);
int ksock_send(struct sock *sk, const void *buf, size_t len,
	       struct page_frag *frag, int *segment_offset, bool end);
int ksock_send_pages(struct sock *sk, const struct bio_vec *pages,
		     unsigned int count, size_t len, int *segment_offset,
		     bool end);
int ksock_send_locked(struct sock *sk, const void *buf, size_t len,
		      struct page_frag *frag, int *segment_offset, bool end);
int ksock_send_pages_locked(struct sock *sk,
			    const struct bio_vec *pages,
			    unsigned int count, size_t len,
			    int *segment_offset, bool end);

bool ksock_may_refer(struct sock *sk);
struct page *ksock_page_of(const void *addr);
int ksock_send_referring(struct sock *sk, const struct bio_vec *pages,
			 unsigned int count, size_t len, bool end);
u32 ksock_referred(const struct sock *sk);
bool ksock_released(struct sock *sk, u32 *first, u32 *last);

int ksock_give_file(struct socket *sock, const char *peer);
void ksock_hold(struct sock *sk);
void ksock_put(struct sock *sk);
void ksock_release(struct socket *sock, bool asked);
int ksock_peek(struct socket *sock, u8 *byte);
int ksock_tls_handshake(struct socket *sock, bool server, struct key *keyring,
			int psk, unsigned int timeout_ms,
			void (*done)(void *data, int status, int peer), void *data);
bool ksock_tls_cancel(struct sock *sk);
void ksock_tls_done_returned(void);
bool ksock_tls_is_on(const struct sock *sk);
u16 ksock_tls_cipher(const struct sock *sk);
bool ksock_tls_is_behind(const struct sock *sk);
int ksock_tls_close_notify(struct sock *sk);
int ksock_tls_send(struct sock *sk, const void *buf, size_t len);
int ksock_tls_send_pages(struct sock *sk, const struct bio_vec *pages,
			 unsigned int count, size_t len);
int ksock_tls_recv(struct socket *sock, void *buf, size_t len, u8 *type);
int ksock_tls_read(struct sock *sk, void *ctx,
		   size_t (*chunk)(void *ctx, const u8 *data, size_t len),
		   bool *stopped);
int ksock_key_owner(int serial, u8 *buf, size_t len, bool *der);

int ksock_keyring_alloc(const char *name, struct key **res);
void ksock_keyring_free(struct key *keyring);
int ksock_keyring_list(struct key *keyring, int *serials, unsigned int n);
int ksock_psk_name(int serial, const struct sock *sk, char *buf, size_t len);

struct page *ksock_page_alloc(bool atomic);
void ksock_page_get(struct page *page);
void ksock_page_put(struct page *page);
size_t ksock_page_size(struct page *page);
bool ksock_page_exclusive(struct page *page);
bool ksock_page_of_reserve(struct page *page);
void *ksock_page_address(struct page *page);

#endif /* RUST_KSOCK_KSOCK_H */
