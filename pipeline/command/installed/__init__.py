# SPDX-License-Identifier: Apache-2.0
"""HemoLattice as it is installed: its command, and in the folder ``project`` all that this runs.

That folder is put on the path of the command's own process and of those that it starts, so that no other program finds
modules called as the project's rooms. pyproject.toml says which files it holds.
"""

import sys
from pathlib import Path

PROJECT = Path(__file__).parent / "project"
"""Where the workflow, its programs, configuration and data lie."""


def main() -> None:
    """Run the command with the words of the command line."""
    sys.path.insert(0, str(PROJECT))
    from pipeline.command.__main__ import main as command

    sys.exit(command())
