// SPDX-License-Identifier: GPL-2.0
/*
 * requests ADDRESS PORT: a listener that rejects each request. The private data of the
 * rejection have the number of the request: 0, 1, 2, ... (32 bits, in network order).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int bad, const char *what)
{
	if (!bad)
		return;
	fprintf(stderr, "requests: %s: %s\n", what, strerror(errno));
	exit(1);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct addrinfo *at;
	uint32_t count = 0, answer;

	if (argc != 3) {
		fprintf(stderr, "usage: requests ADDRESS PORT\n");
		return 2;
	}
	must(!channel, "event channel");
	must(getaddrinfo(argv[1], argv[2], NULL, &at), "address");
	must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "identifier");
	must(rdma_bind_addr(id, at->ai_addr), "bind");
	must(rdma_listen(id, 256), "listen");
	for (;;) {
		must(rdma_get_cm_event(channel, &event), "event");
		id = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->id : NULL;
		rdma_ack_cm_event(event);
		if (!id)
			continue;
		answer = htonl(count++);
		/* Fails if the peer has gone. */
		rdma_reject(id, &answer, sizeof(answer));
		rdma_destroy_id(id);
	}
}
