# SPDX-License-Identifier: Apache-2.0
"""How sure the mean of a flow that fluctuates is where it ends early: numbers of a process whose mean is known.

    python benchmarks/mean_length.py [--trials 100] [--json FILE]

A signal forgets exponentially over some flow-through times, or swings with a period of 0.3 to 3 of them while its size
and phase wander so. Its mean is taken over 4 flow-through times or more, up to 10, until the standard error of the
solver is below a part of a bound, which is 0.3 to 3 of the signal's own fluctuation. Told is how often the mean then
lies within the bound, of those that ended so, and how long they took.
"""

import argparse

import numpy as np
from bench import add_results, write_results
from comparison import table
from numpy.typing import NDArray

from solver.run.convergence import standard_error

ROWS = 40
"""Of a flow-through time."""
LEAST, MOST, EVERY = 4, 10, 0.5
"""Flow-through times after which a mean may end, at which it would in any case, and between two looks at it."""
PARTS, BOUNDS, MEMORIES = (0.5, 1 / 3, 0.25), (0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0), (0.1, 0.3, 1.0, 2.0, 4.0)
"""Of the bound; bounds over the fluctuation; flow-through times."""

Reals = NDArray[np.float64]


def forgetful(rng: np.random.Generator, memory: float) -> Reals:
    """Normal numbers of a process that forgets exponentially, a row each."""
    keep = np.exp(-1 / ROWS / memory)
    x = rng.standard_normal(MOST * ROWS)
    for k in range(1, len(x)):
        x[k] = keep * x[k - 1] + np.sqrt(1 - keep**2) * x[k]
    return x


def swinging(rng: np.random.Generator, memory: float) -> Reals:
    """A swing of unit variance whose size and phase are forgotten so."""
    angle = 2 * np.pi * np.arange(MOST * ROWS) / ROWS / rng.uniform(0.3, 3) + rng.uniform(0, 2 * np.pi)
    x = (1 + 0.7 * forgetful(rng, memory)) * np.cos(angle + 0.3 * forgetful(rng, memory))
    return np.asarray(x / x.std())


def ends(x: Reals) -> dict[float, list[tuple[bool, float]]]:
    """By part of the bound: whether the mean is within the bound where it ends early, and after how long."""
    counts = range(LEAST * ROWS, MOST * ROWS, int(EVERY * ROWS))
    seen = [(count, standard_error(x[:count, None]), abs(float(x[:count].mean()))) for count in counts]
    found: dict[float, list[tuple[bool, float]]] = {part: [] for part in PARTS}
    for part in PARTS:
        for bound in BOUNDS:
            early = next((each for each in seen if each[1] < part * bound), None)
            if early:
                found[part].append((early[2] < bound, early[0] / ROWS))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100, help="signals of each kind and memory")
    add_results(parser)
    options, rng, records = parser.parse_args(), np.random.default_rng(20261203), []
    for kind in (forgetful, swinging):
        for memory in MEMORIES:
            found = [ends(kind(rng, memory)) for _ in range(options.trials)]
            for part in PARTS:
                each = [one for trial in found for one in trial[part]]
                record = {"kind": kind.__name__, "memory_throughs": memory, "part": round(part, 3)}
                within, spans = np.array(each).T
                more = {"ended": len(each), "of": options.trials * len(BOUNDS), "within": round(within.mean(), 3)}
                records.append({**record, **more, "throughs": round(spans.mean(), 2)})
    file = write_results(options, "mean-length", records)
    print(table([*records[0]], [[str(value) for value in each.values()] for each in records]), file)


if __name__ == "__main__":
    main()
