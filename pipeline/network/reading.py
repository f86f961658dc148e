# SPDX-License-Identifier: Apache-2.0
"""A network from its file: read, edited as it says, and checked."""

import logging
from collections.abc import Sequence
from pathlib import Path

from pipeline.case.settings.network_edits import Edit
from pipeline.network.checks import loops, require_sound
from pipeline.network.edits import apply
from pipeline.network.network_file import Network, read_network

log = logging.getLogger(__name__)


def sound_network(path: Path, edits: Sequence[Edit] = (), source: str = "") -> Network:
    """The network of a file with its edits, and others after them, applied and checked; see :func:`edited_network`.

    Parameters
    ----------
    path : of the file.
    edits : that are applied after those of the file.
    source : where they come from, for messages.
    """
    return edited_network(path, edits, source)[0]


def edited_network(path: Path, edits: Sequence[Edit] = (), source: str = "") -> tuple[Network, list[str]]:
    """The network of a file with its edits, and others after them, applied and checked; and what each edit did.

    Parameters
    ----------
    path : of the file.
    edits : of a case, which follow on those of the file.
    source : of these edits, for messages.

    Raises
    ------
    StageError
        One line a mistake, each with file, key, value and remedy.
    """
    network = read_network(path)
    require_sound(network.changed(edits=()), str(path))
    edited, lines = apply(network, network.edits, str(path))
    edited, more = apply(edited, edits, source)
    for line in (*lines, *more):
        log.info("%s: %s", path.name, line)
    if lines or more:
        require_sound(edited, f"{path}, edited")
    if found := loops(edited):
        log.info("%s: has %d closed loop%s", path.name, found, "" if found == 1 else "s")
    return edited, [*lines, *more]
