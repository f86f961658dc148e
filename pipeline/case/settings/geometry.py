# SPDX-License-Identifier: Apache-2.0
"""Settings of the stages of the geometry: surface, voxelize, decompose."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.case.settings.base import Name, NonNegative, Point, Points, Positive, Section


class OpeningSettings(Section):
    """Name and role of the opening nearest to a point."""

    name: Name
    role: Literal["inlet", "outlet"]
    near_mm: Point = Field(description="any point; the opening whose centre is nearest is meant, LPS mm")
    within_mm: Positive = Field(20.0, description="refuse if that opening's centre is farther from the point")
    extend_radii: NonNegative | None = Field(
        None, description="as surface.extend_radii, for this opening; none: that value"
    )


class SideBranches(Section):
    """What becomes of side branches that are short or thin."""

    action: Literal["auto", "keep", "close", "remove"] = Field(
        "auto",
        description="auto: those that carry next to nothing (voxelize.left_out_share) and are too thin for the spacing"
        " that voxelize chooses are closed; keep: as any branch; close: cut off flush with the vessel that they leave,"
        " as wall; remove: taken out of the lumen before the surface is made",
    )
    shorter_than_radii: Positive | None = Field(
        None, description="branches shorter than so many radii of the vessel that they leave"
    )
    thinner_than_mm: Positive | None = Field(None, description="branches whose mean radius is below this")

    @property
    def limited(self) -> bool:
        """Whether branches go by the limits."""
        return self.action in ("close", "remove")

    @model_validator(mode="after")
    def _has_limits(self) -> Self:
        if self.limited and self.shorter_than_radii is None and self.thinner_than_mm is None:
            raise ValueError(
                f"action is {self.action}, but of which branches; give shorter_than_radii, thinner_than_mm"
            )
        return self


class SurfaceSettings(Section):
    """Smooth surface with openings cut and capped."""

    smoother: Literal["field", "windowed-sinc", "taubin", "none"] | None = Field(
        None,
        description="field: two Gaussians of the lumen whose effects on the radius cancel; windowed-sinc, taubin:"
        " of the triangles; none: field for a lumen, none for a given surface",
    )
    smoothing_mm: Positive | None = Field(
        None, description="length below which roughness is removed; none: 1.25 voxels (of a given surface: edges)"
    )
    edges_per_radius: Annotated[float, Field(ge=2, le=20)] = Field(
        5.0, description="edges of the triangles on the local radius of the vessel, about"
    )
    volume_tolerance: Positive = Field(
        0.01, description="refuse if smoothing changes the volume by more than this fraction"
    )
    min_branch_radii: Positive = Field(
        2.5, description="shorter branches of the skeleton, in radii of the vessel they leave, are not ends"
    )
    min_radius_mm: NonNegative = Field(
        0.0, description="ends are cut where the vessel has this radius or two voxels, thinner branches stay closed"
    )
    closed_mm: Points = Field((), description="points; the end of the vessel nearest to each stays closed, LPS mm")
    opened_mm: Points = Field(
        (),
        description="points; the end of the vessel nearest to each is an opening, though it bulges, is short or no"
        " section there is round enough, LPS mm",
    )
    cut_off_mm: Points = Field(
        (), description="points; what is cut off the end of the vessel nearest to each is not wanted, LPS mm"
    )
    side_branches: SideBranches = SideBranches()
    cut_radii: NonNegative | None = Field(
        None,
        description="an end is cut at least this many local radii from the tip of the vessel; none: as near to the tip"
        " as the section is as large and round as behind, and of a lumen the tip beyond, where it is blunt, becomes a"
        " tube of its volume",
    )
    cut_roundness: Annotated[float, Field(gt=0, le=1)] = Field(
        0.8, description="and where its section is at least so round (ratio of its axes) as those of the vessel behind"
    )
    extend_radii: NonNegative = Field(
        0.0, description="length of the straight tube that is added at each opening, in radii of the opening"
    )
    openings: tuple[OpeningSettings, ...] = Field((), description="names and roles; none: the largest is the inlet")

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [opening.name for opening in self.openings]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"openings {', '.join(sorted(twice))} named more than once; names must differ")
        return self


class VoxelizeSettings(Section):
    """Spacing of the lattice."""

    spacing_mm: Positive | Literal["auto"] = Field(
        "auto",
        description="auto: from nodes_across; without it 20 nodes across the narrowest branch that carries flow, or"
        " finer for a grid Reynolds number of 50; with more than most_nodes coarser, down to 10 nodes and 150, or up to"
        " 300 as long as pressure drops are at most 10 % too large",
    )
    nodes_across: Annotated[float, Field(ge=6, le=2048)] | None = Field(
        None, description="nodes across a diameter; none: unless spacing_mm is given, chosen"
    )
    across: Literal["inlet", "smallest-opening", "narrowest-branch"] = Field(
        "inlet",
        description="the diameter that nodes_across counts: of the largest inlet, the smallest opening, or the"
        " narrowest place of all branches",
    )
    memory_gb: Positive | None = Field(
        None,
        description="memory of the device that will run the flow: choose no spacing that needs more, refuse a given"
        " one; none: not known here",
    )
    most_nodes: Annotated[float, Field(ge=1e4, allow_inf_nan=False)] = Field(
        4e6, description="fluid nodes above which an automatic spacing becomes coarser"
    )
    most_updates: Annotated[float, Field(ge=1e6, allow_inf_nan=False)] | None = Field(
        None,
        description="of a vessel, node updates (nodes times steps, as forecast from rest) above which an automatic"
        " spacing becomes coarser, down to 10 nodes across; a spacing that is not fit for use is refused. The log of"
        " solve says how many a run takes, and in what time; hours would choose another lattice on each machine. none:"
        " any number",
    )
    left_out_share: Annotated[float, Field(ge=0, le=0.5)] = Field(
        0.02,
        description="part of the inflow that branches may carry together, by Murray's law, which do not decide the"
        " spacing and are closed where they have fewer than 6 nodes across",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.spacing_mm != "auto" and self.nodes_across:
            raise ValueError("spacing_mm and nodes_across are both given; give one")
        return self


class DecomposeSettings(Section):
    """Order of the nodes and their division over devices."""

    order: Literal["auto", "x", "y", "z"] = Field(
        "auto", description="axis along which neighbours follow each other in memory; auto: that of the longest runs"
    )
    parts: Annotated[int, Field(ge=1, le=32767)] | None = Field(
        None,
        description="parts that take equally long, walls and openings counted in, with small borders; each rank"
        " of solve reads its own one alone; none: as many as solve.ranks",
    )
