# SPDX-License-Identifier: Apache-2.0
"""Program that imports libraries once and runs other programs in forks of itself, each as ``python -c`` would.

See :mod:`tests.support.fork_server`. Nothing of the project is imported before a program asks for it.
"""

import importlib
import sys
from typing import Any

import forking  # like garbage, from the folder of this program
import garbage

LIBRARIES = ("h5py", "hypothesis", "numba.cuda", "pytest", "scipy.ndimage", "scipy.optimize")


def prepare() -> None:
    for library in LIBRARIES:
        importlib.import_module(library)
    garbage.freeze()  # what a program would look through and so copy


def run(asked: dict[str, Any]) -> None:
    sys.argv = ["-c", *asked["arguments"]]
    exec(compile(asked["program"], "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    sys.argv, sys.path[0] = sys.argv[:2], ""  # where ``python -c`` looks
    forking.serve(prepare, run)
