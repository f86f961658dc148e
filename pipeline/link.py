"""Link: the outputs of a stage for a run that has them in common with another scenario of its case.

Stages replace their outputs and never change them, so that a hard link keeps what it was made of; where the disk has no
hard links the files are copied.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path


def link(given: list[Path], made: list[Path]) -> None:
    """Let files appear in another place, each whole or not at all.

    All are then as old as the youngest of them, in both places: what is made must not be older than any of what is
    given, and what was made of these since stays younger.
    """
    latest_ns = max(path.stat().st_mtime_ns for path in given)
    for old, new in zip(given, made, strict=True):
        partial = new.with_name(f".{new.name}.partial")
        new.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)  # of a killed run
        try:
            os.link(old, partial)
        except OSError:
            shutil.copy2(old, partial)
        os.utime(partial, ns=(latest_ns, latest_ns))
        partial.replace(new)
        partial.unlink(missing_ok=True)  # which is left where both were one file already


def main() -> None:
    """Command line: as many files given as are to be made, and the log of the stage, which is copied."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.link", description=__doc__)
    for option, text in (("given", "outputs of the stage"), ("made", "where to link to them, in the same order")):
        parser.add_argument(f"--{option}", type=Path, nargs="+", required=True, help=text, metavar="PATH")
    parser.add_argument("--given-log", type=Path, required=True, help="log of the stage", metavar="PATH")
    parser.add_argument("--log", type=Path, required=True, help="where to copy it", metavar="PATH")
    arguments = parser.parse_args()
    try:
        link(arguments.given, arguments.made)
        arguments.log.parent.mkdir(parents=True, exist_ok=True)
        if arguments.given_log.is_file():
            shutil.copy2(arguments.given_log, arguments.log)
    except OSError as error:
        sys.exit(f"link: error: {error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
