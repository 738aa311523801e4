// SPDX-License-Identifier: GPL-2.0
/*
 * rcmesh DEVICE GID-INDEX COUNT DELAY-MS [SERVER]: two processes connect COUNT queue
 * pairs each with the other's by themselves, and send a message over each, both ways.
 * The client begins with the last queue pair, and waits for DELAY-MS before. Prints
 * how long that took, from the first queue pair to the last message, without the wait.
 */
#include "rc_meet.h"

#define MOST 4096
#define LIMIT_MS 60000

struct one {
	union ibv_gid gid;
	uint32_t qpn[MOST];
};

static struct one ours, theirs;
static struct ibv_qp *qp[MOST];
/* Of each queue pair: what it sends, and what it receives. */
static uint32_t memory[MOST][2];

static void make(int i, struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_mr *mr)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .sq_sig_all = 1,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_sge sge = { (uintptr_t)&memory[i][1], 4, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

	qp[i] = must(ibv_create_qp(pd, &init), "queue pair");
	if (ibv_modify_qp(qp[i], &attr, TO_INIT) ||
	    ibv_post_recv(qp[i], &wr, &bad))
		fail("INIT");
	ours.qpn[i] = qp[i]->qp_num;
}

static void begin(int i, int gid_index, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)&memory[i][0], 4, mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	meet(qp[i], &theirs.gid, gid_index, theirs.qpn[i], 20, 0);
	memory[i][0] = i;
	if (ibv_post_send(qp[i], &wr, &bad))
		fail("post");
}

int main(int argc, char **argv)
{
	struct ibv_context *context;
	int i, fd, gid_index, count, done = 0;
	const char *server;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char word = 0;
	long began, made;

	if (argc < 5)
		return 2;
	gid_index = atoi(argv[2]);
	count = atoi(argv[3]);
	server = argv[5];
	if (count < 1 || count > MOST)
		return 2;
	context = open_device(argv[1]);
	if (ibv_query_gid(context, 1, gid_index, &ours.gid))
		fail("GID");
	pd = must(ibv_alloc_pd(context), "protection domain");
	cq = must(ibv_create_cq(context, 2 * count, NULL, NULL, 0), "completion queue");
	mr = must(ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE), "region");
	began = now_ms();
	for (i = 0; i < count; i++)
		make(i, pd, cq, mr);
	made = now_ms() - began;
	fd = dial(server);
	swap(fd, &ours, &theirs, sizeof(ours));

	if (server)
		usleep(atoi(argv[4]) * 1000);
	began = now_ms();
	for (i = 0; i < count; i++)
		begin(server ? count - 1 - i : i, gid_index, mr);
	while (done < 2 * count && now_ms() - began < LIMIT_MS) {
		i = ibv_poll_cq(cq, 1, &wc);
		if (i < 0 || (i == 1 && wc.status)) {
			printf("completion of %lu: %s\n", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
			return 1;
		}
		if (!i)
			usleep(100);
		done += i;
	}
	printf("%d queue pairs in %ld ms\n", count, made + now_ms() - began);
	for (i = 0; i < count && memory[i][1] == (uint32_t)i; i++)
		;
	if (done < 2 * count || i < count) {
		printf("%d of %d completions; message %d\n", done, 2 * count, i);
		return 1;
	}
	/* Neither destroys a queue pair before both have all. */
	swap(fd, &word, &word, 1);
	return 0;
}
