// SPDX-License-Identifier: GPL-2.0
/*
 * The command: a server, which serves tests until it is killed, and a client,
 * which runs tests with the server and prints KTAP.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vt.h"

static const struct test *const groups[] = {
	ops_tests, align_tests, sge_tests, order_tests, mr_tests, rereg_tests, dmabuf_tests,
	prot_tests, window_tests, window_refused_tests, window_domain_tests, placement_tests,
	turns_tests, recv_tests, late_tests, srq_tests, srq_resize_tests, cq_tests,
	moderate_tests, resize_tests, qp_tests, modify_tests, reset_tests, scale_tests,
	cm_tests, close_tests, race_tests, big_tests, stress_tests, hostile_tests,
};

static const char *port = "18515";
static const char *pattern;		/* NULL: all tests but the long ones */
static const char *excluded;
static bool quick, with_long, listing, gentle;
static uint64_t seed = 1;
static unsigned int rounds = 20;

static void usage(void)
{
	fputs("usage: rsiw-verbs server [-p PORT] ADDRESS\n"
	      "       rsiw-verbs client [-p PORT] [-t PATTERN,...] [-x PATTERN,...]\n"
	      "                  [-q] [-l] [-k KNOWN [-c] [-r] [-f PART/PARTS] [-e FAULTS]]\n"
	      "                  [-s SEED] [-n ROUNDS] [-z] ADDRESS\n"
	      "       rsiw-verbs list [-t PATTERN,...] [-q] [-l]\n"
	      "  -t  only these tests (shell patterns)   -x  not these\n"
	      "  -q  the quick ones                      -l  the long ones too\n"
	      "  -k  file of tests that a driver is known to fail, which are skipped; each\n"
	      "      line: a pattern, the driver's side (active, passive, any), the reason\n"
	      "  -c  the client has that driver   -r  the server has it\n"
	      "  -f  run the tests of every PARTSth line of that file all the same, from\n"
	      "      line PART on, and mark lines whose tests all pass (STALE)\n"
	      "  -e  file of known faults of that driver; each line: a name, the side that\n"
	      "      reports it (siw, rsiw, any), a regular expression for the report.\n"
	      "      A test with such a failure is retried, and marked (RETRY)\n"
	      "  -z  stress without zero-length operations and without fences\n"
	      "  -s  seed of the random tests, 0: from the clock   -n  their length\n",
	      stderr);
	exit(2);
}

static bool matches(const char *list, const char *name)
{
	char *copy = strdup(list), *rest = copy, *one;
	bool found = false;

	while (!found && (one = strsep(&rest, ",")))
		found = !fnmatch(one, name, 0);
	free(copy);
	return found;
}

static bool selected(const struct test *t, const char *name)
{
	if (excluded && matches(excluded, name))
		return false;
	if (pattern)
		return matches(pattern, name);
	if (quick)
		return t->flags & T_QUICK;
	return with_long || !(t->flags & T_LONG);
}

static const struct test *find_test(const char *name)
{
	const struct test *t;
	size_t g;

	for (g = 0; g < ARRAY_SIZE(groups); g++)
		for (t = groups[g]; t->name; t++)
			if (!strcmp(t->name, name))
				return t;
	return NULL;
}

static void __attribute__((noreturn)) serve(int fd)
{
	struct side s = { .oob = fd };
	socklen_t len = sizeof(s.local);
	struct oob_run run = {};
	const struct test *t;
	size_t n;

	if (oob_get(fd, &run, sizeof(run), &n) != OOB_RUN || n != sizeof(run))
		_exit(3);
	run.name[sizeof(run.name) - 1] = 0;
	t = find_test(run.name);
	if (!t)
		_exit(3);
	getsockname(fd, (struct sockaddr *)&s.local, &len);
	len = sizeof(s.peer);
	getpeername(fd, (struct sockaddr *)&s.peer, &len);
	s.active = run.server_active;
	s.seed = run.seed;
	s.rounds = run.rounds;
	s.gentle = run.gentle;
	s.hasty = run.hasty;
	run_child(&s, t, -1);
}

