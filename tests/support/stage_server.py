# SPDX-License-Identifier: Apache-2.0
"""Stages of a workflow without the imports of libraries, which are most of the second or two that one takes.

A server imports the libraries once, none of the project's modules, whose copies differ from test to test, and forks for
each stage. What Snakemake starts in place of Python, ``stage_client.py``, asks it. In an environment of which libraries
took another on their import, a stage is started from nothing.
"""

import gc
import importlib
import json
import os
import runpy
import shlex
import shutil
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

LIBRARIES = (
    "h5py",
    "jinja2",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "numba.cuda",
    "numpy",
    "PIL.Image",
    "pydantic.main",
    "pydicom",
    "scipy.interpolate",
    "scipy.ndimage",
    "scipy.optimize",
    "scipy.sparse.csgraph",
    "scipy.spatial.transform",
    "SimpleITK",
    "skimage.draw",
    "skimage.filters",
    "skimage.measure",
    "skimage.morphology",
    "skimage.segmentation",
    "skimage.transform",
    "vtkmodules.util.numpy_support",
    "vtkmodules.vtkFiltersCore",
    "vtkmodules.vtkFiltersFlowPaths",
    "vtkmodules.vtkIOXML",
    "yaml",
)
READ_ON_IMPORT = ("OMP_", "OPENBLAS_", "MPL", "LD_", "NUMBA_", "PYTHON")
"""Beginnings of variables of the environment that libraries take, most of them when they are imported."""
READ_LATER = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "PYTHONPATH")
"""Of these, what a fork takes for itself: the first, which rules set, Numba reads again. OpenBLAS, which has its own
variable, does not ask for the second, and no other library with OpenMP is loaded yet.
"""
CLIENT = Path(__file__).with_name("stage_client.py")


def begin() -> str:
    """Start the server, which lives as long as this process; the path of what to start in place of Python."""
    folder = Path(tempfile.mkdtemp(prefix="stages-"))
    place, python = folder / "socket", folder / "python"
    command = shlex.join([sys.executable, "-IS", str(CLIENT), str(place), sys.executable])
    python.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    python.chmod(0o755)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen()
    if not os.fork():
        _serve(listener)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)
    listener.close()
    return str(python)


def _serve(listener: socket.socket) -> None:
    """Fork for each that asks, until the process that started this one has ended.

    What ends a stage goes up from here through all that called it, as in a program that has just been started.
    """
    owner, imported = os.getppid(), False
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in (0, 1):  # on which its owner is spoken to, and waited for
        os.dup2(nothing, file)
    listener.settimeout(1)
    while os.getppid() == owner:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        try:
            asker, _ = listener.accept()
        except TimeoutError:
            continue
        if not imported:
            _import()
            imported = True
        if not os.fork():
            listener.close()
            _answer(asker)
        asker.close()


def _import() -> None:
    """The libraries, with what Numba looks up of itself when it is first used, if only to load a loop."""
    for library in LIBRARIES:
        importlib.import_module(library)
    sys.modules["numba"].njit(lambda: None)()  # an eighth of a second
    gc.freeze()  # what a stage would look through and so copy


def _taken(environment: dict[str, str]) -> dict[str, str]:
    """What libraries take from an environment when they are imported."""
    return {
        name: value for name, value in environment.items() if name.startswith(READ_ON_IMPORT) and name not in READ_LATER
    }


def _answer(asker: socket.socket) -> None:
    """Run what is asked for in a fork, and say how it ended; neither process returns."""
    asker.settimeout(None)
    _, files, _, _ = socket.recv_fds(asker, 1, 3)
    asked = json.loads(asker.makefile("rb").readline())
    if _taken(asked["environment"]) != _taken(dict(os.environ)):
        asker.sendall(b"0\n")
        os._exit(0)
    if not (child := os.fork()):
        asker.close()
        _become(asked, files)
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
        sys.exit()
    asker.sendall(f"{child}\n".encode())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(BrokenPipeError):  # who asked may have been killed, with its group
        asker.sendall(f"{status}\n".encode())
    os._exit(0)


def _become(asked: dict[str, Any], files: list[int]) -> None:
    """Make of a forked process one that was started with the environment, files and options."""
    os.setpgid(0, asked["group"])
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.modules["numba"].config.reload_config()
    searched = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    sys.path[:1] = [*([] if asked["safe"] else [asked["folder"]]), *searched]
    sys.argv = [asked["module"], *asked["options"]]
