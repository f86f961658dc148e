# SPDX-License-Identifier: Apache-2.0
"""Stage 4, surface: the lumen's smooth surface, with the open ends cut and capped.

The mask is smoothed into a field whose zero level is the wall, triangulated, and given the mask's volume. The open
ends are those of the vessel's centreline that are ends of tubes; each is cut perpendicular to the vessel and closed
with a flat cap. The surface leaves this stage closed, and every triangle knows whether it is wall or which cap.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from pipeline.case.settings.base import parse
from pipeline.case.settings.geometry import SurfaceSettings
from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from pipeline.geometry.branches.border import (
    Section,
    beyond_border,
    border_record,
    border_sections,
    ends_at_border,
    near_border,
    open_to_border,
    reached_by_tails,
    thin_sections,
)
from pipeline.geometry.branches.centreline_graph import Centreline, trace_centreline
from pipeline.geometry.branches.ends import (
    CUT_RADII,
    MIN_RADIUS_VOXELS,
    TIP_RADII,
    Cutting,
    TooFewEndsError,
    close_on_request,
    cut_and_cap,
    cut_ends,
    doubts_of_ends,
    name_openings,
)
from pipeline.geometry.branches.faded_ends import LumenImage, image_of
from pipeline.geometry.branches.flat_faces import flat_face
from pipeline.geometry.branches.frayed_ends import without_frayed_ends
from pipeline.geometry.branches.free_ends import Ends, find_ends, nearest_ends
from pipeline.geometry.branches.picture import Scene
from pipeline.geometry.branches.side_branches import (
    WALL,
    choose_side_branches,
    volumes_lost,
    without_side_branches,
)
from pipeline.geometry.branches.tips import with_whole_tips
from pipeline.geometry.closed_surface import Surface, SurfaceStage, figures_of_result, without_too_thin
from pipeline.geometry.lattice.spacing import Extent
from pipeline.geometry.surface import remedies
from pipeline.geometry.surface.clip import check_closed
from pipeline.geometry.surface.extension import extend_openings
from pipeline.geometry.surface.isosurface import (
    fit,
    fit_nearby,
    lost_to_smoothing,
    smooth_field,
    zero_surface,
)
from pipeline.geometry.surface.quality import triangle_quality
from pipeline.geometry.surface.remesh import remesh_vessel
from pipeline.geometry.surface.smooth_wall import smooth_wall
from pipeline.geometry.surface.thin import ThinPlaceError
from pipeline.geometry.surface.volumes import asked_for, tell_volumes
from pipeline.segmentation.lumen_advice import GIVEN_MASK, of_doubts, of_too_few_ends, record_of
from solver.runtime.command_line import run_stage
from solver.runtime.errors import StageError
from solver.runtime.progress import Parts
from solver.runtime.provenance import Job

MAX_ANISOTROPY = 1.5
"""Largest ratio of the voxel's edges: with more, the surface has the steps of the slices."""
PARTS = {"smoothing": 15.0, "centreline": 22.0, "volume": 12.0, "ends": 16.0, "triangles": 35.0}
"""Times of the parts of the work, in percent: of lumens of 60 M voxels, as small ones are done at once."""
FINER = 0.6
"""Spacing over that of the lumen which is proposed where fewer than two ends are open."""


def extract_surface(
    lumen: Volume,
    settings: SurfaceSettings,
    log: logging.Logger,
    volume_mm3: float | None = None,
    image: LumenImage | None = None,
) -> Surface:
    """Smooth surface of a lumen, with its ends cut and capped.

    Parameters
    ----------
    lumen : (Z, Y, X), part of each voxel that the lumen fills, 0 to 1, or a mask of 0 and 1; one component; (nearly)
        isotropic voxels in any orientation.
    settings : the case's section ``surface``.
    log : for progress and for what was decided about each end.
    volume_mm3 : of the lumen, which the surface keeps, as found between its voxels; None: of those that are at least
        half full.
    image : of it, by which an end where contrast fades is told from one that tapers; None: it is not known.

    Raises
    ------
    StageError
        If the mask is unfit, if fewer than two open ends are found, if they overlap or are not resolved, if settings
        contradict what is found, or if the surface is not closed in the end.
    """
    scene = Scene()
    given_mm3 = volume_of(lumen) if volume_mm3 is None else volume_mm3
    with scene.on_refusal():
        try:
            return _extract(lumen, settings, log, scene, given_mm3, image)
        except ThinPlaceError as error:
            if settings.smoothing_mm is not None:
                raise
            log.warning("warning: %s; made once more with less smoothing of thin places", error.found)
            scene.clear()
            return _extract_thin(lumen, settings, log, scene, given_mm3, image, error.found)


