// SPDX-License-Identifier: GPL-2.0
/*
 * peer COMMAND...: runs a command on the other guest, prints its output, and exits with
 * its status. If peer is killed, the command is killed, too.
 *
 * peer sends the agent of this guest the length of all words, and then the words, each
 * ended by a NUL. The agent answers with records: a kind ('o' output, 'x' exit), a
 * length or status in network order, and the data.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define AGENT "/run/rsiw/peer"

static void give_up(const char *what)
{
	fprintf(stderr, "peer: %s\n", what);
	exit(125);
}

static void put(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n <= 0)
			give_up("cannot write");
		at += n;
		len -= n;
	}
}

static void get(int fd, void *data, size_t len)
{
	char *at = data;

	while (len) {
		ssize_t n = read(fd, at, len);

		if (n <= 0)
			give_up("the agent has gone");
		at += n;
		len -= n;
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = AGENT };
	static char buf[65536];
	uint32_t len = 0, number;
	int fd, i;
	char kind;

	if (argc < 2)
		give_up("usage: peer COMMAND...");
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		give_up("no agent");

	for (i = 1; i < argc; i++)
		len += strlen(argv[i]) + 1;
	number = htonl(len);
	put(fd, &number, sizeof(number));
	for (i = 1; i < argc; i++)
		put(fd, argv[i], strlen(argv[i]) + 1);

	for (;;) {
		get(fd, &kind, 1);
		get(fd, &number, sizeof(number));
		number = ntohl(number);
		if (kind == 'x')
			return number;
		while (number) {
			len = number < sizeof(buf) ? number : sizeof(buf);
			get(fd, buf, len);
			put(STDOUT_FILENO, buf, len);
			number -= len;
		}
	}
}
