// SPDX-License-Identifier: GPL-2.0
/*
 * killed SECONDS WORKERS MOST COMMAND [ARGUMENT...]: for SECONDS, runs WORKERS processes of a
 * command at a time, each with a SEED of its own (counted from SEED), and kills each after at
 * most MOST milliseconds. Prints how they ended; fails if one does not die within 20 s of
 * SIGKILL.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_WORKERS 64
#define MOST_SECONDS 20

static struct {
	pid_t pid;
	double until;
} running[MOST_WORKERS];
static unsigned int started, killed, crashed;
/* The longest time in seconds that a process took to die. */
static double longest;

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static pid_t start(char **command, uint64_t seed)
{
	char text[32];
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
	setenv("SEED", text, 1);
	execvp(*command, command);
	perror(*command);
	_exit(127);
}

static int runs(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return !waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid;
}

/* Prints the kernel stacks of a process's threads. */
static void tell_where(pid_t pid)
{
	char command[128];

	printf("process %d does not die\n", pid);
	fflush(stdout);
	snprintf(command, sizeof(command), "bash -c 'grep -H . /proc/%d/task/*/{comm,stack}'", pid);
	if (system(command))
		printf("and nobody knows where it is\n");
}

/* Kills a process, if it runs. */
static void end(pid_t pid)
{
	double now, began = seconds();
	int status, told = 0, over = waitpid(pid, &status, WNOHANG);

	if (!over)
		kill(pid, SIGKILL);
	while (!over) {
		usleep(1000);
		over = waitpid(pid, &status, WNOHANG);
		now = seconds() - began;
		if (now > longest)
			longest = now;
		if (now > 5 && !told++)
			tell_where(pid);
		if (now > 60)
			exit(1);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		exit(1);
	if (WIFSIGNALED(status))
		*(WTERMSIG(status) == SIGKILL ? &killed : &crashed) += 1;
}

int main(int argc, char **argv)
{
	const char *s = getenv("SEED");
	uint64_t seed = s ? strtoull(s, NULL, 0) : 1;
	unsigned int workers, most, i;
	double over;

	if (argc < 5) {
		fprintf(stderr, "usage: killed SECONDS WORKERS MOST COMMAND [ARGUMENT...]\n");
		return 2;
	}
	over = seconds() + strtod(argv[1], NULL);
	workers = strtoul(argv[2], NULL, 0);
	most = strtoul(argv[3], NULL, 0);
	if (!workers || workers > MOST_WORKERS || !most)
		return 2;
	srand48(seed);
	while (seconds() < over) {
		for (i = 0; i < workers; i++) {
			if (running[i].pid && seconds() < running[i].until && runs(running[i].pid))
				continue;
			if (running[i].pid)
				end(running[i].pid);
			running[i].pid = start(argv + 4, seed + started++);
			running[i].until = seconds() + drand48() * most / 1000;
		}
		usleep(2000);
	}
	for (i = 0; i < workers; i++)
		if (running[i].pid)
			end(running[i].pid);
	printf("%u processes: %u killed, %u crashed, %u ended; dead within %.1f s\n", started, killed,
	       crashed, started - killed - crashed, longest);
	return longest > MOST_SECONDS;
}