static int server(const char *addr)
{
	int fd = oob_listen(addr, port), conn;

	if (fd < 0)
		return 1;
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (conn < 0)
			continue;
		if (!fork()) {
			signal(SIGCHLD, SIG_DFL);
			close(fd);
			serve(conn);
		}
		close(conn);
	}
}

static void __attribute__((noreturn))
test_process(const struct test *t, bool reverse, bool hasty, const char *addr, int out)
{
	struct side s = {
		.client = true, .active = !reverse, .seed = seed, .rounds = rounds,
		.gentle = gentle, .hasty = hasty,
	};
	struct oob_run run = {
		.seed = seed, .rounds = rounds, .server_active = reverse,
		.gentle = gentle, .hasty = hasty,
	};
	struct result r = { .verdict = V_FAIL };
	socklen_t len = sizeof(s.local);
	int tries;

	snprintf(run.name, sizeof(run.name), "%s", t->name);
	/* The server may be starting just now. */
	for (tries = 0; tries < 100; tries++) {
		s.oob = oob_connect(addr, port);
		if (s.oob >= 0)
			break;
		sleep_ms(100);
	}
	if (s.oob < 0 || !oob_put(s.oob, OOB_RUN, &run, sizeof(run))) {
		snprintf(r.own, sizeof(r.own), "no server at %s port %s", addr, port);
		_exit(write(out, &r, sizeof(r)) != sizeof(r));
	}
	getsockname(s.oob, (struct sockaddr *)&s.local, &len);
	len = sizeof(s.peer);
	getpeername(s.oob, (struct sockaddr *)&s.peer, &len);
	run_child(&s, t, out);
}

static void run_one(const struct test *t, bool reverse, bool hasty, const char *addr,
		    struct result *r)
{
	int pipefd[2], status = 0, ms = (time_limit(t) + 20) * 1000;
	struct pollfd pfd = { .events = POLLIN };
	pid_t pid;

	memset(r, 0, sizeof(*r));
	r->verdict = V_CRASH;
	fflush(stdout);
	pid = pipe2(pipefd, O_CLOEXEC) ? -1 : fork();
	if (pid < 0) {
		snprintf(r->own, sizeof(r->own), "no process: errno %d", errno);
		return;
	}
	if (!pid) {
		close(pipefd[0]);
		test_process(t, reverse, hasty, addr, pipefd[1]);
	}
	close(pipefd[1]);
	pfd.fd = pipefd[0];
	if (poll(&pfd, 1, ms) < 1) {
		/* Not even its alarm was delivered: it hangs in a system call. */
		snprintf(r->own, sizeof(r->own), "hangs in the kernel");
		kill(pid, SIGKILL);
	} else if (read(pipefd[0], r, sizeof(*r)) != sizeof(*r)) {
		waitpid(pid, &status, 0);
		r->verdict = V_CRASH;
		snprintf(r->own, sizeof(r->own), "died with status %#x", status);
	} else {
		/* That the killed process exits is part of the test. */
		for (ms = 0; !waitpid(pid, &status, WNOHANG); ms += 10) {
			if (ms == 20000) {
				r->verdict = V_CRASH;
				snprintf(r->own, sizeof(r->own), "does not exit");
				break;
			}
			sleep_ms(10);
		}
	}
	close(pipefd[0]);
}

static bool report(int n, const char *name, const char *why, const struct result *r,
		   uint64_t ms)
{
	bool ended = r->verdict == V_PASS || r->verdict == V_SKIP;

	if (ms > 2000)
		printf("# %s took %.1f s\n", name, ms / 1e3);
	if (!ended && r->own[0])
		printf("# %s: %s\n", name, r->own);
	if (!ended && r->peer[0])
		printf("# %s: server: %s\n", name, r->peer);
	if (r->verdict == V_PASS)
		printf("ok %d %s\n", n, name);
	else if (r->verdict == V_SKIP)
		printf("ok %d %s # SKIP %s\n", n, name, r->own);
	else if (why)
		printf("ok %d %s # XFAIL %s\n", n, name, why);
	else
		printf("not ok %d %s\n", n, name);
	return ended || why;
}

