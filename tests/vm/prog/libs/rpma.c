// SPDX-License-Identifier: GPL-2.0
/*
 * rpma server|client ADDRESS PORT: librpma's operations, over the RDMA CM. The client writes to the server's memory,
 * flushes, writes 8 bytes as one, reads all of it back, and sends immediate data; the server looks at its memory then,
 * and answers.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <error.h>
#include <infiniband/verbs.h>
#include <librpma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 1 << 20, WRITTEN = 64 << 10, WHOLE = SIZE / 2, MESSAGE = WHOLE + 4096, ROUNDS = 100 };

#define CALL(call)							\
	do {								\
		int ret = (call);					\
		if (ret)						\
			error(1, 0, "%s: %s", #call, rpma_err_2str(ret)); \
	} while (0)

static char *memory;
static struct rpma_peer *peer;
static struct rpma_mr_local *region;

static void begin(const char *address, enum rpma_util_ibv_context_type type)
{
	struct ibv_context *device;
	int usage = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
		    RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV |
		    RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;

	CALL(rpma_utils_get_ibv_context(address, type, &device));
	CALL(rpma_peer_new(device, &peer));
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		error(1, errno, "mmap");
	CALL(rpma_mr_reg(peer, memory, SIZE, usage, &region));
}

static void expect(struct rpma_conn *c, enum rpma_conn_event wanted)
{
	enum rpma_conn_event event;

	CALL(rpma_conn_next_event(c, &event));
	if (event != wanted)
		error(1, 0, "%s, not %s", rpma_utils_conn_event_2str(event), rpma_utils_conn_event_2str(wanted));
}

/* The next completion, which has to be a good one of this operation. */
static struct ibv_wc completed(struct rpma_conn *c, enum ibv_wc_opcode opcode)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	int ret;

	CALL(rpma_conn_get_cq(c, &cq));
	while ((ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		CALL(rpma_cq_wait(cq));
	CALL(ret);
	if (wc.status != IBV_WC_SUCCESS || wc.opcode != opcode)
		error(1, 0, "opcode %u, not %u: %s", wc.opcode, opcode, ibv_wc_status_str(wc.status));
	return wc;
}

static void fill(char *at, uint32_t round)
{
	for (int i = 0; i < WRITTEN; i++)
		at[i] = round * 7 + i * 13 + i / 256;
}

/* The memory after the last round. */
static void look(const char *at, uint64_t last)
{
	static char wanted[WRITTEN];

	fill(wanted, last);
	if (memcmp(at, wanted, WRITTEN) || memcmp(at + WHOLE, &last, sizeof(last)))
		error(1, 0, "the memory is not what was written");
}

static void serve(const char *address, const char *port)
{
	struct rpma_conn_private_data data;
	struct rpma_conn_req *request;
	struct rpma_conn *c;
	struct rpma_ep *ep;
	char descriptor[256];
	struct ibv_wc wc;
	size_t size;

	begin(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	CALL(rpma_mr_get_descriptor_size(region, &size));
	if (size > sizeof(descriptor))
		error(1, 0, "a descriptor of %zu bytes", size);
	CALL(rpma_mr_get_descriptor(region, descriptor));
	data = (struct rpma_conn_private_data){ .ptr = descriptor, .len = size };
	CALL(rpma_ep_listen(peer, address, port, &ep));
	CALL(rpma_ep_next_conn_req(ep, NULL, &request));
	CALL(rpma_conn_req_recv(request, region, MESSAGE + 8, 8, NULL));
	CALL(rpma_conn_req_recv(request, region, MESSAGE + 8, 8, NULL));
	CALL(rpma_conn_req_connect(&request, &data, &c));
	expect(c, RPMA_CONN_ESTABLISHED);
	wc = completed(c, IBV_WC_RECV_RDMA_WITH_IMM);
	if (!(wc.wc_flags & IBV_WC_WITH_IMM) || ntohl(wc.imm_data) != 0x1234)
		error(1, 0, "immediate data of the Write: %#x", ntohl(wc.imm_data));
	wc = completed(c, IBV_WC_RECV);
	if (!(wc.wc_flags & IBV_WC_WITH_IMM) || ntohl(wc.imm_data) != 0x5678 || wc.byte_len != 8)
		error(1, 0, "immediate data of the Send: %#x, %u bytes", ntohl(wc.imm_data), wc.byte_len);
	look(memory, ROUNDS - 1);
	CALL(rpma_send(c, region, WHOLE, 8, RPMA_F_COMPLETION_ALWAYS, NULL));
	completed(c, IBV_WC_SEND);
	expect(c, RPMA_CONN_CLOSED);
	CALL(rpma_conn_disconnect(c));
	CALL(rpma_conn_delete(&c));
	CALL(rpma_ep_shutdown(&ep));
}

static void ask(const char *address, const char *port)
{
	struct rpma_conn_private_data data;
	struct rpma_conn_req *request;
	struct rpma_mr_remote *remote;
	struct rpma_conn *c;
	uint64_t round;

	begin(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	CALL(rpma_conn_req_new(peer, address, port, NULL, &request));
	CALL(rpma_conn_req_recv(request, region, MESSAGE, 8, NULL));
	CALL(rpma_conn_req_connect(&request, NULL, &c));
	expect(c, RPMA_CONN_ESTABLISHED);
	CALL(rpma_conn_get_private_data(c, &data));
	CALL(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
	for (round = 0; round < ROUNDS; round++) {
		fill(memory, round);
		CALL(rpma_write(c, remote, 0, region, 0, WRITTEN, RPMA_F_COMPLETION_ON_ERROR, NULL));
		/* Of devices without persistent memory librpma reads a byte, in place of the verbs' flush. */
		CALL(rpma_flush(c, remote, 0, WRITTEN, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, NULL));
		completed(c, IBV_WC_RDMA_READ);
		CALL(rpma_atomic_write(c, remote, WHOLE, (char *)&round, RPMA_F_COMPLETION_ALWAYS, NULL));
		completed(c, IBV_WC_ATOMIC_WRITE);
	}
	memset(memory, 0, SIZE);
	CALL(rpma_read(c, region, 0, remote, 0, WHOLE + 8, RPMA_F_COMPLETION_ALWAYS, NULL));
	completed(c, IBV_WC_RDMA_READ);
	look(memory, ROUNDS - 1);
	CALL(rpma_write_with_imm(c, remote, WRITTEN, region, 0, 8, RPMA_F_COMPLETION_ALWAYS, 0x1234, NULL));
	completed(c, IBV_WC_RDMA_WRITE);
	CALL(rpma_send_with_imm(c, region, 0, 8, RPMA_F_COMPLETION_ALWAYS, 0x5678, NULL));
	/* The answer may come before the Send's own completion is polled, but not into its place in the queue. */
	completed(c, IBV_WC_SEND);
	completed(c, IBV_WC_RECV);
	if (memcmp(memory + MESSAGE, memory + WHOLE, 8))
		error(1, 0, "the answer is not the number of the last round");
	CALL(rpma_mr_remote_delete(&remote));
	CALL(rpma_conn_disconnect(c));
	expect(c, RPMA_CONN_CLOSED);
	CALL(rpma_conn_delete(&c));
}

int main(int argc, char **argv)
{
	if (argc != 4)
		error(2, 0, "rpma server|client ADDRESS PORT");
	rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_WARNING);
	if (!strcmp(argv[1], "server"))
		serve(argv[2], argv[3]);
	else
		ask(argv[2], argv[3]);
	CALL(rpma_mr_dereg(&region));
	CALL(rpma_peer_delete(&peer));
	puts("all is well");
	return 0;
}
