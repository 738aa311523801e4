// SPDX-License-Identifier: GPL-2.0
/*
 * The process of one side for one test: its time limit, and the way of its
 * verdict to the other side and to the process that prints it. A test that
 * passes must destroy all its objects itself, which is part of the test. After
 * one that fails the kernel cleans up.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "vt.h"

enum { USUAL_SECONDS = 60 };
enum { USUAL_WAIT = 15000, HASTY_WAIT = 5000 };

static struct side *side;
static int verdict_fd;
static unsigned int limit;
static struct result result;
static unsigned long crc_errors_before;

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ull + ts.tv_nsec / 1000000;
}

void sleep_ms(unsigned int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static void __attribute__((noreturn)) tell(int verdict)
{
	result.verdict = verdict;
	if (verdict_fd >= 0 &&
	    write(verdict_fd, &result, sizeof(result)) != sizeof(result))
		_exit(3);
	if (verdict_fd < 0 && verdict == V_FAIL)
		fprintf(stderr, "server: %s\n", result.own);
	_exit(verdict == V_FAIL);
}

/* The other side's verdict. Skips data that it sent before. */
static int other_verdict(unsigned int seconds)
{
	struct timeval tv = { .tv_sec = seconds };
	char got[sizeof(result.peer)];
	size_t len;
	int type;

	setsockopt(side->oob, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	do {
		len = 0;
		type = oob_get(side->oob, got, sizeof(got) - 1, &len);
	} while (type == OOB_DATA);
	got[len] = 0;
	memcpy(result.peer, got, len + 1);
	return type;
}

/* Appends evidence of another driver's faults, if there is any. */
static void add_evidence(char *to, size_t size)
{
	unsigned long bytes = unread(side), errors = crc_errors(side) - crc_errors_before;
	size_t n = 0;

	if (bytes)
		n = snprintf(to, size, " [%lu bytes unread]", bytes);
	if (errors && n < size)
		snprintf(to + n, size - n, " [%lu CRC errors]", errors);
}

void fail_at(const char *file, int line, const char *fmt, ...)
{
	size_t n;
	va_list ap;

	n = snprintf(result.own, sizeof(result.own), "%s:%d: ", file, line);
	va_start(ap, fmt);
	n += vsnprintf(result.own + n, sizeof(result.own) - n, fmt, ap);
	va_end(ap);
	/* Only a message that quotes the other side's may be too long. */
	if (n < sizeof(result.own))
		add_evidence(result.own + n, sizeof(result.own) - n);

	oob_put(side->oob, OOB_FAIL, result.own, strlen(result.own));
	/*
	 * The other side may have failed as well, with a more precise message, which may decide
	 * whether a known fault excuses the failure. So wait until its own waits have timed out.
	 */
	other_verdict(side->gentle ? wait_ms / 1000 + 2 : 2);
	tell(V_FAIL);
}

/*
 * The other side has failed, with this message. It stays that side's, as it may show a known
 * fault that only that side sees.
 */
void fail_with_peer(const char *message)
{
	static const char own[] = "the other side failed";

	memcpy(result.own, own, sizeof(own));
	add_evidence(result.own + sizeof(own) - 1, sizeof(result.own) - sizeof(own) + 1);
	snprintf(result.peer, sizeof(result.peer), "%s", message);
	oob_put(side->oob, OOB_FAIL, result.own, strlen(result.own));
	tell(V_FAIL);
}

void skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(result.own, sizeof(result.own), fmt, ap);
	va_end(ap);
	oob_put(side->oob, OOB_SKIP, result.own, strlen(result.own));
	tell(V_SKIP);
}

static void time_is_up(int sig)
{
	(void)sig;
	fail("not done within %u s", limit);
}

int wait_ms = USUAL_WAIT;

/* The factor of time limits, which the runner sets for slow kernels and busy machines. */
double slow(void)
{
	const char *text = getenv("RSIW_SLOW");
	double factor = text ? atof(text) : 1;

	return factor > 1 ? factor : 1;
}

/* Seconds that a test may take. */
unsigned int time_limit(const struct test *t)
{
	return slow() * (t->seconds ? t->seconds : USUAL_SECONDS);
}

void run_child(struct side *s, const struct test *t, int out)
{
	side = s;
	verdict_fd = out;
	s->arg = t->arg;
	wait_ms = slow() * (s->hasty ? HASTY_WAIT : USUAL_WAIT);
	limit = time_limit(t);
	signal(SIGALRM, time_is_up);
	signal(SIGPIPE, SIG_IGN);
	alarm(limit);

	if (!(t->flags & T_NODEV))
		dev_open(s);
	crc_errors_before = crc_errors(s);
	t->run(s);
	if (!(t->flags & T_NODEV))
		dev_close(s);

	if (!oob_put(s->oob, OOB_PASS, NULL, 0))
		fail("the other side is gone at the end");
	switch (other_verdict(limit)) {
	case OOB_PASS:
		tell(V_PASS);
	case OOB_SKIP:
		memcpy(result.own, result.peer, sizeof(result.own));
		tell(V_SKIP);
	case OOB_FAIL:
		tell(V_FAIL);
	default:
		snprintf(result.own, sizeof(result.own), "the other side died at the end");
		tell(V_FAIL);
	}
}
