/* SPDX-License-Identifier: GPL-2.0 */
/* For programs of two processes, a server and a client, that tell each other of their queue pairs. */
#include <netdb.h>
#include <unistd.h>

#include "rc.h"

#define PORT "18530"

/* The connection with the other process: the server's, if no server is named. */
static inline int dial(const char *server)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = server ? 0 : AI_PASSIVE }, *at;
	int fd, listener, on = 1;

	if (getaddrinfo(server, PORT, &hints, &at))
		fail("address");
	fd = socket(at->ai_family, SOCK_STREAM, 0);
	if (server) {
		if (connect(fd, at->ai_addr, at->ai_addrlen))
			fail("connect");
		return fd;
	}
	listener = fd;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, at->ai_addr, at->ai_addrlen) || listen(listener, 1))
		fail("listen");
	fd = accept(listener, NULL, NULL);
	close(listener);
	return fd;
}

/* Both processes call it. */
static inline void swap(int fd, const void *out, void *in, size_t len)
{
	size_t got = 0;
	ssize_t n;

	if (write(fd, out, len) != (ssize_t)len)
		fail("write");
	for (; got < len; got += n) {
		n = read(fd, (char *)in + got, len - got);
		if (n <= 0)
			fail("the other process");
	}
}
