"""Link: the outputs of a stage for a run that has them in common with another scenario of its case.

Stages replace their outputs and never change them, so that a hard link keeps what it was made of; where the disk has no
hard links the files are copied.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path


def link(given: Path, made: Path) -> None:
    """Let a file appear in another place, whole or not at all."""
    partial = made.with_name(f".{made.name}.partial")
    made.parent.mkdir(parents=True, exist_ok=True)
    partial.unlink(missing_ok=True)
    try:
        os.link(given, partial)
    except OSError:
        shutil.copy2(given, partial)
    partial.replace(made)
    partial.unlink(missing_ok=True)  # left where both are one file already


def main() -> None:
    """Command line: as many files given as are to be made, and the log of the stage, which is copied."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.link", description=__doc__)
    for option, text in (("given", "outputs of the stage"), ("made", "where to link to them, in the same order")):
        parser.add_argument(f"--{option}", type=Path, nargs="+", required=True, help=text, metavar="PATH")
    parser.add_argument("--given-log", type=Path, required=True, help="log of the stage", metavar="PATH")
    parser.add_argument("--log", type=Path, required=True, help="where to copy it", metavar="PATH")
    arguments = parser.parse_args()
    try:
        for given, made in zip(arguments.given, arguments.made, strict=True):
            link(given, made)
        arguments.log.parent.mkdir(parents=True, exist_ok=True)
        if arguments.given_log.is_file():
            shutil.copy2(arguments.given_log, arguments.log)
    except OSError as error:
        sys.exit(f"link: error: {error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
