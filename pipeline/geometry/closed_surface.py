# SPDX-License-Identifier: Apache-2.0
"""The closed surface of a vessel with its openings, as the stages that make one leave it."""

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.files.mesh import Mesh, write_openings
from pipeline.geometry.branches.closing import LatticeNeeds, close_too_thin
from pipeline.geometry.branches.ends import name_openings
from pipeline.geometry.lattice.spacing import Extent
from pipeline.geometry.surface.clip import check_closed
from pipeline.geometry.surface.quality import triangle_quality
from solver.domain.nodes import Opening
from solver.runtime.provenance import Job


@dataclass(frozen=True)
class Surface:
    """The closed surface and its openings.

    Attributes
    ----------
    mesh : closed, outward normals, caps tagged with the openings' ids.
    openings : in the order of their ids 1..n.
    quality : counts and figures of the triangles of the iso-surface, uncut and cut; what smoothing did to the volume;
        which ends of the vessel stay closed, and why.
    """

    mesh: Mesh
    openings: tuple[Opening, ...]
    quality: dict[str, Any]

    def write(self, job: Job) -> None:
        """Write the outputs ``surface`` and ``openings`` of a stage."""
        self.mesh.write(job.outputs["surface"])
        write_openings(self.openings, job.outputs["openings"], quality=self.quality)
        job.facts["openings"] = len(self.openings)


class SurfaceStage(SurfaceSettings):
    """What the command line takes: the section ``surface``, and what voxelize will choose the spacing by."""

    lattice: LatticeNeeds | None = Field(None, description="none: the spacing is given, or side branches stay")


def without_too_thin(surface: Surface, settings: SurfaceSettings, needs: LatticeNeeds | None, job: Job) -> Surface:
    """The surface without branches that carry next to nothing and are too thin for the lattice.

    Parameters
    ----------
    surface : with its openings and quality.
    settings : names and roles of the openings.
    needs : by what the lattice's spacing is chosen; none: nothing is closed.
    job : its log tells of what is closed.

    Returns
    -------
    The surface as it was where nothing is closed; else with the records of the branches in its quality.
    """
    if not needs:
        return surface
    mesh, records = close_too_thin(surface.mesh, surface.openings, settings, needs, job.log)
    if not records:
        return surface
    check_closed(mesh)
    quality = surface.quality | figures_of_result(mesh)
    quality["side_branches"] = surface.quality["side_branches"] + records
    return Surface(mesh, name_openings(mesh, settings, job.log), quality)


def figures_of_result(mesh: Mesh) -> dict[str, Any]:
    """What the quality of a surface says of it as it leaves the stage."""
    extent = Extent.of(mesh)
    return {"volume_mm3": extent.volume_mm3, "wall_mm2": extent.wall_mm2, "after": triangle_quality(mesh)}
