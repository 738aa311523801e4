# SPDX-License-Identifier: GPL-2.0
"""Two ranks of MPI write, read and count in each other's memory, and compare what comes of it."""

import struct
import sys

from mpi4py import MPI

ROUNDS = 50
SIZE = 64 << 10
# Of a rank's window: a counter that both ranks increase, another one, and data behind them.
COUNTER, SWAPPED, DATA = 0, 8, 16


def word(value=0):
    return bytearray(struct.pack("q", value))


def of(data):
    return struct.unpack("q", data)[0]


def main():
    world = MPI.COMM_WORLD
    rank, peer = world.rank, 1 - world.rank
    window = MPI.Win.Allocate(DATA + SIZE, 1, MPI.INFO_NULL, world)
    memory = window.tomemory()
    memory[:] = bytes(DATA + SIZE)
    world.Barrier()
    window.Lock_all()

    # Both write to each other, and read back what they have written.
    mine = bytes((rank + 3 * i) % 251 for i in range(251)) * (SIZE // 251 + 1)
    mine, got = mine[:SIZE], bytearray(SIZE)
    window.Put([mine, MPI.BYTE], peer, (DATA, SIZE, MPI.BYTE))
    window.Flush(peer)
    window.Get([got, MPI.BYTE], peer, (DATA, SIZE, MPI.BYTE))
    window.Flush(peer)
    if got != mine:
        sys.exit("not what was written is read")
    print(f"rank {rank}: wrote and read", flush=True)

    # Both count in the memory of rank 0.
    seen, swapped = [], 0
    for _ in range(ROUNDS):
        old = word()
        window.Fetch_and_op([word(1), MPI.INT64_T], [old, MPI.INT64_T], 0, COUNTER, MPI.SUM)
        window.Flush(0)
        seen.append(of(old))
    print(f"rank {rank}: added", flush=True)
    expected = 0
    while swapped < ROUNDS:
        old = word()
        window.Compare_and_swap([word(expected + 1), MPI.INT64_T], [word(expected), MPI.INT64_T],
                                [old, MPI.INT64_T], 0, SWAPPED)
        window.Flush(0)
        if of(old) == expected:
            swapped += 1
            expected += 1
        else:
            expected = of(old)
    print(f"rank {rank}: swapped", flush=True)
    window.Unlock_all()
    everyone = sorted(sum(world.allgather(seen), []))
    if everyone != list(range(2 * ROUNDS)):
        sys.exit(f"increments have found {everyone}")
    if rank == 0 and (of(memory[COUNTER:8]), of(memory[SWAPPED:16])) != (2 * ROUNDS, 2 * ROUNDS):
        sys.exit("a wrong sum")
    window.Free()
    print(f"rank {rank} of {MPI.Get_processor_name()}: {2 * ROUNDS} increments")


if __name__ == "__main__":
    main()
