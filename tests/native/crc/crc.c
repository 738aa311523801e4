// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel's crc32c() takes on this processor: the time of the function
 * that the kernel would choose for it (lib/crc/x86/crc32.h), whose assembler
 * file is linked to this program. Without kernel_fpu_begin(), which user-mode
 * code cannot time.
 *
 * Prints the function's name and, for each length that the arguments name, the
 * nanoseconds of a call: the median of many short runs, over buffers that are
 * in the cache, as the driver's are, which it has just copied or will copy.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint8_t u8;
typedef uint64_t u64;
#define ____cacheline_aligned __attribute__((aligned(64)))
#define __maybe_unused __attribute__((unused))
#include "crc-pclmul-consts.h"

uint32_t crc32c_x86_3way(uint32_t crc, const u8 *buffer, size_t len);
uint32_t crc32_lsb_vpclmul_avx512(uint32_t crc, const u8 *p, size_t len,
				  const void *consts);

#define BUFFERS 16
#define RUNS 2000

static uint32_t avx512(uint32_t crc, const u8 *p, size_t len)
{
	return crc32_lsb_vpclmul_avx512(crc, p, len,
			crc32_lsb_0x82f63b78_consts.fold_across_128_bits_consts);
}

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	uint32_t (*crc32c)(uint32_t crc, const u8 *p, size_t len) = crc32c_x86_3way;
	const char *name = "crc32c_x86_3way";
	static double runs[RUNS];
	volatile uint32_t sum = 0;
	int i, j, k;

	if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul"))
		return 1;
	if (__builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl")) {
		crc32c = avx512;
		name = "crc32_lsb_vpclmul_avx512";
	}
	/* The check value of CRC32c (RFC 3720 has the algorithm). */
	if (~crc32c(~0u, (const u8 *)"123456789", 9) != 0xe3069283) {
		fprintf(stderr, "wrong CRC\n");
		return 1;
	}
	printf("%s", name);
	for (i = 1; i < argc; i++) {
		size_t len = strtoul(argv[i], NULL, 10);
		u8 *buffers = malloc(BUFFERS * len);

		if (!buffers || !len)
			return 1;
		memset(buffers, 0x5a, BUFFERS * len);
		for (j = 0; j < RUNS; j++) {
			double began = now();

			for (k = 0; k < BUFFERS; k++)
				sum ^= crc32c(~0u, buffers + k * len, len);
			runs[j] = (now() - began) / BUFFERS;
		}
		qsort(runs, RUNS, sizeof(*runs), by_number);
		printf(" %.1f", runs[RUNS / 2]);
		free(buffers);
	}
	printf("\n");
	return 0;
}
