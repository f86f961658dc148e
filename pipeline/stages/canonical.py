# SPDX-License-Identifier: Apache-2.0
"""Entry with a canonical geometry: the surface of a shape that has a formula, instead of a vessel's.

It takes the place of all stages up to surface. Beside the surface and its openings it says which patches of the wall
can move or let fluid slip, along which axes the shape repeats, and on which grid nodes lie half-way between flat walls.
"""

from typing import Any, Literal

from pydantic import Field

from pipeline.case.settings.base import Positive, Section, parse
from pipeline.case.shapes import Geometry
from pipeline.files.mesh import write_openings
from pipeline.geometry.lattice.spacing import NODES_ACROSS
from pipeline.geometry.surface.tessellated import Tessellated
from pipeline.geometry.surface.tessellation import tessellate
from solver.runtime.command_line import run_stage
from solver.runtime.provenance import Job


class CanonicalInput(Section):
    """What the command line takes: the shape, and the spacing that the section ``voxelize`` asks for."""

    geometry: Geometry
    spacing_mm: Positive | Literal["auto"] = "auto"
    nodes_across: Positive | None = Field(None, description="nodes on the shape's reference length")

    @property
    def lattice_spacing_mm(self) -> float:
        """The spacing that the lattice will have."""
        if self.spacing_mm != "auto":
            return self.spacing_mm
        return self.geometry.reference_mm / (self.nodes_across or NODES_ACROSS)


def canonical(settings: CanonicalInput) -> tuple[Tessellated, dict[str, Any]]:
    """Surface of a shape, and what its file of openings says beside these.

    Raises
    ------
    StageError
        If the branches of a fork are too short.
    """
    shape = settings.geometry
    made = tessellate(shape, settings.lattice_spacing_mm)
    return made, {
        "patches": list(shape.patches),
        "frame": {
            "reference_mm": shape.reference_mm,
            "anchor_mm": made.anchor_mm.tolist(),
            "periodic": list(shape.periodic),
            "low_mm": made.low_mm.tolist(),
            "high_mm": made.high_mm.tolist(),
        },
        "quality": {
            "source": "canonical geometry",
            "shape": shape.shape,
            "reference_mm": shape.reference_mm,
            "triangles": len(made.mesh.triangles),
            "volume_mm3": made.mesh.volume_mm3(),
        },
    }


def _compute(job: Job) -> None:
    settings = parse(CanonicalInput, job.settings, "--settings")
    made, more = canonical(settings)
    job.log.info(
        "%s: %d triangles, %d openings, patches %s",
        settings.geometry.shape,
        len(made.mesh.triangles),
        len(made.openings),
        ", ".join(more["patches"]),
    )
    made.mesh.write(job.outputs["surface"])
    write_openings(made.openings, job.outputs["openings"], **more)


if __name__ == "__main__":
    run_stage(
        "canonical",
        __doc__,
        inputs={},
        outputs={"surface": "closed triangle surface (VTP)", "openings": "openings, patches and grid (JSON)"},
        compute=_compute,
    )
