# SPDX-License-Identifier: Apache-2.0
"""Link: the outputs of a stage for a run that has them in common with another scenario of its case.

The links are symbolic, since Snakemake sets the time of each output of a job when it has ended: through a hard link
that would be the time of the given file, too, and whatever had been made of it would be made again. Where the disk has
no symbolic links the files are copied.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path


def link(given: list[Path], made: list[Path]) -> None:
    """Let files appear in another place, each whole or not at all.

    The way from one to the other is relative, so that the folder of all results can be moved.
    """
    for old, new in zip(given, made, strict=True):
        target, partial = old.resolve(strict=True), new.with_name(f".{new.name}.partial")
        if target == new.resolve():
            continue  # one file already
        new.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)  # of a killed run
        try:
            partial.symlink_to(os.path.relpath(target, new.parent.resolve()))
        except OSError:
            shutil.copy2(old, partial)
        partial.replace(new)


def main() -> None:
    """Command line: as many files given as are to be made, and the log of the stage, which is copied."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.link", description=__doc__)
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
