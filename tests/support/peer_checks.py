# SPDX-License-Identifier: Apache-2.0
"""Messages and sums from device to device on simulators: the first rank prints how many were right on all ranks.

mpirun -n K python -m tests.support.peer_checks
"""

import json
import time
from itertools import permutations

import numpy as np

from solver.backends.communicator import world
from solver.kernels.sums import LIMBS
from tests.support.simulator import make_fast

ROUNDS, NUMBERS = 6, 40


def sent(round_: int, rank: int) -> np.ndarray:
    """What a rank has in its array before a round."""
    return np.random.default_rng((1, round_, rank)).random(2 * NUMBERS)


def limbs(round_: int, rank: int) -> np.ndarray:
    """What a rank adds to two sums in three parts, with limbs beyond what a float holds."""
    return np.random.default_rng((2, round_, rank)).integers(-(2**60), 2**60, (2, 3, LIMBS)) // 64


def main() -> None:
    """Each sends some numbers to each other, but for the last two, of which one sends nothing back; ranks lag behind
    each other by random times.
    """
    make_fast()
    from solver.backends.cuda.device import Queue, cuda
    from solver.backends.cuda.peer_buffers import PeerBuffers, PeerSum
    from solver.backends.cuda.peer_memory import why_not_connected

    ranks, queue, drawn = world(), Queue(), np.random.default_rng(0)
    places = {
        (one, other): np.sort(drawn.choice(NUMBERS, drawn.integers(1, 12), replace=False))
        for one, other in permutations(range(ranks.size), 2)
        if (one, other) != (ranks.size - 1, ranks.size - 2)
    }
    outgoing = {other: at for (one, other), at in places.items() if one == ranks.rank}
    ends = np.cumsum([0, *(len(at) for (_, other), at in places.items() if other == ranks.rank)]) + NUMBERS
    senders = [one for one, other in places if other == ranks.rank]
    incoming = {one: slice(*ends[k : k + 2].tolist()) for k, one in enumerate(senders)}
    assert why_not_connected(ranks) == ""
    array = cuda.to_device(np.zeros(2 * NUMBERS))
    buffers, added, right = PeerBuffers(array, outgoing, incoming, queue, ranks), PeerSum(2, queue, ranks), 0
    for round_ in range(ROUNDS):
        time.sleep(0.02 * np.random.default_rng((3, round_, ranks.rank)).random())
        array.copy_to_device(sent(round_, ranks.rank))
        buffers.pack()
        buffers.unpack()
        here, awaited = array.copy_to_host(), sent(round_, ranks.rank)
        for one, at in incoming.items():
            awaited[at] = sent(round_, one)[places[one, ranks.rank]]
        total = cuda.to_device(np.zeros((2, 1, LIMBS), np.int64))
        added.add_up(cuda.to_device(limbs(round_, ranks.rank)), total)
        all_limbs = sum(limbs(round_, rank).sum(axis=1) for rank in range(ranks.size))
        right += np.array_equal(here, awaited) and np.array_equal(total.copy_to_host()[:, 0], all_limbs)
    everywhere = ranks.join(np.array([right])).tolist()
    if ranks.rank == 0:
        print(json.dumps({"right": everywhere, "bytes": buffers.sent_bytes}))


if __name__ == "__main__":
    main()
