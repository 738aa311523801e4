// SPDX-License-Identifier: GPL-2.0
/*
 * failnth DEVICE ADDRESS NETDEV STRIDE: repeats each operation of an RDMA device that a
 * process can request. In the first run the first allocation in the kernel fails, in
 * the second run the second one, and so on, until a run has no failure. One operation
 * makes an RDMA device on NETDEV, which has none yet. That takes many allocations, so
 * only every STRIDEth of them fails. The caller selects the allocations that can fail
 * (debugfs: failslab, fail_page_alloc).
 *
 * Prints KTAP, a test for each operation.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE (1 << 20)
#define PORT 7390
#define MOST 4000	/* allocations of one operation */
#define PATIENCE 20000	/* milliseconds */

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_comp_channel *channel;
static struct ibv_mr *mr;
static struct rdma_event_channel *events;
static struct rdma_cm_id *listener, *active, *passive;
static struct sockaddr_storage address;
static const char *netdev, *device;
static int stride;
static char *large;
static void *made;		/* the object that the operation has made */
static char problem[200];

static int broken(const char *what)
{
	snprintf(problem, sizeof(problem), "%s: %s", what, strerror(errno));
	return -1;
}

/* --- the objects --------------------------------------------------------- */

static int make_context(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	made = NULL;
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), device))
			made = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return made ? 0 : -1;
}
static int end_context(void) { return ibv_close_device(made); }
static int make_pd(void) { return (made = ibv_alloc_pd(context)) ? 0 : -1; }
static int end_pd(void) { return ibv_dealloc_pd(made); }
static int make_mr(void)
{
	return (made = ibv_reg_mr(pd, large, LARGE, IBV_ACCESS_LOCAL_WRITE)) ? 0 : -1;
}
static int end_mr(void) { return ibv_dereg_mr(made); }
static int make_cq(void) { return (made = ibv_create_cq(context, 1000, NULL, channel, 0)) ? 0 : -1; }
static int end_cq(void) { return ibv_destroy_cq(made); }

static int make_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 500, .max_sge = 2 } };

	return (made = ibv_create_srq(pd, &attr)) ? 0 : -1;
}
static int end_srq(void) { return ibv_destroy_srq(made); }

static struct ibv_qp_init_attr qp_attr(void)
{
	return (struct ibv_qp_init_attr) {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 2, .max_recv_sge = 2 },
	};
}
static int make_qp(void)
{
	struct ibv_qp_init_attr attr = qp_attr();

	return (made = ibv_create_qp(pd, &attr)) ? 0 : -1;
}
static int end_qp(void) { return ibv_destroy_qp(made); }

/* --- connections --------------------------------------------------------- */

