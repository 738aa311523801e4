// SPDX-License-Identifier: GPL-2.0
/*
 * share SECONDS
 *
 * Computes for so long, as a process that wants a processor all the time, and prints
 *
 *   rate R longest L
 *
 * where R is how much it has done in a second, in some unit, and L the longest time in milliseconds in which it
 * did nothing. Its CPU time does not tell: the time of softirqs that interrupt it is part of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double begin, at, before, longest = 0;
	unsigned long done = 0;
	int i;

	if (argc != 2) {
		fputs("usage: share SECONDS\n", stderr);
		return 2;
	}
	begin = before = at = now();
	while (at - begin < atof(argv[1])) {
		for (i = 0; i < 1000; i++)
			__asm__ volatile("" : : : "memory");
		done++;
		at = now();
		if (at - before > longest)
			longest = at - before;
		before = at;
	}
	printf("rate %.0f longest %.0f\n", done / (at - begin), longest * 1000);
	return 0;
}
