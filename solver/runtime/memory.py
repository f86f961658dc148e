# SPDX-License-Identifier: Apache-2.0
"""Memory of this machine."""

import gc
import os
from pathlib import Path

MEMINFO, OWN_GROUP, GROUPS = Path("/proc/meminfo"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""Where Linux says how much memory is free, and how much of it a container or a job may have."""

OBJECTS = 20_000
"""Made and not yet freed before Python looks for garbage: at its own 700 that is a tenth of compilation."""


def seldom_collect() -> None:
    """Look for garbage seldom, and not among what has been imported, which stays till the end."""
    gc.freeze()
    gc.set_threshold(OBJECTS)


def gigabytes(count: float) -> str:
    """Bytes as text."""
    return f"{count / 1e9:.3g} GB"


def available_bytes() -> float:
    """Memory of this machine that a process can still take: what the kernel says, or all of it where it says nothing,
    and no more than the process's control groups may have (containers, jobs of a cluster).
    """
    available = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    if MEMINFO.exists():
        fields = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        available = 1024.0 * int(fields["MemAvailable"].split()[0])
    return min([available, *_group_limits()])


def _group_limits() -> list[float]:
    """Limits of the control groups (version 2) that the process belongs to."""
    lines = OWN_GROUP.read_text().splitlines() if OWN_GROUP.exists() else []
    group = GROUPS / next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    files = [folder / "memory.max" for folder in (group, *group.parents) if folder.is_relative_to(GROUPS)]
    texts = [file.read_text().strip() for file in files if file.exists()]
    return [float(text) for text in texts if text != "max"]


def peak_memory_mb() -> dict[str, float]:
    """The most memory that this process has held, and that of the processes that work for it, where there are any.

    Linux counts for each program from its start; the figure of :mod:`resource` also counts the program that a process
    ran before, which is Snakemake.
    """
    own, helpers = 0.0, 0.0
    for file in Path("/proc").glob("[0-9]*/status"):
        try:
            entries = dict(line.partition(":\t")[::2] for line in file.read_text(errors="replace").splitlines())
        except OSError:  # ended meanwhile
            continue
        megabytes = int(entries.get("VmHWM", "0 kB").split()[0]) / 1024
        if entries.get("Pid") == str(os.getpid()):
            own = megabytes
        elif entries.get("PPid") == str(os.getpid()):
            helpers += megabytes
    return {"peak_memory_mb": round(own, 1)} | ({"peak_memory_of_helpers_mb": round(helpers, 1)} if helpers else {})