/* Takes an event, if one comes within ms: its kind, and its id. */
static int take_event(int ms, enum rdma_cm_event_type *kind, struct rdma_cm_id **id)
{
	struct pollfd fd = { .fd = events->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	if (poll(&fd, 1, ms) != 1 || rdma_get_cm_event(events, &event)) {
		errno = ETIMEDOUT;
		return -1;
	}
	*kind = event->event;
	*id = event->id;
	return rdma_ack_cm_event(event);
}

/* Takes the next event, which has to come. */
static int next_event(enum rdma_cm_event_type *kind, struct rdma_cm_id **id)
{
	return take_event(PATIENCE, kind, id) ? broken("no event") : 0;
}

static int await(enum rdma_cm_event_type wanted, struct rdma_cm_id **id)
{
	enum rdma_cm_event_type kind;
	struct rdma_cm_id *from;

	do {
		if (next_event(&kind, &from))
			return -1;
		if (kind == wanted) {
			if (id)
				*id = from;
			return 0;
		}
	} while (kind == RDMA_CM_EVENT_DISCONNECTED || kind == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	snprintf(problem, sizeof(problem), "%s instead of %s", rdma_event_str(kind),
		 rdma_event_str(wanted));
	return -1;
}

static int listen_at(void)
{
	if (rdma_create_id(events, &listener, NULL, RDMA_PS_TCP))
		return -1;
	if (!rdma_bind_addr(listener, (struct sockaddr *)&address) && !rdma_listen(listener, 8))
		return 0;
	rdma_destroy_id(listener);
	return -1;
}
static int unlisten(void) { return rdma_destroy_id(listener); }

static void drop(struct rdma_cm_id **id)
{
	if (!*id)
		return;
	if ((*id)->qp)
		rdma_destroy_qp(*id);
	rdma_destroy_id(*id);
	*id = NULL;
}

/* Destroys everything of a connection, in whatever state it is, and its last events. */
static int hang_up(void)
{
	enum rdma_cm_event_type kind;
	struct rdma_cm_id *id;
	struct ibv_wc wc;

	drop(&active);
	drop(&passive);
	/* Destroy the ids of connection requests that were not taken. */
	while (!take_event(0, &kind, &id))
		if (kind == RDMA_CM_EVENT_CONNECT_REQUEST)
			drop(&id);
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
	return 0;
}

static int resolve(void)
{
	struct ibv_qp_init_attr attr = qp_attr();

	if (rdma_create_id(events, &active, NULL, RDMA_PS_TCP))
		return broken("rdma_create_id");
	if (rdma_resolve_addr(active, NULL, (struct sockaddr *)&address, 2000) ||
	    await(RDMA_CM_EVENT_ADDR_RESOLVED, NULL) || rdma_resolve_route(active, 2000) ||
	    await(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL))
		return broken("rdma_resolve");
	return rdma_create_qp(active, pd, &attr) ? broken("rdma_create_qp") : 0;
}

static int call(void)
{
	struct rdma_conn_param param = { .initiator_depth = 4, .responder_resources = 4 };

	return rdma_connect(active, &param);
}

/* After a call that succeeded, the other end has a request. (If it failed, hang_up() cleans up.) */
static int refuse(void)
{
	if (await(RDMA_CM_EVENT_CONNECT_REQUEST, &passive) || rdma_reject(passive, NULL, 0) ||
	    await(RDMA_CM_EVENT_REJECTED, NULL))
		return -1;
	return hang_up();
}

static int request(void)
{
	struct ibv_qp_init_attr attr = qp_attr();

	if (resolve() || call() || await(RDMA_CM_EVENT_CONNECT_REQUEST, &passive))
		return -1;
	return rdma_create_qp(passive, pd, &attr) ? broken("rdma_create_qp") : 0;
}

static int answer(void)
{
	struct rdma_conn_param param = { .initiator_depth = 4, .responder_resources = 4 };

	return rdma_accept(passive, &param);
}

static int established(void)
{
	return await(RDMA_CM_EVENT_ESTABLISHED, NULL) || await(RDMA_CM_EVENT_ESTABLISHED, NULL) ?
		-1 : 0;
}
static int answered(void) { return established() ? -1 : hang_up(); }
static int connected(void) { return request() || answer() || established() ? -1 : 0; }
static int reject(void) { return rdma_reject(passive, "no", 3); }

/*
 * If there was no memory for the Reply, the responder has closed the connection. The
 * initiator takes that for a peer of MPA revision 1, and asks again.
 */
static int rejected(void)
{
	enum rdma_cm_event_type kind;
	struct rdma_cm_id *id;

	do {
		if (next_event(&kind, &id))
			return -1;
		if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
			drop(&passive);
			passive = id;
			if (reject())
				return broken("the second rdma_reject");
		}
	} while (kind == RDMA_CM_EVENT_CONNECT_REQUEST);
	if (kind == RDMA_CM_EVENT_REJECTED)
		return hang_up();
	return broken(rdma_event_str(kind));
}

/* Sends the whole buffer. The kernel sends in this process, and must not lose a byte. */
static int post(void)
{
	struct ibv_sge sge = { (uintptr_t)large, LARGE / 2, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	return ibv_post_send(active->qp, &wr, &bad);
}

static int pair(void)
{
	struct ibv_sge sge = { (uintptr_t)large + LARGE / 2, LARGE / 2, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	if (connected())
		return -1;
	memset(large + LARGE / 2, 0, LARGE / 2);
	return ibv_post_recv(passive->qp, &wr, &bad) ? broken("ibv_post_recv") : 0;
}

/* Both ends have a completion: success, and the bytes have arrived; or an error at both. */
static int delivered(void)
{
	int good = 0, polls = PATIENCE;

	for (int n = 0; n < 2;) {
		struct ibv_wc wc;

		if (ibv_poll_cq(cq, 1, &wc) == 1) {
			n++;
			good += wc.status == IBV_WC_SUCCESS;
			continue;
		}
		if (polls-- == 0) {
			errno = ETIMEDOUT;
			return broken("no completion");
		}
		usleep(1000);
	}
	if (good == 2 && memcmp(large, large + LARGE / 2, LARGE / 2)) {
		errno = EIO;
		return broken("other bytes");
	}
	return hang_up();
}

/* --- links --------------------------------------------------------------- */

static void add_string(struct nlmsghdr *msg, int type, const char *text)
{
	struct nlattr *attr = (void *)((char *)msg + NLMSG_ALIGN(msg->nlmsg_len));

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + strlen(text) + 1;
	memcpy((char *)attr + NLA_HDRLEN, text, strlen(text) + 1);
	msg->nlmsg_len = NLMSG_ALIGN(msg->nlmsg_len) + NLA_ALIGN(attr->nla_len);
}

static int netlink = -1;
static int make_link(void)
{
	char buffer[512] = { 0 };
	struct nlmsghdr *msg = (void *)buffer;
	struct nlmsgerr *reply = (void *)(buffer + NLMSG_HDRLEN);

	msg->nlmsg_len = NLMSG_HDRLEN;
	msg->nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK);
	msg->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	add_string(msg, RDMA_NLDEV_ATTR_DEV_NAME, "failnth");
	add_string(msg, RDMA_NLDEV_ATTR_LINK_TYPE, "rsiw");
	add_string(msg, RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
	if (send(netlink, buffer, msg->nlmsg_len, 0) < 0 ||
	    recv(netlink, buffer, sizeof(buffer), MSG_DONTWAIT) < (ssize_t)sizeof(*reply))
		return -1;
	errno = -reply->error;
	return reply->error ? -1 : 0;
}

static int end_link(void)
{
	return system("rdma link delete failnth") ? broken("rdma link delete") : 0;
}

/* The link may exist although the command failed, if only its answer was lost. */
static int lost_link(void)
{
	return system("rdma link show failnth/1 >/dev/null 2>&1") ? 0 : end_link();
}

/* --- one after the other --------------------------------------------------- */

static const struct operation {
	const char *name;
	int (*before)(void);	/* preparation, without a failure */
	int (*run)(void);	/* the operation, in which an allocation fails */
	int (*good)(void);	/* runs after it, if it succeeds */
	int (*bad)(void);	/* runs after it, if it fails */
} operations[] = {
	{ "open a device", NULL, make_context, end_context, NULL },
	{ "protection domain", NULL, make_pd, end_pd, NULL },
	{ "memory region", NULL, make_mr, end_mr, NULL },
	{ "completion queue", NULL, make_cq, end_cq, NULL },
	{ "shared receive queue", NULL, make_srq, end_srq, NULL },
	{ "queue pair", NULL, make_qp, end_qp, NULL },
	{ "listen", NULL, listen_at, unlisten, NULL },
	{ "connect", resolve, call, refuse, hang_up },
	{ "accept", request, answer, answered, hang_up },
	{ "reject", request, reject, rejected, hang_up },
	{ "send", pair, post, delivered, hang_up },
	{ "link", NULL, make_link, end_link, lost_link },
	{ NULL },
};

static int fail_nth(int n)
{
	static int fd = -1;
	char text[20];
	int left;

	if (fd < 0)
		fd = open("/proc/thread-self/fail-nth", O_RDWR);
	left = fd < 0 || pread(fd, text, sizeof(text) - 1, 0) < 0 ? -1 : atoi(text);
	snprintf(text, sizeof(text), "%d", n);
	if (fd < 0 || pwrite(fd, text, strlen(text), 0) < 0) {
		perror("fail-nth");
		exit(1);
	}
	return left;
}

static bool check(const struct operation *o)
{
	int n, failures = 0;
	bool reached = true;

	problem[0] = 0;

	for (n = 1; reached && n < MOST; n += o->run == make_link ? stride : 1) {
		bool failed;

		if (o->before && o->before()) {
			printf("# %s: before it: %s\n", o->name, problem);
			return false;
		}
		fail_nth(n);
		failed = o->run() != 0;
		reached = fail_nth(0) == 0;
		failures += failed;
		if (failed && !reached) {
			printf("# %s: fails without a failure: %s\n", o->name, strerror(errno));
			return false;
		}
		if (!failed ? o->good() : o->bad && o->bad()) {
			printf("# %s: allocation %d (%s): %s\n", o->name, n,
			       failed ? "failed" : "got by", problem);
			return false;
		}
	}
	printf("# %s: less than %d allocations, failed with %d\n", o->name, n - 1, failures);
	/* The last run had no failure. Others had one, unless the operation reuses pages. */
	return (n > 2 || o->run == post) && !reached;
}

int main(int argc, char **argv)
{
	int number = 0;
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct sockaddr_in *in = (void *)&address;
	bool good = true;

	stride = argc == 5 ? atoi(argv[4]) : 0;
	if (stride < 1) {
		fprintf(stderr, "usage: failnth DEVICE ADDRESS NETDEV STRIDE\n");
		return 2;
	}
	setlinebuf(stdout);
	device = argv[1];
	netdev = argv[3];
	*in = (struct sockaddr_in) { .sin_family = AF_INET, .sin_port = htons(PORT) };
	large = aligned_alloc(4096, LARGE);
	events = rdma_create_event_channel();
	netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	if (inet_pton(AF_INET, argv[2], &in->sin_addr) != 1 || !large || !events || netlink < 0 ||
	    connect(netlink, (struct sockaddr *)&kernel, sizeof(kernel)) || listen_at()) {
		perror("failnth");
		return 1;
	}
	/* Ids of requests have the context of the listener. */
	context = listener->verbs;
	if (!context) {
		fprintf(stderr, "failnth: %s is no device's address\n", argv[2]);
		return 1;
	}
	memset(large, 0x5a, LARGE);
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 500, NULL, NULL, 0);
	mr = pd ? ibv_reg_mr(pd, large, LARGE, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!channel || !cq || !mr) {
		perror("failnth");
		return 1;
	}
	while (operations[number].name)
		number++;
	printf("1..%d\n", number);
	for (int i = 0; i < number; i++) {
		const struct operation *o = &operations[i];
		bool listens = !strcmp(o->name, "listen"), ok;

		/* Free the port, on which this program listens. */
		if (listens)
			unlisten();
		ok = check(o);
		if (listens && listen_at())
			ok = false;
		printf("%s %d - each allocation fails once: %s\n", ok ? "ok" : "not ok", i + 1, o->name);
		good &= ok;
	}
	return !good;
}
