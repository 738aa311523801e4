// SPDX-License-Identifier: GPL-2.0
/*
 * Known failures of another driver, siw, read from files: tests that it fails, with the side on
 * which it fails them, and faults that may make any test fail, which is then retried.
 */
#include <fcntl.h>
#include <fnmatch.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

enum role { AS_ACTIVE = 1, AS_PASSIVE = 2 };

static struct known {
	char name[64];
	int roles;
	char reason[160];
	unsigned int ran, passed;	/* its tests that were run all the same */
} known[100];
static int num_known;

static struct fault {
	char name[32];
	char whose[8];			/* the side that reports it: siw's, rsiw's, or any */
	regex_t says;
} faults[20];
static int num_faults;

/* Whether the client, and the server, has that driver. */
bool known_client, known_server;
/* Tests of every @run_of-th line, from line @run_first on, are run although it fails them. */
unsigned int run_first, run_of;

static FILE *open_list(const char *file)
{
	FILE *f = fopen(file, "r");

	if (!f) {
		perror(file);
		exit(2);
	}
	return f;
}

static void __attribute__((noreturn)) bad_line(const char *file, const char *line)
{
	fprintf(stderr, "%s: %s\n", file, line);
	exit(2);
}

void read_known(const char *file)
{
	FILE *f = open_list(file);
	char line[256];

	while (fgets(line, sizeof(line), f)) {
		struct known *k = &known[num_known];
		char role[16];

		line[strcspn(line, "#\n")] = 0;
		if (sscanf(line, "%63s %15s %159[^\n]", k->name, role, k->reason) != 3)
			continue;
		k->roles = !strcmp(role, "active") ? AS_ACTIVE :
			   !strcmp(role, "passive") ? AS_PASSIVE : AS_ACTIVE | AS_PASSIVE;
		if (++num_known == ARRAY_SIZE(known))
			bad_line(file, "too many lines");
	}
	fclose(f);
}

void read_faults(const char *file)
{
	FILE *f = open_list(file);
	char line[256], says[160];

	while (fgets(line, sizeof(line), f)) {
		struct fault *one = &faults[num_faults];

		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (sscanf(line, "%31s %7s %159[^\n]", one->name, one->whose, says) != 3 ||
		    regcomp(&one->says, says, REG_EXTENDED | REG_NOSUB))
			bad_line(file, line);
		if (++num_faults == ARRAY_SIZE(faults))
			bad_line(file, "too many lines");
	}
	fclose(f);
}

/* The reason if the driver is known to fail this test, and whether the test is run all the same. */
const char *known_reason(const char *name, bool reverse, bool *run)
{
	int i, roles = 0;

	if (known_client)
		roles |= reverse ? AS_PASSIVE : AS_ACTIVE;
	if (known_server)
		roles |= reverse ? AS_ACTIVE : AS_PASSIVE;
	for (i = 0; i < num_known; i++) {
		if (!(known[i].roles & roles) || fnmatch(known[i].name, name, 0))
			continue;
		/* Tests whose reason begins with '!' must never run. */
		*run = run_of && i % run_of == run_first && known[i].reason[0] != '!';
		return known[i].reason + (known[i].reason[0] == '!');
	}
	return NULL;
}

/* Records that a test with this reason was run (several times, if it passed). */
void known_ran(const char *reason, bool passed)
{
	struct known *k = (void *)(reason - offsetof(struct known, reason));

	k->ran++;
	k->passed += passed;
}

/* Marks lines whose tests all passed. tools/vm-run shows these marks in its summary. */
void tell_stale(void)
{
	int i;

	for (i = 0; i < num_known; i++)
		if (known[i].ran && known[i].passed == known[i].ran)
			printf("# STALE %.*s: known to fail (%s), and passes\n",
			       (int)strcspn(known[i].name, "*["), known[i].name, known[i].reason);
}

/*
 * The fault that excuses this failure, or NULL. No fault excuses wrong data.
 */
const char *excuse(const struct result *r)
{
	static const char *const never[] = {
		"bytes wrong", "is not what", "mark 0x", "bytes, not", "opcode",
	};
	const char *siw = known_client ? r->own : r->peer, *rsiw = known_client ? r->peer : r->own;
	size_t i;
	int n;

	for (i = 0; i < ARRAY_SIZE(never); i++)
		if (strstr(r->own, never[i]) || strstr(r->peer, never[i]))
			return NULL;
	for (n = 0; n < num_faults; n++) {
		const struct fault *f = &faults[n];

		if ((strcmp(f->whose, "rsiw") && !regexec(&f->says, siw, 0, NULL, 0)) ||
		    (strcmp(f->whose, "siw") && !regexec(&f->says, rsiw, 0, NULL, 0)))
			return f->name;
	}
	return NULL;
}

/*
 * Evidence that a failing side adds to its message. A signal handler may call these functions, so
 * they use neither stdio nor allocation.
 */
static size_t slurp(const char *path, char *to, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t got = 1;

	while (fd >= 0 && len < size - 1 && (got = read(fd, to + len, size - 1 - len)) > 0)
		len += got;
	if (fd >= 0)
		close(fd);
	to[len] = 0;
	return len;
}

/* The number of CRC errors that the driver has counted; 0 if it does not count them. */
unsigned long crc_errors(const struct side *s)
{
	char path[160], text[32];

	if (!s->ctx)
		return 0;
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/rx_crc_errors",
		 ibv_get_device_name(s->ctx->device));
	slurp(path, text, sizeof(text));
	return strtoul(text, NULL, 10);
}

/* Bytes that nobody has read from sockets of open connections, except the out-of-band one. */
unsigned long unread(const struct side *s)
{
	static const char *const tables[] = { "/proc/net/tcp", "/proc/net/tcp6" };
	static char text[1 << 18];
	unsigned int own = port_of((const struct sockaddr *)&s->local);
	unsigned int peers = port_of((const struct sockaddr *)&s->peer);
	unsigned int from, to, state;
	unsigned long sum = 0, bytes;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(tables); i++) {
		char *line = text;

		slurp(tables[i], text, sizeof(text));
		for (; *line; line += strcspn(line, "\n"), line += *line == '\n') {
			if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%x %x %*x:%lx",
				   &from, &to, &state, &bytes) != 4)
				continue;
			/* State 10 is LISTEN, where the number is that of waiting connections. */
			if (state != 10 && !(from == own && to == peers))
				sum += bytes;
		}
	}
	return sum;
}
