# SPDX-License-Identifier: GPL-2.0
"""Two ranks of MPI exchange data, in messages and collectives of several sizes, and compare them with
what they compute themselves."""

import sys

from mpi4py import MPI

ROUNDS = 3
SIZES = (1, 64, 4000, 70_000, 1_000_000)


def pattern(rank, size, turn):
    return bytes((rank * 7 + turn * 13 + i) % 251 for i in range(min(size, 251))) * (size // 251 + 1)


def main():
    world = MPI.COMM_WORLD
    rank, peer = world.rank, 1 - world.rank
    if world.size != 2:
        sys.exit(f"{world.size} ranks, not 2")
    for size in SIZES:
        for turn in range(ROUNDS):
            mine, theirs = (pattern(who, size, turn)[:size] for who in (rank, peer))
            got = bytearray(size)
            world.Sendrecv(mine, peer, turn, got, peer, turn)
            if got != theirs:
                sys.exit(f"{size} bytes, turn {turn}: not what was sent")
            everyone = world.allgather(mine[:100])
            if everyone != [pattern(who, size, turn)[:size][:100] for who in (0, 1)]:
                sys.exit(f"{size} bytes, turn {turn}: allgather differs")
            if world.allreduce(rank + turn) != 1 + 2 * turn:
                sys.exit("a wrong sum")
    world.Barrier()
    print(f"rank {rank} of {MPI.Get_processor_name()}: {len(SIZES) * ROUNDS} exchanges")


if __name__ == "__main__":
    main()
