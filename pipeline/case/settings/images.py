# SPDX-License-Identifier: Apache-2.0
"""Settings of the stages of the images: load, filter, segment."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from pipeline.case.settings.base import Finite, Point, Points, Positive, Section, Voxels, existing_file

Policy = Literal["refuse", "resample"]


class LoadSettings(Section):
    """Which series is taken, and what becomes of slices that form no regular grid."""

    series: str | tuple[str, ...] | None = Field(
        None,
        description="SeriesInstanceUID, or its short hash as the log shows it; a list: of one scan that was stored as"
        " several series, as one; none: the one whose largest part has the most voxels",
    )
    phase: int | str | None = Field(
        None,
        description="name or number, as `python -m pipeline.stages.load --list` shows it, of the part (phase, echo,"
        " image type, orientation) of a series that holds several; none: the only one",
    )
    irregular_spacing: Policy = Field(
        "refuse", description="slices at uneven distances; resample: to the finest of them"
    )
    missing_slices: Policy = Field("refuse", description="gaps in an even stack; resample: interpolated over the gap")
    gantry_tilt: Policy = Field("refuse", description="slices shifted within their planes; resample: sheared back")
    anisotropic_pixels: Literal["keep", "refuse", "resample"] = Field(
        "keep", description="rows and columns at different distances; keep: geometry tells; resample: to the finer"
    )
    doubtful_files: Literal["refuse", "leave_out"] = Field(
        "refuse",
        description="files that could be slices of the series but are damaged, or say that they belong to another;"
        " leave_out: load without them",
    )
    invert: bool = Field(
        False, description="images in which blood is darker than tissue, as MR with its signal nulled: bright is dark"
    )


class Box(Section):
    """A box along the axes of the patient (LPS)."""

    low_mm: Point = Field(description="corner with the smallest x, y, z")
    high_mm: Point = Field(description="corner with the largest x, y, z")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not all(low < high for low, high in zip(self.low_mm, self.high_mm, strict=True)):
            raise ValueError(f"low_mm {self.low_mm} is not below high_mm {self.high_mm} in x, y and z; correct one")
        return self


class VoxelBox(Section):
    """A box of voxels of the loaded volume."""

    low: tuple[int, int, int] = Field(description="first voxel index x, y, z")
    high: tuple[int, int, int] = Field(description="voxel index x, y, z after the last")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not all(0 <= low < high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError(f"low {self.low} is not at least 0 and below high {self.high} in x, y and z; correct one")
        return self


class Seeds(Section):
    """Points, each way of giving them optional."""

    seeds_mm: Points = Field((), description="points in the lumen, LPS mm")
    seeds_voxel: Voxels = Field((), description="voxels x, y, z of the loaded volume in the lumen")
    seeds_file: str | None = Field(None, description="3D Slicer markups file (.mrk.json) with points in the lumen")

    @field_validator("seeds_file", "background_file", check_fields=False)
    @classmethod
    def _file_exists(cls, path: str | None) -> str | None:
        return existing_file(path)

    @property
    def seeded(self) -> bool:
        """Whether any seed is given."""
        return bool(self.seeds_mm or self.seeds_voxel or self.seeds_file)


class GrownRegion(Seeds):
    """A box around what grows from the seeds; what is not given here is taken from the section segment."""

    lower: Finite | None = Field(None, description="smallest intensity that grows; none: segment.lower")
    reach_mm: Positive = Field(60.0, description="farthest from a seed that growth goes")
    margin_mm: Positive = Field(5.0, description="added around what has grown")


class FilterSettings(Section):
    """Region of interest, noise, isotropic resampling."""

    region_mm: Box | None = Field(None, description="region of interest in the patient; the rest is cut off")
    region_voxels: VoxelBox | None = Field(None, description="the same as voxels of the loaded volume")
    region_grown: GrownRegion | None = Field(None, description="the same as a box around what grows from the seeds")
    smoothing: Literal["none", "gaussian", "median", "curvature", "nonlocal"] = Field(
        "curvature",
        description="curvature: anisotropic diffusion that keeps edges; nonlocal: mean of similar patches, keeps edges",
    )
    smoothing_mm: Positive | None = Field(
        None,
        description="gaussian: standard deviation; median: radius; curvature: length over which noise is averaged;"
        " nonlocal: radius of the patches; none: 0.5 mm, nonlocal: two of the finest voxels",
    )
    spacing_mm: Positive | None = Field(
        None,
        description="isotropic spacing after resampling, to 1 % as voxels fit; none: the finest of x, y, z",
    )
    interpolation: Literal["spline", "linear"] = Field(
        "spline", description="resampling: cubic B-spline kept within the neighbours' range, or linear"
    )

    @model_validator(mode="after")
    def _one_region(self) -> Self:
        given = [key for key in ("region_mm", "region_voxels", "region_grown") if getattr(self, key)]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are both given; give one")
        return self


class CutPlane(Section):
    """A disc that the lumen does not cross."""

    point_mm: Point = Field(description="centre of the disc, LPS mm")
    normal: Point = Field(description="its normal; the length does not count")
    radius_mm: Positive | None = Field(None, description="none: the whole plane")

    @model_validator(mode="after")
    def _has_direction(self) -> Self:
        if not any(self.normal):
            raise ValueError("normal is (0, 0, 0); give a direction")
        return self


Method = Literal["auto", "threshold", "local", "confidence", "level-set", "random-walker", "watershed", "vesselness"]


class SegmentSettings(Seeds):
    """The lumen: method, seeds, thresholds, guards."""

    method: Method = Field(
        "auto",
        description="auto: threshold, or local where one threshold misses the volume by more than 1.5 % and local"
        " leaves no new doubt, in CT with an upper that leaves out calcium and metal at the wall; threshold: what is"
        " connected to the seeds between lower and upper; local: the same with its wall half way"
        " between lumen and tissue at every place; confidence: with limits from the statistics around the seeds;"
        " level-set: fast marching, then a geodesic active contour; random-walker, watershed: between vessel"
        " and background seeds; vesselness: threshold within tubes",
    )
    background_mm: Points = Field((), description="points outside the lumen, LPS mm")
    background_voxel: Voxels = Field((), description="voxels x, y, z of the loaded volume outside the lumen")
    background_file: str | None = Field(None, description="3D Slicer markups file with points outside the lumen")
    cut_planes: tuple[CutPlane, ...] = Field(
        (), description="discs that the lumen does not cross: part it from vessels or bone that it touches"
    )
    lower: Finite | None = Field(
        None,
        description="smallest intensity of the lumen (HU for CT): half way between surroundings and lumen, a little"
        " lower for a narrow vessel, whose rim blur darkens; none: found from the image, and reported as automatic",
    )
    upper: Finite | None = Field(
        None, description="largest intensity of the lumen; none: no limit, but for what method: auto leaves out"
    )
    confidence_multiplier: Positive = Field(
        2.5,
        description="confidence: limits lie at least so many standard deviations from the mean of what has grown",
    )
    confidence_repeats: Annotated[int, Field(ge=0, le=100)] = Field(
        4, description="confidence: how often mean and deviation are taken again from what has grown"
    )
    radii_mm: tuple[Positive, Positive] = Field(
        (1.0, 6.0), description="vesselness: smallest and largest radius of the vessels"
    )
    least_radius_mm: Positive | None = Field(
        None,
        description="the lumen goes on through no place with a smaller radius: parts it from what it touches; thinner"
        " branches are lost; none: no limit",
    )
    dark_sheets: Literal["keep", "part"] = Field(
        "keep",
        description="what a dark sheet thinner than the blur parts from the seeds, as the flap of a dissection does;"
        " part: is left out with the sheet",
    )
    gaps: Literal["keep", "bridge"] = Field(
        "keep",
        description="gaps between an end of the lumen and a vessel as bright that goes on in line with it, as behind a"
        " stenosis thinner than the image resolves, and threads a voxel wide between large parts; bridge: both are"
        " joined by a lumen one to two voxels across",
    )
    fill_holes: bool = Field(True, description="fill cavities that the lumen encloses")
    leak_step: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.05, description="leak guard: lower is moved by this fraction of the contrast between lumen and surroundings"
    )
    leak_growth: Annotated[float, Field(gt=1)] = Field(
        1.5,
        description="leak guard: refuse if the volume grows by more than this factor from a step above to one below",
    )
    border_fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        0.15,
        description="leak guard: refuse if the mask covers more than this fraction of a face of the region and is no"
        " vessel there that the border cuts",
    )
    beyond: Literal["refuse", "accept"] = Field(
        "refuse",
        description="leak guard: a mask that by its shape has surely left the vessel, as into chambers of the heart;"
        " accept: a failed check of the report instead",
    )

    beyond_region: Literal["accept", "tell"] = Field(
        "accept",
        description="a vessel that the region (filter) ends though the image shows it go on; tell: a failed check says"
        " where and by how much, as with a region that a refusal named",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.upper is not None and self.lower is not None and self.upper <= self.lower:
            raise ValueError(f"lower {self.lower:g} is not below upper {self.upper:g}; correct one")
        if self.radii_mm[0] >= self.radii_mm[1]:
            raise ValueError(f"radii_mm {self.radii_mm}: the first is not below the second; correct one")
        return self
