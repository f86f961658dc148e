# SPDX-License-Identifier: Apache-2.0
"""Messages from device to device: a kernel writes numbers into the memory of other devices and then, there, how many
messages it has sent; theirs wait until that number has come.

A message lands in one of two places in turn. That is enough where each of two devices sends to the other: who sends
message k + 2 has received k + 1 of the other, which that sent after it had read k.
"""

from functools import cache
from typing import Any

from solver.backends.cuda.device import cuda, kernel
from solver.backends.cuda.instructions import announce, announced
from solver.kernels.sums import LIMBS


# long and many parameters because the kernels share how they send and wait, and take each array by itself
@cache
def make_peer_pass() -> tuple[Any, Any, Any, Any]:
    """Kernels that send numbers of an array; that wait for those of peers, in one block, which then receive them; that
    add up limbs of all ranks, in one block.

    Each begins with the arrays that it reads or writes and ends with how it speaks to others: `number`, (1,), of the
    messages that were sent; `done`, (1,), the blocks that have written theirs; `rank`, the own one; the memory of those
    who are sent to, (2, K) of `places` and (R,) of `sent`, each of them in a tuple; the peers; and the own memory.
    """

    @cuda.jit(device=True)
    def leave(number: Any, done: Any, rank: int, sent: Any) -> None:
        """The last block to have written says so."""
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            cuda.threadfence_system()
            if cuda.atomic.add(done, 0, 1) == cuda.gridDim.x - 1:
                done[0] = 0
                cuda.threadfence_system()
                count = number[0] + 1
                for peer in range(len(sent)):
                    announce(sent[peer], rank, count)
                number[0] = count

    @cuda.jit(device=True)
    def arrive(count: int, peers: Any, sent: Any) -> None:
        """Wait until each peer has sent so many messages, as have left here; a thread for each."""
        for k in range(cuda.threadIdx.x, peers.shape[0], cuda.blockDim.x):
            while announced(sent, peers[k]) < count:
                pass
        cuda.syncthreads()

    @kernel()
    def send(
        array: Any, at: Any, peer: Any, there: Any, number: Any, done: Any, rank: int, places: Any, sent: Any
    ) -> None:
        k = cuda.grid(1)
        if k < at.shape[0]:
            places[peer[k]][number[0] & 1, there[k]] = array[at[k]]
        leave(number, done, rank, sent)

    @kernel()
    def wait(number: Any, peers: Any, sent: Any) -> None:
        arrive(number[0], peers, sent)

    @kernel()
    def receive(array: Any, at: Any, number: Any, places: Any) -> None:
        k = cuda.grid(1)
        if k < at.shape[0]:
            array[at[k]] = places[(number[0] - 1) & 1, k]

    @kernel()
    def add_up(
        limbs: Any,
        into: Any,
        number: Any,
        done: Any,
        rank: int,
        places: Any,
        sent: Any,
        peers: Any,
        own: Any,
        own_sent: Any,
    ) -> None:
        size, before = limbs.shape[0] * LIMBS, number[0]
        place = before & 1
        for k in range(cuda.threadIdx.x, size, cuda.blockDim.x):
            found = limbs[k // LIMBS, 0, k % LIMBS]
            for part in range(1, limbs.shape[1]):
                found += limbs[k // LIMBS, part, k % LIMBS]
            for peer in range(len(places)):
                places[peer][place, rank * size + k] = found
        leave(number, done, rank, sent)
        arrive(before + 1, peers, own_sent)
        for k in range(cuda.threadIdx.x, size, cuda.blockDim.x):
            total = own[place, k]
            for other in range(1, peers.shape[0]):
                total += own[place, other * size + k]
            into[k // LIMBS, 0, k % LIMBS] = total

    return send, wait, receive, add_up
