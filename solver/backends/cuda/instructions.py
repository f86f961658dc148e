# SPDX-License-Identifier: Apache-2.0
"""Instructions that Numba has none for, in the device's own words; on the simulator, functions that do as much."""

import time
from typing import Any

from numba import config

from solver.backends.cuda.device import cuda
from solver.kernels.numba_internals import ir

SIMULATED_PAUSE_S = 5e-5
"""Before a simulator looks whether something has come: another one may need the core to send it."""


def prefetch(array: Any, index: int) -> None:
    """Ask for the line of the number at an index to be brought into the cache that all threads share."""


def announce(sent: Any, rank: int, number: int) -> None:
    """Let another device see that all that was written before is there: the messages `sent` of a rank are so many.

    Parameters
    ----------
    sent : numbers of messages, (ranks,), in the memory of the other device.
    rank : this one's place in it.
    number : of messages so far.
    """
    sent[rank] = number


def announced(sent: Any, rank: int) -> Any:
    """How many messages of a rank are there, all of which can be read from now on."""
    time.sleep(SIMULATED_PAUSE_S)
    return sent[rank]


def _instructions() -> tuple[Any, Any, Any]:
    """What these are on a device: a prefetch; a store that releases and a load that acquires, which all devices and the
    host agree on (PTX ISA, memory consistency model).
    """
    from numba import types
    from numba.cuda.extending import intrinsic

    word, nothing = ir.IntType(64), ir.VoidType()

    def instruction(text: str, back: Any, operands: str) -> Any:
        """Code that does an instruction with the address of an element, and with what follows after its index."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            address = builder.ptrtoint(builder.gep(data, [arguments[1]]), word)
            kind = ir.FunctionType(back, [word] * (len(arguments) - 1))
            called = builder.call(ir.InlineAsm(kind, text, operands, side_effect=True), [address, *arguments[2:]])
            return context.get_dummy_value() if back is nothing else called

        return generate

    @intrinsic
    def fetch(typing: Any, array: Any, index: Any) -> Any:
        return types.void(array, types.int64), instruction("prefetch.global.L2 [$0];", nothing, "l")

    @intrinsic
    def release(typing: Any, sent: Any, rank: Any, number: Any) -> Any:
        text = "st.release.sys.global.u64 [$0], $1;"
        return types.void(sent, types.int64, types.int64), instruction(text, nothing, "l,l,~{memory}")

    @intrinsic
    def acquire(typing: Any, sent: Any, rank: Any) -> Any:
        text = "ld.acquire.sys.global.u64 $0, [$1];"
        return types.int64(sent, types.int64), instruction(text, word, "=l,l,~{memory}")

    return fetch, release, acquire


if cuda and not config.ENABLE_CUDASIM:
    prefetch, announce, announced = _instructions()
