# SPDX-License-Identifier: Apache-2.0
"""Settings of a cluster: what solve asks it for, by what is expected of a run."""

from math import ceil
from typing import Annotated

from pydantic import Field

from pipeline.case.settings.base import NonNegative, Positive, Section

LIBRARIES_MB = 2000
"""Memory of a solver's process beside that of its lattice: libraries, what they compile, a device's driver."""


class ClusterSettings(Section):
    """What solve asks a cluster for. The other stages ask for what the Snakemake profile says."""

    gpu: bool = Field(True, description="solve asks for a GPU, unless solve.backend of the case is cpu")
    gpu_memory_gb_s: Positive = Field(
        900.0, description="bandwidth of the slowest GPU's memory, from which follows how long solve will take there"
    )
    margin: Annotated[float, Field(ge=1, le=100)] = Field(
        2.0, description="times as long, and so much more memory, is asked for as is expected"
    )
    least_minutes: NonNegative = Field(10.0, description="beside that: what a job takes to begin and to end")
    max_minutes: Positive = Field(1440.0, description="longest time of a job that the partition allows")
    retries: Annotated[int, Field(ge=0)] = Field(
        3, description="how many further jobs a solve may go on in that its first did not bring to an end"
    )
    srun: str = Field(
        "--mpi=pmix", description="options of srun that start the ranks of solve.ranks with the site's MPI"
    )
    ranks_per_node: Annotated[int, Field(ge=1)] | None = Field(
        None, description="so many ranks on a machine, from which follows how many are asked for; none: as SLURM places"
    )
    network_us: NonNegative | None = Field(
        None,
        description="what a step of several ranks waits for messages and sums between machines, as measured; none: it"
        " was not, and the forecast has no network",
    )

    def seconds(self, computing_s: float, steps: int, ranks: int) -> float:
        """Time of a run on so many ranks: beside that of computing what its steps wait for the network.

        Parameters
        ----------
        computing_s : time of the run without others to wait for, s.
        steps : of the run.
        ranks : processes that run it.
        """
        return computing_s + (1e-6 * steps * (self.network_us or 0.0) if ranks > 1 else 0.0)

    def machines(self, ranks: int) -> int | None:
        """How many machines are asked for; none: as SLURM places the ranks."""
        return ceil(ranks / self.ranks_per_node) if self.ranks_per_node else None

    def minutes(self, expected_s: float, attempt: int) -> int:
        """Walltime of a job: longer from attempt to attempt, each of which goes on from where the one before ended."""
        return ceil(min(self.least_minutes + attempt * self.margin * expected_s / 60, self.max_minutes))

    def memory_mb(self, expected_bytes: float, attempt: int) -> int:
        """Memory of a job, or of each rank, more from attempt to attempt."""
        return ceil(LIBRARIES_MB + attempt * self.margin * expected_bytes / 1e6)
