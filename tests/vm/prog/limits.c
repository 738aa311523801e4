// SPDX-License-Identifier: GPL-2.0
/*
 * limits DEVICE pin KIB...: registers KIB of memory for each argument ("-":
 * deregisters the last region), and prints the result, a line each.
 *
 * limits DEVICE cq|qp|mr|pd SIZE [MOST]: makes objects (of SIZE elements, or
 * bytes) until one is refused, and prints how many there are and the reason ("7
 * Cannot allocate memory"). All memory that is mapped for them must be zero. Waits
 * for a line of input, and destroys them.
 */
#include <stdio.h>
#include <sys/mman.h>

#include "verbs.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct ibv_mr *pin(size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(p == MAP_FAILED ? NULL : p, "memory");
	return ibv_reg_mr(pd, p, len, IBV_ACCESS_LOCAL_WRITE);
}

static void pins(char **sizes)
{
	struct ibv_mr *mr, *last = NULL;

	for (; *sizes; sizes++) {
		if (!strcmp(*sizes, "-")) {
			printf("back: %s\n", strerror(ibv_dereg_mr(last)));
			continue;
		}
		mr = pin(strtoul(*sizes, NULL, 0) * 1024);
		printf("%s: %s\n", *sizes, mr ? "good" : strerror(errno));
		if (mr)
			last = mr;
	}
}

static void *one(const char *what, size_t size)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = size, .max_recv_wr = size, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	if (!strcmp(what, "cq"))
		return ibv_create_cq(context, size, NULL, NULL, 0);
	if (!strcmp(what, "qp"))
		return ibv_create_qp(pd, &init);
	if (!strcmp(what, "mr"))
		return pin(size);
	if (!strcmp(what, "pd"))
		return ibv_alloc_pd(context);
	return must(NULL, "no such object");
}

/* Finds the rings, which are mappings of the device's file. */
static size_t check_zero(void)
{
	FILE *maps = must(fopen("/proc/self/maps", "r"), "maps");
	unsigned long from, to, *p;
	size_t seen = 0;
	char line[512];

	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "/uverbs") || sscanf(line, "%lx-%lx", &from, &to) != 2)
			continue;
		for (p = (unsigned long *)from; p < (unsigned long *)to; p++)
			if (*p) {
				fprintf(stderr, "limits: %#lx in a new ring\n", *p);
				exit(1);
			}
		seen += to - from;
	}
	fclose(maps);
	return seen;
}

int main(int argc, char **argv)
{
	size_t size, most, n;

	if (argc < 4) {
		fprintf(stderr, "usage: limits DEVICE pin|cq|qp|mr|pd SIZE...\n");
		return 2;
	}
	setlinebuf(stdout);
	context = open_device(argv[1]);
	pd = must(ibv_alloc_pd(context), "protection domain");
	if (!strcmp(argv[2], "pin")) {
		pins(argv + 3);
		return 0;
	}
	cq = must(ibv_create_cq(context, 16, NULL, NULL, 0), "completion queue");
	size = strtoul(argv[3], NULL, 0);
	most = argc > 4 ? strtoul(argv[4], NULL, 0) : 1000000;
	errno = 0;
	for (n = 0; n < most && one(argv[2], size); n++)
		;
	printf("%zu %s\n", n, n < most ? strerror(errno) : "good");
	printf("mapped %zu KiB\n", check_zero() / 1024);
	getchar();
	return 0;
}
