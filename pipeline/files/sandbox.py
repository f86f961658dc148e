# SPDX-License-Identifier: Apache-2.0
"""Sandbox: work on untrusted data, done by libraries in C and C++ in a process of its own.

Damaged data can crash such a library, keep it busy for minutes or let it ask for all memory, and what it prints may
quote the data. In a process of its own, silent and limited in time and memory, that ends in an exception. The process
starts with the first request and serves all others; it ends with the one that started it, or when it fails.

A request is a line of JSON, with the number of the bytes that follow it, on standard input. The answer is a line,
``done``, ``refused`` or ``failed`` and the number of bytes that follow: of the result, or of what is wrong in words.
"""

import atexit
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

from solver.runtime.errors import StageError
from solver.runtime.sources import ROOT

READY = b"ready\n"


class SandboxError(Exception):
    """The work failed, crashed, or took more time or memory than it may."""


class Sandbox:
    """A child process that serves the requests of a module.

    Parameters
    ----------
    module : dotted name of one that, run as a program, calls :func:`serve`.
    """

    def __init__(self, module: str) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._module, self._lock = module, threading.Lock()
        atexit.register(self._end)

    def ask(self, request: dict[str, Any], data: bytes, seconds: float) -> bytes:
        """The answer to a request.

        Parameters
        ----------
        request : what JSON can hold.
        data : bytes that come with it.
        seconds : longest that the answer may take.

        Raises
        ------
        SandboxError
            If the work fails, crashes, or takes too long or too much memory.
        StageError
            With what the work refuses, or if the process does not start.
        """
        with self._lock:
            process = self._running()
            limit = threading.Timer(seconds, process.kill)
            limit.start()
            try:
                return _ask(process, request | {"length": len(data)}, data)
            except (SandboxError, StageError):
                raise
            except BaseException as error:  # the next answer would be that to this request
                process.kill()
                process.wait()
                if isinstance(error, (OSError, ValueError)):  # it crashed, or the limit was reached
                    raise SandboxError from None
                raise
            finally:
                limit.cancel()

    def _running(self) -> subprocess.Popen[bytes]:
        """The process, started again if there is none."""
        if self.process and self.process.poll() is None:
            return self.process
        self.process = subprocess.Popen(
            [sys.executable, "-m", self._module],
            cwd=ROOT,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # each thread would take address space
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if self.process.stdout is None or self.process.stdout.readline() != READY:
            raise StageError(f"{self._module} does not start; install the packages of requirements.lock")
        return self.process

    def _end(self) -> None:
        """Let the process end with this one, and take its pipes along."""
        if self.process:
            self.process.kill()
            self.process.communicate()


def _ask(process: subprocess.Popen[bytes], request: dict[str, Any], data: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request).encode() + b"\n" + data)
    process.stdin.flush()
    status, length = process.stdout.readline().split()  # nothing, where the process has ended
    answer = process.stdout.read(int(length))
    if len(answer) < int(length):
        raise OSError
    if status == b"refused":
        raise StageError(answer.decode())
    if status == b"failed":
        raise SandboxError
    return answer


def serve(work: Callable[[dict[str, Any], bytes], bytes], memory_bytes: int, libraries: tuple[str, ...] = ()) -> None:
    """Be the process: answer requests until there are no more.

    Parameters
    ----------
    work : makes the answer of a request and the bytes that came with it.
    memory_bytes : address space of the process.
    libraries : modules that only this process imports.
    """
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for library in libraries:
        import_module(library)
    answers.write(READY)
    answers.flush()
    while line := requests.readline():
        request = json.loads(line)
        data = requests.read(request["length"])
        try:
            status, answer = "done", work(request, data)
        except StageError as error:
            status, answer = "refused", str(error).encode()
        except Exception:  # the libraries raise almost anything
            status, answer = "failed", b""
        answers.write(f"{status} {len(answer)}\n".encode() + answer)
        answers.flush()
