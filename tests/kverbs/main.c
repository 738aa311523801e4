// SPDX-License-Identifier: GPL-2.0
#include <linux/module.h>
#include <linux/slab.h>

#include "kverbs.h"

char *addr = "10.7.0.1";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "IPv4 address of the device to test");

uint drain_limit = 5;
module_param(drain_limit, uint, 0444);
MODULE_PARM_DESC(drain_limit, "seconds that draining a queue pair may take");

static bool serve;
module_param(serve, bool, 0444);
MODULE_PARM_DESC(serve, "serve the tests of one host, whose module has peer=");

static char *peer = "";
module_param(peer, charp, 0444);
MODULE_PARM_DESC(peer, "run the tests between two hosts: IPv4 address of the one with serve=1");

static bool lend;
module_param(lend, bool, 0444);
MODULE_PARM_DESC(lend, "the tests between two hosts are those of memory that is sent without a copy");

static char *only = "";
module_param(only, charp, 0444);
MODULE_PARM_DESC(only, "run only tests with this in their name");

uint local_dma_lkey;
module_param(local_dma_lkey, uint, 0444);
MODULE_PARM_DESC(local_dma_lkey, "the key that the test of local DMA keys has found");

ulong local_dma_addr;
module_param(local_dma_addr, ulong, 0400);
MODULE_PARM_DESC(local_dma_addr, "memory of this module, for others to try that key with");

static u8 kernel_memory[8192];

static const struct test *const suites[] = {
	op_tests, atomic_tests, mr_tests, post_tests, list_tests, queue_tests, drain_tests
};

static int run(const struct test *t)
{
	struct pair *p = kvcalloc(2, sizeof(*p), GFP_KERNEL);
	int ret, tries = 0;

	if (!p)
		return -ENOMEM;
	ret = pair_open(p, &t->o);
	/* The RDMA CM picks a port that no RDMA listener uses, but a TCP socket may use it. */
	while (ret == -EADDRINUSE && tries++ < 3) {
		pr_info("kverbs: # RETRY cm-port: %s\n", t->name);
		pair_close(p);
		ret = pair_open(p, &t->o);
	}
	if (ret)
		pr_err("kverbs: # no connection: %d\n", ret);
	else
		ret = t->run(p);
	pair_close(p + 1);
	pair_close(p);
	kvfree(p);
	return ret;
}

static int between_hosts(void)
{
	struct pair *p = kvcalloc(1, sizeof(*p), GFP_KERNEL);
	int ret = 0;

	if (!p)
		return -ENOMEM;
	if (serve)
		ret = lend ? lend_serve(p) : hosts_serve(p);
	else if (lend)
		lend_test(p, peer);
	else
		hosts_test(p, peer);
	pair_close(p);
	kvfree(p);
	if (!ret)
		pr_info("kverbs: done\n");
	return ret;
}

static int __init kverbs_init(void)
{
	const struct test *t;
	int i, n = 0, ret;

	local_dma_addr = (ulong)kernel_memory;
	if (serve || *peer)
		return between_hosts();
	for (i = 0; i < ARRAY_SIZE(suites); i++)
		for (t = suites[i]; t->name; t++)
			n += !!strstr(t->name, only);
	pr_info("kverbs: 1..%d\n", n);
	for (n = 0, i = 0; i < ARRAY_SIZE(suites); i++) {
		for (t = suites[i]; t->name; t++) {
			if (!strstr(t->name, only))
				continue;
			ret = run(t);
			pr_info("kverbs: %s %d - %s\n", ret ? "not ok" : "ok", ++n, t->name);
		}
	}
	pr_info("kverbs: done\n");
	return 0;
}

static void __exit kverbs_exit(void)
{
}

module_init(kverbs_init);
module_exit(kverbs_exit);
MODULE_DESCRIPTION("Test of RDMA kernel verbs");
MODULE_LICENSE("GPL");
