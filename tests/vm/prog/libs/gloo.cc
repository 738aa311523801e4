// SPDX-License-Identifier: GPL-2.0
/*
 * gloo DEVICE GID-INDEX RANK SIZE DIRECTORY: gloo's collectives over its verbs transport, whose messages are Writes with
 * immediate data. Ranks meet by files in a directory that all of them see.
 *
 * Collectives are not destroyed: that aborts if a send of theirs has not completed, for which they do not wait.
 */
#include <gloo/allgather_ring.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <unistd.h>

namespace {

int rank, size;

void wrong(const char *what, size_t count, size_t at)
{
	fprintf(stderr, "rank %d: %s of %zu: element %zu is wrong\n", rank, what, count, at);
	exit(1);
}

// What a rank has before a collective.
long value(int of, size_t at)
{
	return 1000003L * of + static_cast<long>(at);
}

template <typename Algorithm>
void allreduce(const std::shared_ptr<gloo::Context> &context, const char *name, size_t count)
{
	auto &data = *new std::vector<long>(count);
	auto &algorithm = *new Algorithm(context, std::vector<long *>{ data.data() }, static_cast<int>(count));

	for (int round = 0; round < 10; round++) {
		for (size_t i = 0; i < count; i++)
			data[i] = value(rank, i + round);
		algorithm.run();
		for (size_t i = 0; i < count; i++) {
			long sum = 0;

			for (int of = 0; of < size; of++)
				sum += value(of, i + round);
			if (data[i] != sum)
				wrong(name, count, i);
		}
	}
}

void broadcast(const std::shared_ptr<gloo::Context> &context, size_t count)
{
	auto &data = *new std::vector<long>(count);
	auto &algorithm = *new gloo::BroadcastOneToAll<long>(context, { data.data() }, count, size - 1);

	for (size_t i = 0; i < count; i++)
		data[i] = value(rank, i);
	algorithm.run();
	for (size_t i = 0; i < count; i++) {
		if (data[i] != value(size - 1, i))
			wrong("broadcast", count, i);
	}
}

void allgather(const std::shared_ptr<gloo::Context> &context, size_t count)
{
	auto &in = *new std::vector<long>(count), &out = *new std::vector<long>(count * size);
	auto &algorithm = *new gloo::AllgatherRing<long>(context, { in.data() }, out.data(), static_cast<int>(count));

	for (size_t i = 0; i < count; i++)
		in[i] = value(rank, i);
	algorithm.run();
	for (size_t i = 0; i < out.size(); i++) {
		if (out[i] != value(static_cast<int>(i / count), i % count))
			wrong("allgather", count, i);
	}
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 6) {
		fprintf(stderr, "gloo DEVICE GID-INDEX RANK SIZE DIRECTORY\n");
		return 2;
	}
	rank = atoi(argv[3]);
	size = atoi(argv[4]);
	auto device = gloo::transport::ibverbs::CreateDevice({ argv[1], 1, atoi(argv[2]) });
	auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
	gloo::rendezvous::FileStore store(argv[5]);

	context->connectFullMesh(store, device);
	for (size_t count : { 1, 1000, 300000 }) {
		allreduce<gloo::AllreduceRingChunked<long>>(context, "allreduce (ring)", count);
		allreduce<gloo::AllreduceHalvingDoubling<long>>(context, "allreduce (halving)", count);
		broadcast(context, count);
		allgather(context, count);
	}
	(new gloo::BarrierAllToAll(context))->run();
	printf("rank %d of %d: all is well\n", rank, size);
	fflush(stdout);
	_exit(0);
}
