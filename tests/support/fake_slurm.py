# SPDX-License-Identifier: Apache-2.0
"""A cluster faked on this machine: the commands of SLURM that the executor plugin calls, as one script of many names.

Each job has a folder: what sbatch was told (``options.json``), its state, and the process group of its step, to which
SLURM sends its signals.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

COMMANDS = ("sbatch", "srun", "sacct", "scancel", "squeue", "sinfo", "scontrol", "sshare", "sacctmgr")


class Cluster(NamedTuple):
    """Where the commands and the jobs of a faked cluster are."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """In which the commands are found before any others, and no GPU is."""
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return os.environ | {"PATH": path, "FAKE_SLURM": str(self.folder / "jobs"), "USER": "nobody"}

    def jobs(self, rule: str) -> list[dict[str, str]]:
        """What sbatch was told of the jobs of a rule, in their order, with the state and the step of each."""
        found = []
        for folder in sorted((self.folder / "jobs").iterdir(), key=lambda path: int(path.name)):
            options = json.loads((folder / "options.json").read_text())
            if options["comment"].startswith(f"rule_{rule}_") or options["comment"] == f"rule_{rule}":
                files = {
                    file.name: file.read_text() for file in folder.iterdir() if file.name in ("state", "step", "srun")
                }
                found.append(options | files)
        return found


def make_cluster(folder: Path) -> Cluster:
    """Put the commands into a folder."""
    (folder / "bin").mkdir(parents=True)
    (folder / "jobs").mkdir()
    script = folder / "bin" / "slurm"
    script.write_text(f"#!{sys.executable}\n" + Path(__file__).read_text())
    script.chmod(0o755)
    for name in COMMANDS:
        (folder / "bin" / name).symlink_to("slurm")
    return Cluster(folder)


def parsed(arguments: list[str]) -> dict[str, str]:
    """Options with their values, which follow after a blank or a sign of equality; --parsable has none."""
    options, rest = {}, list(arguments)
    while rest:
        name, _, value = rest.pop(0).partition("=")
        if not value and name != "--parsable":
            value = rest.pop(0)
        options[name.lstrip("-")] = value
    return options


def sbatch(jobs: Path, arguments: list[str]) -> None:
    """Take a job and run it at once, in a process of its own."""
    number = len([*jobs.iterdir()]) + 1
    while True:
        try:
            (folder := jobs / str(number)).mkdir()
            break
        except FileExistsError:  # submitted at the same time
            number += 1
    options = parsed(arguments)
    (folder / "state.new").write_text("RUNNING")
    (folder / "state.new").rename(folder / "state")
    (folder / "options.json").write_text(json.dumps(options))
    given = {"SLURM_JOB_ID": str(number)} | ({"SLURM_GPUS": options["gpus"]} if "gpus" in options else {})
    with open(options["output"].replace("%j", str(number)), "w") as log:  # noqa: PTH123
        subprocess.Popen(
            [sys.executable, __file__, "run", str(folder)],
            env=os.environ | given,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=options["D"],
            start_new_session=True,
        )
    print(number)


def run(folder: Path) -> None:
    """The script of a job, and how it ended."""
    ended = subprocess.run(json.loads((folder / "options.json").read_text())["wrap"], shell=True, check=False)
    (folder / "state.new").write_text("FAILED" if ended.returncode else "COMPLETED")
    (folder / "state.new").rename(folder / "state")


def srun(jobs: Path, arguments: list[str]) -> None:
    """A step of the job: a process group of its own. It has the GPUs that it asks for in its environment alone. Several
    tasks are ranks that the mpirun beside Python starts, which may not know of SLURM.
    """
    folder, given = jobs / os.environ["SLURM_JOB_ID"], []
    while arguments[0].startswith("-"):
        given.append(arguments.pop(0))
        if given[-1].startswith("--gpus="):
            os.environ["SLURM_GPUS_ON_NODE"] = given[-1].partition("=")[2]
    if os.getpgrp() != os.getpid():  # which leads none yet
        os.setpgid(0, 0)
    (folder / "step").write_text(str(os.getpid()))
    tasks = [option.partition("=")[2] for option in given if option.startswith("--ntasks=")]
    if tasks:
        (folder / "srun").write_text(json.dumps(given))
        for name in [name for name in os.environ if name.startswith("SLURM_")]:
            del os.environ[name]
        arguments = [str(Path(sys.executable).parent / "mpirun"), "-n", *tasks, *arguments]
    os.execvp(arguments[0], arguments)


def main(command: str, arguments: list[str]) -> None:
    """The command of this name."""
    jobs = Path(os.environ["FAKE_SLURM"])
    if arguments[:1] == ["run"]:
        run(Path(arguments[1]))
    elif command == "sbatch":
        sbatch(jobs, arguments)
    elif command == "srun":
        srun(jobs, arguments)
    elif command == "sacct" and "-X" in arguments and "--name" in arguments:
        for folder in jobs.iterdir():
            if (folder / "state").exists():
                print(f"{folder.name}|{(folder / 'state').read_text()}")
    elif command == "sinfo":
        print("PARTITION\nall*")
    elif command == "scontrol":
        print("MaxArraySize = 1001\nMinJobAge = 2 sec")


if __name__ == "__main__":
    main(Path(sys.argv[0]).name, sys.argv[1:])