@dataclass(frozen=True)
class _Traced:
    """A lumen that goes on beyond the image where its border cuts a vessel, and its centreline.

    Attributes
    ----------
    given, lumen : (Z, Y, X), as it is, and with the tubes beyond the border.
    field, raw : smooth field of it, and the surface on which that is zero.
    centreline, frayed : not pruned, and the rows at which it frays.
    border : the sections of the border by the rows of the ends beyond them.
    less_where_thin : whether thin places are smoothed less.
    """

    given: Volume
    lumen: Volume
    field: Volume
    raw: Mesh
    centreline: Centreline
    frayed: frozenset[int]
    border: dict[int, Section]
    less_where_thin: bool

    def fit(self, mesh: Mesh, field: Volume, volume_mm3: float) -> tuple[Mesh, Volume]:
        """Surface with well-shaped triangles and a wanted volume, and the field that is about zero on it."""
        return (fit_nearby(mesh, volume_mm3), field) if self.less_where_thin else fit(mesh, field, volume_mm3)

    def ends(self, centreline: Centreline, settings: SurfaceSettings, least_mm: float) -> Ends:
        """Open and closed ends of the centreline or of a part of it."""
        asked = nearest_ends(self.centreline, settings.opened_mm)
        kept, points = frozenset(self.frayed | self.border.keys()), centreline.points_mm

        @cache
        def flat(row: int) -> bool:
            return flat_face(self.raw, points[row], points, centreline.radius_mm) is not None

        at_border, cut = (near_border(each, centreline) for each in (self.lumen, self.given))
        found = find_ends(centreline, settings.min_branch_radii, least_mm, at_border, kept, flat, cut, asked)
        return open_to_border(found, self.border.keys())


def _extract_thin(
    lumen: Volume,
    settings: SurfaceSettings,
    log: logging.Logger,
    scene: Scene,
    given_mm3: float,
    image: LumenImage | None,
    broken: str,
) -> Surface:
    """The surface with less smoothing of thin places, because smoothing lost what `broken` says."""
    try:
        return _extract(lumen, settings, log, scene, given_mm3, image, broken)
    except ThinPlaceError as error:
        raise StageError(f"{error.found}, also with less smoothing of thin places; {remedies.THIN}") from None


def _extract(
    lumen: Volume,
    settings: SurfaceSettings,
    log: logging.Logger,
    scene: Scene,
    given_mm3: float,
    image: LumenImage | None,
    broken: str | None = None,
) -> Surface:
    """The surface; `broken` says what smoothing lost, where thin places are to be smoothed less."""
    _require_isotropic(lumen)
    parts = Parts(log, PARTS)
    least_mm = max(settings.min_radius_mm, MIN_RADIUS_VOXELS * max(lumen.spacing_mm))
    traced, shaved = _trace_beyond(lumen, settings, least_mm, log, scene, parts, broken is not None, image)
    traced, sides = _without_side_branches(traced, settings, least_mm, log, scene, parts)
    found, border = traced.ends(traced.centreline, settings, least_mm), tuple(traced.border.values())
    scene.mark_ends(found)
    cutting = replace(_cutting(lumen, settings, least_mm, border, shaved), image=image, lumen=lumen)
    close_on_request(found, cutting)
    asked_mm3 = given_mm3 - sum(side["volume_mm3"] for side in sides)
    parts.begin("volume")
    mesh, field, whole_mm3 = _fitted(traced, asked_mm3, given_mm3 / volume_of(lumen), scene)
    mesh, shape_of = smooth_wall(mesh, field, traced.lumen, settings, whole_mm3, traced.less_where_thin)
    whole = mesh
    parts.begin("ends")
    mesh, inside_mm3, lost, tips = cut_ends(mesh, field, found, cutting, scene, log)
    change = inside_mm3 / asked_mm3 - 1
    if abs(change) > settings.volume_tolerance:
        raise StageError(
            f"surface: smoothing changed the volume by {100 * change:+.2f} % of {asked_mm3:.1f} mm3, more than"
            f" surface.volume_tolerance = {settings.volume_tolerance:g}; lower surface.smoothing_mm,"
            f" or {remedies.FINER}"
        )
    parts.begin("triangles")
    mesh = remesh_vessel(mesh, shape_of(mesh), settings.edges_per_radius, max(lumen.spacing_mm))
    mesh = with_whole_tips(mesh, tips, log)
    check_closed(mesh)
    openings = name_openings(mesh, settings, log)
    cut_mm3 = mesh.volume_mm3()
    mesh, openings = extend_openings(mesh, openings, settings, log)
    quality = {
        "mask_volume_mm3": given_mm3,
        "raw_volume_change": traced.raw.volume_mm3() / volume_of(traced.lumen) - 1,
        "volume_change": change,
        "cut_ends": asked_for(lost, settings.cut_off_mm),
        "extensions_mm3": mesh.volume_mm3() - cut_mm3,
        **doubts_of_ends(found),
        "side_branches": sides,
        "border": border_record(border, shaved),
        "before": triangle_quality(traced.raw),
        "uncut": triangle_quality(whole),
        **figures_of_result(mesh),
        **({"smoothed_less_where_thin": broken} if broken else {}),
        **({"lost_to_smoothing": gone} if (gone := lost_to_smoothing(traced.lumen, traced.field)) else {}),
    }
    tell_volumes(quality, log)
    return Surface(mesh, openings, quality)


