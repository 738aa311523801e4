/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of memory windows have in common. */
#ifndef WINDOW_H
#define WINDOW_H

#include "vt.h"

enum {
	/* The window is a part of the buffer, and neither begins nor ends at a page. */
	SPACE = 8 * 4096, FIRST = 1000, LEN = 20000, OPLEN = 300,
	READ = IBV_ACCESS_REMOTE_READ, WRITE = IBV_ACCESS_REMOTE_WRITE,
	ACC_BIND = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
	SIGNALED = IBV_SEND_SIGNALED,
};

struct ibv_mw *window_new(struct ibv_pd *pd);
/* Binds the window with the next key, which it returns. */
uint32_t window_try_bind(struct conn *c, uint64_t id, struct ibv_mw *mw, struct ibv_mr *mr,
			 void *addr, uint64_t len, unsigned int access);
/* Binds the window to a part of the buffer. */
struct rmem window_bind(struct conn *c, struct ibv_mw *mw, struct buf *b, size_t off, size_t len,
			unsigned int access);
/* Tells the peer of the memory. */
void window_give(struct side *s, struct rmem r);
void window_invalidate(struct conn *c, uint32_t rkey, unsigned int flags);
void window_send_invalidate(struct conn *c, uint32_t rkey);
/* Writes a pattern to all of what it is given, and reads it back. */
void window_use(struct side *s, struct conn *c, struct buf *b, uint64_t seed);
/* The other end of that: what was written has come. */
void window_check(struct side *s, struct conn *c, struct buf *b, struct rmem r, uint64_t seed);
/* The connection ends in error; frees it, its buffer, and its window, if it has one. */
void window_failed(struct side *s, struct conn *c, struct ibv_mw *mw, struct buf *b);

#endif