/* Runs of a test with an excused failure, or of one that passes unexpectedly. */
enum { TRIES = 4 };

/* Runs the selected tests; if addr is NULL, only counts or lists them. */
static int client(const char *addr, int *count)
{
	const struct test *t;
	const char *why;
	struct result r;
	uint64_t began;
	int n = 0, bad = 0, reverse, tries;
	const char *fault;
	bool forced;
	char name[80];
	size_t g;

	for (g = 0; g < ARRAY_SIZE(groups); g++) {
		for (t = groups[g]; t->name; t++) {
			for (reverse = 0; reverse <= !!(t->flags & T_BOTH); reverse++) {
				snprintf(name, sizeof(name), "%s%s", t->name,
					 reverse ? "/reverse" : "");
				if (!selected(t, name))
					continue;
				n++;
				if (listing)
					puts(name);
				if (!addr)
					continue;
				why = known_reason(t->name, reverse, &forced);
				if (why && !forced) {
					printf("ok %d %s # SKIP known: %s\n", n, name, why);
					continue;
				}
				began = now_ms();
				run_one(t, reverse, why, addr, &r);
				for (tries = 1; !why && tries < TRIES && r.verdict == V_FAIL; tries++) {
					fault = excuse(&r);
					if (!fault)
						break;
					printf("# RETRY %s: %s: %s%s%s\n", fault, name, r.own,
					       r.peer[0] ? "; server: " : "", r.peer);
					run_one(t, reverse, why, addr, &r);
				}
				/* A single pass may be luck. */
				for (tries = 1; why && tries < TRIES && r.verdict == V_PASS; tries++)
					run_one(t, reverse, why, addr, &r);
				if (why && r.verdict != V_SKIP)
					known_ran(why, r.verdict == V_PASS);
				bad += !report(n, name, why, &r, now_ms() - began);
			}
		}
	}
	*count = n;
	return bad;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int opt, count, bad;

	optind = 2;
	while (argc > 1 && (opt = getopt(argc, argv, "p:t:x:k:e:f:s:n:qlcrz")) != -1) {
		switch (opt) {
		case 'p':
			port = optarg;
			break;
		case 't':
			pattern = optarg;
			break;
		case 'x':
			excluded = optarg;
			break;
		case 'k':
			read_known(optarg);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			rounds = strtoul(optarg, NULL, 0);
			break;
		case 'q':
			quick = true;
			break;
		case 'l':
			with_long = true;
			break;
		case 'c':
			known_client = true;
			break;
		case 'r':
			known_server = true;
			break;
		case 'e':
			read_faults(optarg);
			break;
		case 'f':
			if (sscanf(optarg, "%u/%u", &run_first, &run_of) != 2 || !run_of)
				usage();
			run_first %= run_of;
			break;
		case 'z':
			gentle = true;
			break;
		default:
			usage();
		}
	}
	if (!strcmp(mode, "list")) {
		listing = true;
		client(NULL, &count);
		return 0;
	}
	if (optind != argc - 1)
		usage();
	if (!strcmp(mode, "server"))
		return server(argv[optind]);
	if (strcmp(mode, "client"))
		usage();
	if (!seed)
		seed = now_ms();
	client(NULL, &count);
	if (!count) {
		fprintf(stderr, "no test is selected\n");
		return 2;
	}
	printf("KTAP version 1\n# seed %lu\n1..%d\n", seed, count);
	bad = client(argv[optind], &count);
	tell_stale();
	printf("# %d of %d failed\n", bad, count);
	return bad != 0;
}
