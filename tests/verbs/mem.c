// SPDX-License-Identifier: GPL-2.0
/*
 * Buffers with a model, a second buffer with the expected content. Verifying
 * compares the whole buffer, so it finds bytes placed outside of their target,
 * too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vt.h"

/* splitmix64: any seed is good, and a counter is its only state. */
static uint64_t scramble(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint64_t mix(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return scramble(*state);
}

uint64_t below(uint64_t *state, uint64_t limit)
{
	return mix(state) % limit;
}

/* A pattern that repeats nowhere, so that misplaced bytes are found. */
void fill(uint8_t *p, size_t len, uint64_t seed)
{
	uint64_t state = scramble(seed ^ 0x6a09e667f3bcc908ull), word;

	while (len >= sizeof(word)) {
		word = mix(&state);
		memcpy(p, &word, sizeof(word));
		p += sizeof(word);
		len -= sizeof(word);
	}
	word = mix(&state);
	memcpy(p, &word, len);
}

void buf_map(struct buf *b, size_t len)
{
	memset(b, 0, sizeof(*b));
	b->len = len;
	b->p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(b->p != MAP_FAILED, "no memory for %zu bytes", len);
	b->model = malloc(len);
	CHECK(b->model, "no memory for %zu bytes", len);
	/* Each buffer has another background, so that misplaced bytes of it are found. */
	fill(b->p, len, (uintptr_t)b->p ^ (uint64_t)getpid() << 40);
	memcpy(b->model, b->p, len);
}

void buf_new(struct side *s, struct buf *b, size_t len, int access)
{
	buf_map(b, len);
	b->mr = ibv_reg_mr(s->pd, b->p, len, access);
	CHECK(b->mr, "ibv_reg_mr of %zu bytes: errno %d", len, errno);
}

void buf_free(struct buf *b)
{
	if (b->mr)
		CALL(ibv_dereg_mr(b->mr));
	munmap(b->p, b->len);
	free(b->model);
	memset(b, 0, sizeof(*b));
}

/* Writes the pattern to the buffer and its model. */
void buf_fill(struct buf *b, size_t off, size_t len, uint64_t seed)
{
	fill(b->p + off, len, seed);
	memcpy(b->model + off, b->p + off, len);
}

/* Writes the pattern to the model only: the other side is to place it in the buffer. */
void buf_expect(struct buf *b, size_t off, size_t len, uint64_t seed)
{
	fill(b->model + off, len, seed);
}

void buf_verify_at(const char *file, int line, struct buf *b, const char *what)
{
	size_t i, first = 0, last = 0, wrong = 0;

	if (!memcmp(b->p, b->model, b->len))
		return;
	for (i = 0; i < b->len; i++) {
		if (b->p[i] == b->model[i])
			continue;
		if (!wrong++)
			first = i;
		last = i;
	}
	fail_at(file, line, "%s: %zu of %zu bytes wrong, %zu..%zu; first is %02x, not %02x",
		what, wrong, b->len, first, last, b->p[first], b->model[first]);
}

struct ibv_sge sge_of(struct buf *b, size_t off, size_t len)
{
	return (struct ibv_sge) {
		.addr = (uintptr_t)b->p + off, .length = len, .lkey = b->mr->lkey,
	};
}

void give_rmem(struct side *s, struct buf *b)
{
	struct rmem r = {
		.addr = (uintptr_t)b->p, .rkey = b->mr->rkey, .len = b->len,
	};

	oob_send(s, &r, sizeof(r));
}

struct rmem take_rmem(struct side *s)
{
	struct rmem r;

	oob_recv(s, &r, sizeof(r));
	return r;
}
