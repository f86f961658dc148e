# SPDX-License-Identifier: Apache-2.0
"""Program that imports libraries once and runs other programs in forks of itself, each as ``python -c`` would.

See :mod:`tests.support.fork_server`. Nothing of the project is imported before a program asks for it.
"""

import importlib
import json
import os
import sys
from typing import Any

import garbage  # from the folder of this program

LIBRARIES = ("h5py", "hypothesis", "numba.cuda", "pytest", "scipy.ndimage", "scipy.optimize")


def become(asked: dict[str, Any]) -> None:
    """Make of a forked process one that was started with the environment, files and arguments."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, name in ((1, asked["out"]), (2, asked["err"])):
        file = os.open(name, os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["-c", *asked["arguments"]]


if __name__ == "__main__":
    sys.path[0] = ""  # where ``python -c`` looks
    for library in LIBRARIES:
        importlib.import_module(library)
    garbage.freeze()  # what a program would look through and so copy
    for line in sys.stdin:
        if not (child := os.fork()):
            asked = json.loads(line)
            become(asked)
            exec(compile(asked["program"], "<string>", "exec"), {"__name__": "__main__"})
            sys.exit()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
