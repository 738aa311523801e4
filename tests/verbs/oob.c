// SPDX-License-Identifier: GPL-2.0
/*
 * The out-of-band connection of the two sides: framed messages over plain TCP.
 * A side that fails reports it here, and so ends the other side's wait for data.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "vt.h"

struct oob_head {
	uint32_t type;
	uint32_t len;
};

static struct addrinfo *look_up(const char *addr, const char *port, int flags)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICHOST,
	};
	struct addrinfo *res;
	int rv;

	rv = getaddrinfo(addr, port, &hints, &res);
	if (rv) {
		fprintf(stderr, "%s port %s: %s\n", addr, port, gai_strerror(rv));
		return NULL;
	}
	return res;
}

int oob_listen(const char *addr, const char *port)
{
	struct addrinfo *ai = look_up(addr, port, AI_PASSIVE);
	int fd, one = 1;

	if (!ai)
		return -1;
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 16)) {
		perror(addr);
		return -1;
	}
	freeaddrinfo(ai);
	return fd;
}

int oob_connect(const char *addr, const char *port)
{
	struct addrinfo *ai = look_up(addr, port, 0);
	int fd, one = 1;

	if (!ai)
		return -1;
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, ai->ai_addr, ai->ai_addrlen)) {
		if (fd >= 0)
			close(fd);
		fd = -1;
	} else {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	freeaddrinfo(ai);
	return fd;
}

bool oob_put(int fd, enum oob_type type, const void *data, size_t len)
{
	struct oob_head head = { .type = type, .len = len };
	struct iovec iov[2] = {
		{ .iov_base = &head, .iov_len = sizeof(head) },
		{ .iov_base = (void *)data, .iov_len = len },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	/* Messages are far smaller than the socket's buffer. */
	return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)(sizeof(head) + len);
}

static bool get_all(int fd, void *data, size_t len)
{
	ssize_t got;

	while (len) {
		got = recv(fd, data, len, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		data = (char *)data + got;
		len -= got;
	}
	return true;
}

/* Returns the message's type, or -1 at the end of the connection. */
int oob_get(int fd, void *data, size_t size, size_t *len)
{
	struct oob_head head;

	if (!get_all(fd, &head, sizeof(head)) || head.len > size ||
	    !get_all(fd, data, head.len))
		return -1;
	*len = head.len;
	return head.type;
}

void oob_send(struct side *s, const void *data, size_t len)
{
	CHECK(oob_put(s->oob, OOB_DATA, data, len), "the other side is gone");
}

void oob_recv(struct side *s, void *data, size_t len)
{
	char got[512];
	size_t n = 0;
	int type = oob_get(s->oob, got, sizeof(got) - 1, &n);

	got[n] = 0;
	switch (type) {
	case OOB_DATA:
		CHECK(n == len, "the sides are out of step: %zu bytes for %zu", n, len);
		memcpy(data, got, len);
		return;
	case OOB_SKIP:
		skip("%s", got);
	case OOB_FAIL:
		fail_with_peer(got);
	case OOB_PASS:
		fail("the other side is done already");
	default:
		fail("the other side died");
	}
}

void sync_sides(struct side *s)
{
	char c = 's';

	oob_send(s, &c, 1);
	oob_recv(s, &c, 1);
	CHECK(c == 's', "the sides are out of step");
}