def _cutting(
    lumen: Volume, settings: SurfaceSettings, least_mm: float, border: Sequence[Section], shaved: Sequence[Section]
) -> Cutting:
    """How the ends are cut: as far from the tip as the settings ask for, or as near as can be."""
    remedy = f"{remedies.finer(FINER * min(lumen.spacing_mm))}, or let the mask reach further along the vessel"
    if settings.cut_radii is None:
        return Cutting(
            settings, least_mm, remedy, CUT_RADII, 0.0, border, voxel_mm=min(lumen.spacing_mm), shaved=shaved
        )
    asked_radii = settings.cut_radii + TIP_RADII
    return Cutting(settings, least_mm, remedy, settings.cut_radii, asked_radii, border, shaved=shaved)


def volume_of(lumen: Volume) -> float:
    """Volume of the voxels that are at least half full, mm3."""
    return float(np.count_nonzero(lumen.voxels >= 0.5) * np.prod(lumen.spacing_mm))


def _trace_beyond(
    lumen: Volume,
    settings: SurfaceSettings,
    least_mm: float,
    log: logging.Logger,
    scene: Scene,
    parts: Parts,
    less_where_thin: bool,
    image: LumenImage | None,
) -> tuple[_Traced, list[Section]]:
    """The lumen beyond the border with its centreline, and the sections in which the border shaves off a side.

    Sections that are thinner than the least radius, but as wide as two pixels of the image, are openings where the thin
    tail of an open end reaches them.
    """
    sections, shaved = border_sections(lumen, least_mm)
    thin = thin_sections(lumen, max(settings.min_radius_mm, *lumen.spacing_mm), [*sections, *shaved])
    if image:
        thin = [each for each in thin if each.half_width_mm >= image.pixels_mm(each.cut.normal[None])[0]]
    while True:
        traced = _traced(beyond_border(lumen, sections), settings, log, scene, parts, less_where_thin)
        centreline, border, sides = ends_at_border(traced.centreline, sections, settings.min_branch_radii)
        traced = replace(traced, given=lumen, centreline=centreline, border=border)
        sides = [*sides, *(each for each in sections if each.radius_mm < least_mm and not each.cuts(traced.raw))]
        shaved += [section for section in sides if section.radius_mm >= least_mm]
        if sides:
            sections = [section for section in sections if section not in sides]
            continue
        reached = reached_by_tails(traced.ends(centreline, settings, least_mm), border.values(), thin) if thin else []
        if not reached:
            break
        sections, thin = sections + reached, []
    for section in border.values():
        log.info("%s: an opening", section.words)
    for section in shaved:
        log.warning("warning: %s: cuts the side of the vessel, which is closed there", section.words)
    return traced, shaved


def _traced(
    lumen: Volume,
    settings: SurfaceSettings,
    log: logging.Logger,
    scene: Scene,
    parts: Parts,
    less_where_thin: bool,
) -> _Traced:
    """Surface and centreline of a lumen."""
    field = smooth_field(lumen, settings.smoothing_mm, log, less_where_thin)
    raw = scene.mesh = zero_surface(field)
    check_closed(raw)
    log.info("iso-surface: %d triangles, %.1f mm3", len(raw.triangles), raw.volume_mm3())
    parts.begin("centreline")
    traced = trace_centreline(field.with_voxels(field.voxels > 0), raw.points_mm)
    return _Traced(lumen, lumen, field, raw, *without_frayed_ends(traced), {}, less_where_thin)


