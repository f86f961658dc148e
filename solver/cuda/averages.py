"""Running means of fields."""

from functools import cache
from typing import Any

from solver.cuda.device import cuda


@cache
def make_fold() -> Any:
    """Kernel ``(mean, values, share)``: mean += share (values - mean), over flat arrays."""

    @cuda.jit
    def fold(mean: Any, values: Any, share: Any) -> None:
        k = cuda.grid(1)
        if k < mean.shape[0]:
            mean[k] += share * (values[k] - mean[k])

    return fold
