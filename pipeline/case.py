"""Case: the validated settings of one patient case, and of the cohort.

A case file has one section a stage; every key has a default but the input and the inflow.
The JSON schema for editors and the commented demo case follow from the models below.
"""

import difflib
import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from pipeline.settings import Finite, Name, NonNegative, Point, Positive, Section
from pipeline.shapes import Geometry
from solver.stage import StageError

T = TypeVar("T", bound="Section")


class InputSettings(Section):
    """Where the case enters: exactly one of the keys. ``${NAME}`` in a path is an environment variable."""

    dicom: str | tuple[str, ...] | None = Field(
        None,
        description="DICOM series: a folder (at any depth), a DICOMDIR, a ZIP file, or a list of these and of files",
    )
    volume: str | None = Field(None, description="volume file: NRRD, NIfTI or MHA")
    mask: str | None = Field(None, description="mask of the lumen: NRRD, NIfTI or MHA, or a DICOM segmentation")
    surface: str | None = Field(None, description="surface of the lumen: STL, VTP, OBJ or PLY")
    phantom: str | None = Field(None, description="parametric vessel (data/phantoms/*.yaml), made into a DICOM series")
    geometry: Geometry | None = Field(None, description="canonical geometry, told by its key shape")
    mask_segment: int | str | None = Field(
        None, description="mask: number or label of the segment; none: the only one that there is"
    )
    surface_unit: Literal["mm", "cm", "m", "um", "inch"] | None = Field(
        None, description="surface: unit of its coordinates, which its file does not tell; required"
    )
    surface_frame: Literal["LPS", "RAS"] | None = Field(
        None, description="surface: axes of its coordinates; none: what the file says of itself, or else LPS"
    )
    surface_face_array: str | None = Field(
        None,
        description="surface: array of face numbers whose flat faces are the openings (of an OBJ: GroupIds); none:"
        " ModelFaceID, CapID or opening where a VTP has one; ignore: none of these",
    )

    @field_validator("dicom", "volume", "mask", "surface", "phantom")
    @classmethod
    def _expand(cls, given: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if given is None:
            return None
        if isinstance(given, str):
            return _existing(given)
        if not given:
            raise ValueError("an empty list; name at least one file or folder")
        return tuple(_existing(path) for path in given)

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [key for key in ENTRIES if getattr(self, key)]
        if len(given) != 1:
            raise ValueError(f"{len(given)} of {', '.join(ENTRIES)} given ({', '.join(given)}); give exactly one")
        if self.surface and not self.surface_unit:
            raise ValueError(
                "surface_unit is missing: a surface's file does not tell its unit; give mm, cm, m, um or inch"
            )
        for key in ("mask_segment", "surface_unit", "surface_frame", "surface_face_array"):
            entry = key.split("_")[0]
            if getattr(self, key) is not None and entry != given[0]:
                raise ValueError(f"{key} belongs to {entry}, but the case enters with {given[0]}; leave it out")
        return self

    @property
    def entry(self) -> str:
        """The key of `ENTRIES` that is given."""
        return next(key for key in ENTRIES if getattr(self, key))


ENTRIES = ("dicom", "volume", "mask", "surface", "phantom", "geometry")
"""Keys of the input of which a case has exactly one."""


def _existing(path: str) -> str:
    expanded = os.path.expandvars(path)
    if unset := re.search(r"\$\{?(\w+)", expanded):
        raise ValueError(f"the environment variable {unset[1]} is not set; set it, or write the path out")
    expanded = str(Path(expanded).expanduser())
    if not Path(expanded).exists():
        raise ValueError("no such file or folder; correct the path")
    return expanded


Policy = Literal["refuse", "resample"]


class LoadSettings(Section):
    """Which series is taken, and what becomes of slices that form no regular grid."""

    series: str | None = Field(
        None,
        description="SeriesInstanceUID, or its short hash as the log shows it; none: the one whose"
        " largest part has the most voxels",
    )
    phase: int | str | None = Field(
        None,
        description="name or number, as `python -m pipeline.load --list` shows it, of the part (phase, echo, image"
        " type, orientation) of a series that holds several; none: the only one",
    )
    irregular_spacing: Policy = Field(
        "refuse", description="slices at uneven distances; resample: to the finest of them"
    )
    missing_slices: Policy = Field("refuse", description="gaps in an even stack; resample: interpolated over the gap")
    gantry_tilt: Policy = Field("refuse", description="slices shifted within their planes; resample: sheared back")
    anisotropic_pixels: Literal["keep", "refuse", "resample"] = Field(
        "keep", description="rows and columns at different distances; keep: geometry tells; resample: to the finer"
    )


class Box(Section):
    """A box along the axes of the patient (LPS)."""

    low_mm: Point = Field(description="corner with the smallest x, y, z")
    high_mm: Point = Field(description="corner with the largest x, y, z")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not all(low < high for low, high in zip(self.low_mm, self.high_mm, strict=True)):
            raise ValueError(f"low_mm {self.low_mm} is not below high_mm {self.high_mm} in x, y and z")
        return self


class VoxelBox(Section):
    """A box of voxels of the loaded volume."""

    low: tuple[int, int, int] = Field(description="first voxel index x, y, z")
    high: tuple[int, int, int] = Field(description="voxel index x, y, z after the last")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not all(0 <= low < high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError(f"low {self.low} is not at least 0 and below high {self.high} in x, y and z")
        return self


class Seeds(Section):
    """Points, each way of giving them optional."""

    seeds_mm: tuple[Point, ...] = Field((), description="points in the lumen, LPS mm")
    seeds_voxel: tuple[tuple[int, int, int], ...] = Field(
        (), description="voxels x, y, z of the loaded volume in the lumen"
    )
    seeds_file: str | None = Field(None, description="3D Slicer markups file (.mrk.json) with points in the lumen")

    @field_validator("seeds_file", "background_file", check_fields=False)
    @classmethod
    def _file_exists(cls, path: str | None) -> str | None:
        return None if path is None else _existing(path)

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
        None, description="isotropic spacing after resampling; none: the finest of x, y, z"
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


class SegmentSettings(Seeds):
    """The lumen: method, seeds, thresholds, guards."""

    method: Literal["threshold", "confidence", "level-set", "random-walker", "watershed", "vesselness"] = Field(
        "threshold",
        description="threshold: what is connected to the seeds between lower and upper; confidence: the same with"
        " limits from the statistics around the seeds; level-set: fast marching, then a geodesic active contour;"
        " random-walker, watershed: between vessel and background seeds; vesselness: threshold within tubes",
    )
    background_mm: tuple[Point, ...] = Field((), description="points outside the lumen, LPS mm")
    background_voxel: tuple[tuple[int, int, int], ...] = Field(
        (), description="voxels x, y, z of the loaded volume outside the lumen"
    )
    background_file: str | None = Field(None, description="3D Slicer markups file with points outside the lumen")
    cut_planes: tuple[CutPlane, ...] = Field(
        (), description="discs that the lumen does not cross: part it from vessels or bone that it touches"
    )
    lower: Finite | None = Field(
        None,
        description="smallest intensity of the lumen (HU for CT): half way between surroundings and lumen, a little"
        " lower for a narrow vessel, whose rim blur darkens; none: found from the image, and reported as automatic",
    )
    upper: Finite | None = Field(None, description="largest intensity of the lumen; none: no limit")
    confidence_multiplier: Positive = Field(
        2.5,
        description="confidence: limits lie at least so many standard deviations from the mean of what has grown",
    )
    confidence_repeats: Annotated[int, Field(ge=0, le=100)] = Field(
        4, description="confidence: how often mean and deviation are taken anew from what has grown"
    )
    radii_mm: tuple[Positive, Positive] = Field(
        (1.0, 6.0), description="vesselness: smallest and largest radius of the vessels"
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
        0.15, description="leak guard: refuse if the mask covers more than this fraction of a face of the region"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.upper is not None and self.lower is not None and self.upper <= self.lower:
            raise ValueError(f"lower {self.lower:g} is not below upper {self.upper:g}")
        if self.radii_mm[0] >= self.radii_mm[1]:
            raise ValueError(f"radii_mm {self.radii_mm}: the first is not below the second")
        return self


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
    """What becomes of side branches that are short or thin; without a limit there are none."""

    action: Literal["keep", "close", "remove"] = Field(
        "keep",
        description="keep: as any branch; close: cut off flush with the vessel that they leave, as wall; remove: taken"
        " out of the lumen before the surface is made",
    )
    shorter_than_radii: Positive | None = Field(
        None, description="branches shorter than so many radii of the vessel that they leave"
    )
    thinner_than_mm: Positive | None = Field(None, description="branches whose mean radius is below this")

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if self.action != "keep" and self.shorter_than_radii is None and self.thinner_than_mm is None:
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
    closed_mm: tuple[Point, ...] = Field(
        (), description="points; the end of the vessel nearest to each stays closed, LPS mm"
    )
    side_branches: SideBranches = SideBranches()
    cut_radii: NonNegative = Field(
        0.5, description="an end is cut at least this many local radii from the tip of the vessel"
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
        description="auto: from nodes_across; without it 20 nodes across the narrowest branch or opening, or finer"
        " where the grid Reynolds number asks for it",
    )
    nodes_across: Annotated[float, Field(ge=6, le=400)] | None = Field(
        None, description="nodes across a diameter; none: unless spacing_mm is given, chosen"
    )
    across: Literal["inlet", "smallest-opening", "narrowest-branch"] = Field(
        "inlet",
        description="the diameter that nodes_across counts: of the largest inlet, the smallest opening, or the"
        " narrowest place of all branches",
    )
    memory_gb: Positive | None = Field(
        None, description="memory of the device that will run the flow: refuse what needs more; none: not known here"
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
    parts: Annotated[int, Field(ge=1, le=1024)] = Field(
        1, description="parts of equally many fluid nodes and small borders, one a device"
    )


class InletSettings(Section):
    """Flow into the vessel: steady, or a waveform that repeats."""

    flow_ml_s: Positive | None = Field(None, description="steady flow, or the mean to which the waveform is scaled")
    waveform: str | None = Field(None, description="CSV with the columns time_s and flow_ml_s, one period")
    profile: Literal["parabolic", "plug"] = Field("parabolic", description="shape of the velocity over the inlet")

    @field_validator("waveform")
    @classmethod
    def _exists(cls, path: str | None) -> str | None:
        if path and not Path(path).is_file():
            raise ValueError("no such file; correct the path")
        return path

    @model_validator(mode="after")
    def _given(self) -> Self:
        if self.flow_ml_s is None and self.waveform is None:
            raise ValueError("neither flow_ml_s nor waveform is given; give one, or both to scale the waveform's mean")
        return self


class OutletSettings(Section):
    """Pressure at an outlet."""

    pressure_mmhg: Finite = Field(0.0, description="pressure on the cap")


class PatchSettings(Section):
    """What a patch of the wall does beside holding the fluid."""

    velocity_m_s: Point | None = Field(None, description="it slides along itself, x, y, z")
    slip: bool = Field(False, description="fluid slips along it; only on flat walls half-way between nodes")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.velocity_m_s is not None) == self.slip:
            raise ValueError(f"velocity_m_s and slip: {'both' if self.slip else 'neither'} given; give one of them")
        return self


class SolveSettings(Section):
    """Blood, conditions at the openings, what else drives the flow, numerics.

    The key ``*`` stands for all openings that are not named.
    """

    density_kg_m3: Positive = 1060.0
    viscosity_pa_s: Positive = 3.5e-3
    inlets: dict[str, InletSettings] = Field(
        default_factory=dict, description="required, unless a canonical geometry has none"
    )
    outlets: dict[str, OutletSettings] = Field(default_factory=lambda: {"*": OutletSettings()}, min_length=1)
    backend: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where a device answers")
    precision: Literal["fp32", "fp64"] = "fp32"
    collision: Literal["auto", "bgk", "trt", "projected", "recursive"] = Field(
        "auto", description="auto: by the grid Reynolds number"
    )
    walls: Literal["bouzidi", "half-way"] = "bouzidi"
    lattice_speed: Annotated[float, Field(gt=0, le=0.17)] = Field(
        0.08, description="the expected peak speed in lattice units; sets the time step"
    )
    peak_speed_m_s: Positive | None = Field(
        None, description="expected peak speed; none: twice the largest mean speed over the openings"
    )
    ramp_s: NonNegative | None = Field(
        None, description="time over which the inflow is raised; none: 15 acoustic transits"
    )
    steady_tolerance: Positive = Field(
        1e-3, description="steady flow: stop when the relative RMS change over a viscous time is below this"
    )
    cycles: Annotated[int, Field(ge=1)] = Field(3, description="waveform: periods to run")
    max_steps: Annotated[int, Field(ge=1)] = Field(1_000_000, description="give up after this many steps")
    snapshots: Annotated[int, Field(ge=1)] = Field(
        20, description="time steps in the flow file: over the last period of a waveform; a steady run keeps its last"
    )
    force_n_m3: Point = Field((0.0, 0.0, 0.0), description="force on the fluid, x, y, z")
    patches: dict[str, PatchSettings] = Field(
        default_factory=dict, description="patches of a canonical geometry's wall, by name; those not named are at rest"
    )


class PostprocessSettings(Section):
    """Wall shear stress and cross-sections."""

    fit_nodes: Annotated[float, Field(ge=2, le=6)] = Field(
        3.0, description="radius, in lattice spacings, of the fit that carries the stress to the wall"
    )


class ReportSettings(Section):
    """The page."""

    title: str | None = Field(None, description="none: the name of the case; write no name of a patient")
    streamlines: Annotated[int, Field(ge=1, le=2000)] = Field(60, description="number of streamlines from the inlet")


class Case(Section):
    """One patient case: one section a stage."""

    description: str = Field("", description="what this case is; write no name of a patient")
    input: InputSettings
    load: LoadSettings = LoadSettings()
    filter: FilterSettings = FilterSettings()
    segment: SegmentSettings = SegmentSettings()
    surface: SurfaceSettings = SurfaceSettings()
    voxelize: VoxelizeSettings = VoxelizeSettings()
    decompose: DecomposeSettings = DecomposeSettings()
    solve: SolveSettings
    postprocess: PostprocessSettings = PostprocessSettings()
    report: ReportSettings = ReportSettings()

    @model_validator(mode="after")
    def _openings_are_known(self) -> Self:
        geometry = self.input.geometry
        roles = geometry.roles if geometry else {opening.name: opening.role for opening in self.surface.openings}
        if not self.solve.inlets and (roles or not geometry):
            raise ValueError("solve.inlets: missing; give the flow through the inlet, as flow_ml_s or waveform")
        if unknown := self.solve.patches.keys() - set(geometry.patches if geometry else ()):
            known = ", ".join(geometry.patches) if geometry else "only canonical geometries have patches"
            raise ValueError(f"solve.patches.{min(unknown)}: no patch of this name in the wall ({known})")
        for section, role in (("inlets", "inlet"), ("outlets", "outlet")):
            for name in getattr(self.solve, section):
                if name != "*" and roles.get(name) != role:
                    known = ", ".join(sorted(n for n, r in roles.items() if r == role)) or "none"
                    place = "the geometry" if geometry else "surface.openings"
                    raise ValueError(f"solve.{section}.{name}: no {role} of this name in {place} ({known})")
        return self

    def settings(self, stage: str) -> str:
        """The stage's section as JSON with all defaults, as its command line takes it.

        A stage that imports takes what the input says of the file, with what it needs of another section.
        """
        if stage == "import_mask":
            return json.dumps({"segment": self.input.mask_segment, "fill_holes": self.segment.fill_holes})
        if stage == "import_surface":
            given = self.input
            stated = {
                "unit": given.surface_unit, "frame": given.surface_frame, "face_array": given.surface_face_array
            }  # fmt: skip
            return json.dumps(self.surface.model_dump(mode="json") | stated, sort_keys=True)
        if stage == "canonical":
            spacing = self.voxelize.model_dump(mode="json", include={"spacing_mm", "nodes_across"})
            geometry = self.input.geometry.model_dump(mode="json") if self.input.geometry else None
            return json.dumps(spacing | {"geometry": geometry}, sort_keys=True)
        section = getattr(self, stage)
        if stage == "voxelize":
            return json.dumps(section.model_dump(mode="json") | self._spacing_needs(), sort_keys=True)
        if stage == "filter" and section.region_grown:
            section = section.model_copy(update={"region_grown": self._grown(section.region_grown)})
        return json.dumps(section.model_dump(mode="json"), sort_keys=True)

    def point_files(self, stage: str) -> list[str]:
        """Markups files that the stage reads: inputs of it, like the images."""
        region = self.filter.region_grown if stage == "filter" else None
        section = self.segment if stage == "segment" else region and self._grown(region)
        files = [getattr(section, key, None) for key in ("seeds_file", "background_file")]
        return [file for file in files if file]

    def waveform_files(self, stage: str) -> list[str]:
        """Waveforms that the stage reads."""
        if stage == "voxelize" and not self._spacing_needs().get("flow", {}).get("inlets"):
            return []
        return [inlet.waveform for inlet in self.solve.inlets.values() if inlet.waveform]

    def _spacing_needs(self) -> dict[str, Any]:
        """What the choice of the spacing takes from the section solve, where it depends on it and no more."""
        needs: dict[str, Any] = {}
        if self.voxelize.spacing_mm == "auto" and not self.voxelize.nodes_across:
            needs["flow"] = {"viscosity_m2_s": self.solve.viscosity_pa_s / self.solve.density_kg_m3}
            if self.solve.peak_speed_m_s:
                needs["flow"]["peak_speed_m_s"] = self.solve.peak_speed_m_s
            else:
                entries = self.solve.inlets.items()
                needs["flow"]["inlets"] = {k: e.model_dump(include={"flow_ml_s", "waveform"}) for k, e in entries}
        if self.voxelize.memory_gb:
            needs["precision"] = self.solve.precision
        return needs

    def _grown(self, region: GrownRegion) -> GrownRegion:
        """The region with the seeds and the threshold of the section segment where it has none of its own."""
        wanted = ([] if region.seeded else list(Seeds.model_fields)) + (["lower"] if region.lower is None else [])
        return region.model_copy(update={key: getattr(self.segment, key) for key in wanted})


class Cohort(Section):
    """``config/config.yaml``: which cases run, and defaults for all of them."""

    cases: tuple[Name, ...] = Field(min_length=1, description="names of files in config/cases/")
    defaults: dict[str, Any] = Field(default_factory=dict, description="sections merged under each case's own")

    @field_validator("cases", mode="before")
    @classmethod
    def _from_command_line(cls, value: Any) -> Any:
        """``--config cases=a,b`` arrives as one string."""
        return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


def parse(model: type[T], values: dict[str, Any], source: str) -> T:
    """Validate settings.

    Parameters
    ----------
    model : the settings' class.
    values : as read from YAML or JSON.
    source : file or option that they came from, for the message.

    Raises
    ------
    StageError
        One line a mistake: source, key, value, and what would be right.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise StageError("\n".join(_line(model, detail, source) for detail in error.errors())) from None


def _line(model: type[Section], detail: Any, source: str) -> str:
    path = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        known = _keys_at(model, detail["loc"][:-1])
        near = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1, cutoff=0.5)
        advice = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(known)}"
        return f"{source}: {path}: unknown key (value {_short(detail['input'])}); {advice}"
    if detail["type"] == "missing":
        return f"{source}: {path}: missing; it has no default"
    reason = detail["msg"].removeprefix("Value error, ")
    value = (
        "" if detail["type"] == "value_error" and isinstance(detail["input"], dict) else f" = {_short(detail['input'])}"
    )
    unit = _unit(path)
    hint = f" (a plain number in {unit})" if unit and isinstance(detail["input"], str) else ""
    return f"{source}: {path or 'case'}{value}: {reason[:1].lower()}{reason[1:]}{hint}"


UNITS = {
    "_n_m3": "N/m3", "_ml_s": "mL/s", "_mmhg": "mmHg", "_kg_m3": "kg/m3", "_pa_s": "Pa s", "_m_s": "m/s", "_mm": "mm",
    "_s": "s",
}  # fmt: skip


def _unit(path: str) -> str | None:
    return next((unit for suffix, unit in UNITS.items() if path.rstrip(".0123456789").endswith(suffix)), None)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _keys_at(model: type[Section], location: tuple[Any, ...]) -> list[str]:
    """Keys that are allowed at a place of the settings."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})

    def resolve(node: dict[str, Any]) -> dict[str, Any]:
        for option in (node, *node.get("anyOf", ())):
            if "$ref" in option:
                return definitions[option["$ref"].rsplit("/", 1)[1]]
            if "discriminator" in option:
                return {"properties": {key: {"$ref": to} for key, to in option["discriminator"]["mapping"].items()}}
        return node

    node = schema
    for part in location:
        child = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
        node = resolve(child or node.get("additionalProperties") or {})
    return sorted(node.get("properties", {}))


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a mapping from a YAML file.

    Raises
    ------
    StageError
        If there is no such file, or it holds something else.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StageError(f"{path}: no such file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise StageError(
            f"{path}{place}: not readable as YAML ({getattr(error, 'problem', None) or 'not text'})"
        ) from None
    if not isinstance(values, dict):
        raise StageError(f"{path}: holds {type(values).__name__}, a mapping of keys to values is wanted")
    return values


def read_case(name: str, defaults: dict[str, Any], folder: Path = Path("config/cases")) -> Case:
    """Read ``<folder>/<name>.yaml`` over the defaults of the cohort.

    Raises
    ------
    StageError
        One line a mistake.
    """
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = sorted(file.stem for file in folder.glob("*.yaml"))
        near = difflib.get_close_matches(name, known, n=1)
        raise StageError(
            f"cases: {name!r}: no file {path}; " + (f"did you mean {near[0]}?" if near else f"known: {known}")
        )
    return parse(Case, _merge(defaults, read_yaml(path)), str(path))


def read_cohort(config: dict[str, Any], source: str = "config/config.yaml") -> dict[str, Case]:
    """All cases of the cohort by name, every one validated before anything runs.

    Raises
    ------
    StageError
        One line a mistake, over all files.
    """
    cohort = parse(Cohort, config, source)
    cases, mistakes = {}, []
    for name in cohort.cases:
        try:
            cases[name] = read_case(name, cohort.defaults)
        except StageError as error:
            mistakes.append(str(error))
    if mistakes:
        raise StageError("\n".join(mistakes))
    return cases


def _merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def schema() -> str:
    """The JSON schema of a case file, as kept in ``config/case.schema.json``."""
    return json.dumps(Case.model_json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(schema(), end="")