def _fitted(traced: _Traced, wanted_mm3: float, counted: float, scene: Scene) -> tuple[Mesh, Volume, float]:
    """The surface, whose volume within the image is the wanted one, its field, and its volume with the tubes.

    The ends of the tubes lose some volume to smoothing, which is not to be made up for within the image. `counted` is
    the volume of the lumen over that of its voxels.
    """
    whole_mm3 = counted * volume_of(traced.lumen)
    mesh, field = traced.fit(traced.raw, traced.field, whole_mm3)
    if traced.border:
        inside, cuts = mesh, [section.cut for section in traced.border.values()]
        for cut in cuts:
            inside = cut_and_cap(inside, cut, WALL, cuts, scene, at_border=True)
        larger = Extent.of(mesh).wall_mm2 / Extent.of(inside).wall_mm2  # as the surface moves, so its volume changes
        whole_mm3 -= (inside.volume_mm3() - wanted_mm3) * larger
        mesh, field = traced.fit(mesh, field, whole_mm3)
    return mesh, field, whole_mm3


def _without_side_branches(
    traced: _Traced, settings: SurfaceSettings, least_mm: float, log: logging.Logger, scene: Scene, parts: Parts
) -> tuple[_Traced, list[dict[str, Any]]]:
    """The lumen without the side branches that the settings take out of it, and records of these with their volumes."""
    action = settings.side_branches.action
    if not settings.side_branches.limited:
        return traced, []

    def open_ends(rest: Centreline) -> int:
        return len(traced.ends(rest, settings, least_mm).open)

    sides, rest = choose_side_branches(traced.centreline, settings, open_ends, log)
    if not sides:
        return traced, []
    lumen = without_side_branches(traced.lumen, traced.raw.points_mm, sides, rest, flat=action == "close")
    without = _traced(lumen, settings, log, scene, parts, traced.less_where_thin)
    sections = list(traced.border.values())
    centreline, border, _ = ends_at_border(without.centreline, sections, settings.min_branch_radii)
    volumes = volumes_lost(traced.lumen, lumen, sides, traced.centreline)
    records = [side.record(action) | {"volume_mm3": mm3} for side, mm3 in zip(sides, volumes, strict=True)]
    return replace(without, given=traced.given, centreline=centreline, border=border), records


def _require_isotropic(lumen: Volume) -> None:
    if max(lumen.spacing_mm) > MAX_ANISOTROPY * min(lumen.spacing_mm):
        x, y, z = lumen.spacing_mm
        raise StageError(
            f"lumen: voxels of {x:g} x {y:g} x {z:g} mm, edges within a factor of {MAX_ANISOTROPY} are wanted;"
            " resample with filter.spacing_mm"
        )


def _compute(job: Job) -> None:
    settings = parse(SurfaceStage, job.settings, "--settings")
    record, path = record_of(job.inputs.get("segmentation")), job.inputs.get("filtered")
    image = image_of(cache(lambda: Volume.read(path)), record) if path else None
    try:
        lumen, volume_ml = Volume.read(job.inputs["occupancy"]), record.get("volume_ml")
        surface = extract_surface(lumen, settings, job.log, None if volume_ml is None else 1000 * volume_ml, image)
    except StageError as error:
        if isinstance(error, TooFewEndsError) and (explained := of_too_few_ends(record)):
            refusal = StageError(f"{error.found}. {explained}")
        elif doubt := of_doubts(record):
            refusal = StageError(f"the lumen may not be the vessel: {doubt}. With the lumen as it is, {error}")
        else:
            refusal = StageError(str(error))
        if record.get("method") == GIVEN_MASK:
            refusal = StageError(remedies.of_a_mask(str(refusal)))
        refusal.picture = error.picture
        raise refusal from None
    without_too_thin(surface, settings, settings.lattice, job).write(job)


if __name__ == "__main__":
    run_stage(
        "surface",
        __doc__,
        {
            "occupancy": "part of each voxel that the lumen fills, or a mask 0/1 (NRRD)",
            "segmentation": "what the segmentation found, for messages and levels (JSON)",
            "filtered": "the image in which it was found (NRRD)",
        },
        {"surface": "closed triangle surface (VTP)", "openings": "openings and mesh quality (JSON)"},
        _compute,
        optional=("segmentation", "filtered"),
    )
