# SPDX-License-Identifier: Apache-2.0
"""What tests with ranks need."""

import pytest

from solver.ranks.launch import require_mpi
from solver.runtime.errors import StageError


@pytest.fixture
def mpirun() -> str:
    try:
        return require_mpi(2)
    except StageError as missing:
        pytest.skip(str(missing))
