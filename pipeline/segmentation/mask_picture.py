# SPDX-License-Identifier: Apache-2.0
"""Picture of a segmentation: three slices and three projections with the outline of the lumen.

It shows a box around the vessel only, so that no face appears on a picture of a head.
"""

import io
from pathlib import Path

import numpy as np
import SimpleITK as sitk
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from pipeline.files.volume import Volume
from pipeline.segmentation.levels import Levels
from pipeline.segmentation.region_growing import Index, bounding_box

MARGIN_MM = 6.0
"""How much around the vessel is shown."""

INK, PAPER, OUTLINE, SEED, LEAVES = "#e8e8e8", "#101010", "#ff9d2e", "#4fc3f7", "#ff1744"

HALO = [withStroke(linewidth=2.5, foreground=PAPER)]
"""Keeps letters readable on a bright vessel."""

PLANES = (("axial", 0, "RLAP"), ("coronal", 1, "RLHF"), ("sagittal", 2, "APHF"))
"""Name, axis of [z, y, x] that is looked along, letters at the left, right, top and bottom of the panel."""


def draw(filtered: Volume, lumen: Volume, volume_ml: float, seed: Index, levels: Levels, path: Path) -> None:
    """Draw slices through the seed (top) and maximum-intensity projections (bottom) as a PNG.

    Parameters
    ----------
    filtered : intensities, isotropic voxels; oblique volumes are shown along the nearest axes of the patient.
    lumen : mask on the same grid.
    volume_ml : of the lumen.
    seed : index x, y, z; slices go through it.
    levels : set the grey window.
    path : PNG to write; the same bytes for the same input.
    """
    title = f"Lumen {volume_ml:.3g} ml: orange outline; seed: blue cross"
    _figure(filtered, lumen, (seed,), levels, title).savefig(path, format="png", dpi=110, metadata={"Software": None})


def draw_departure(filtered: Volume, lumen: Volume, place: Index, seed: Index, levels: Levels) -> bytes:
    """Draw where a lumen has left the vessel, for the refusal: slices through that place and projections, as PNG.

    Parameters
    ----------
    filtered, lumen, levels : as :func:`draw` takes them.
    place : index x, y, z of where it has left.
    seed : index x, y, z; in the projections alone, as slices do not go through it.
    """
    volume_ml = lumen.voxels.sum() * np.prod(filtered.spacing_mm) / 1000
    title = f"Mask {volume_ml:.3g} ml: orange outline; where it leaves the vessel: red cross; seed: blue cross"
    stream = io.BytesIO()
    figure = _figure(filtered, lumen, (place, seed), levels, title)
    figure.savefig(stream, format="png", dpi=110, metadata={"Software": None})
    return stream.getvalue()


def _figure(filtered: Volume, lumen: Volume, points: tuple[Index, ...], levels: Levels, words: str) -> Figure:
    """Slices through the first point, with its cross, and projections with those of all; the last one is the seed."""
    marker = np.zeros(lumen.voxels.shape, np.uint8)
    for number, point in enumerate(points, 1):
        marker[point[::-1]] = number
    box = bounding_box(lumen.voxels > 0, margin=round(MARGIN_MM / filtered.spacing_mm[0]))
    origin_mm = filtered.to_mm([axis.start for axis in box[::-1]])
    grey, mask, where = (
        upright(Volume(v[box], filtered.spacing_mm, tuple(origin_mm.tolist()), filtered.direction)).voxels
        for v in (filtered.voxels, lumen.voxels, marker)
    )
    places = [np.argwhere(where == number)[0] for number in np.unique(where)[1:]]
    colours = [LEAVES, SEED][-len(places) :]
    place = places[0]
    figure = Figure(figsize=(12, 8.6), facecolor=PAPER, layout="constrained")
    FigureCanvasAgg(figure)
    window = (levels.surroundings - 0.5 * levels.contrast, levels.lumen + 0.3 * levels.contrast)
    for row, axes in enumerate(figure.subplots(2, 3)):
        for (name, axis, letters), panel in zip(PLANES, axes, strict=True):
            if row == 0:
                shade, outline, title = grey.take(place[axis], axis), mask.take(place[axis], axis), f"{name} slice"
            else:
                shade, outline, title = grey.max(axis), mask.max(axis), f"{name} projection (maximum)"
            _panel(panel, shade, outline, window, axis)
            for point, colour in list(zip(places, colours, strict=True))[: 1 if row == 0 else None][::-1]:
                panel.plot(*np.delete(point, axis)[::-1], "+", color=colour, markersize=9)
            panel.set_title(title, color=INK, fontsize=11)
            _letters(panel, letters)
            _scale_bar(panel, outline.shape, filtered.spacing_mm[0])
    figure.suptitle(words, color=INK, fontsize=12)
    return figure


def upright(volume: Volume) -> Volume:
    """The same voxels in another order: x to the left, y to the back and z to the head of the patient, nearly."""
    return Volume.from_sitk(sitk.DICOMOrient(volume.to_sitk(), "LPS"))


def _panel(
    panel: Axes, shade: NDArray[np.generic], outline: NDArray[np.generic], window: tuple[float, float], axis: int
) -> None:
    panel.imshow(shade, cmap="gray", vmin=window[0], vmax=window[1], interpolation="nearest")
    if axis != 0:
        panel.invert_yaxis()  # head on top
    rows, columns = (np.arange(-1, size + 1) for size in outline.shape)
    panel.contour(columns, rows, np.pad(outline, 1), [0.5], colors=OUTLINE, linewidths=1.0)
    panel.set_xticks([])
    panel.set_yticks([])
    for spine in panel.spines.values():
        spine.set_color("#505050")


def _letters(panel: Axes, letters: str) -> None:
    places = (
        (0.02, 0.5, "left", "center"),
        (0.98, 0.5, "right", "center"),
        (0.5, 0.98, "center", "top"),
        (0.5, 0.02, "center", "bottom"),
    )
    for letter, (x, y, horizontal, vertical) in zip(letters, places, strict=True):
        panel.text(
            x,
            y,
            letter,
            transform=panel.transAxes,
            ha=horizontal,
            va=vertical,
            color=INK,
            fontsize=11,
            weight="bold",
            path_effects=HALO,
        )


def _scale_bar(panel: Axes, shape: tuple[int, ...], spacing_mm: float) -> None:
    """A bar of a round length, about a quarter of the panel."""
    width_mm = shape[1] * spacing_mm
    length_mm = max((n for n in (1, 2, 5, 10, 20, 50, 100) if n <= 0.35 * width_mm), default=1)
    fraction = length_mm / width_mm
    panel.plot(
        [0.03, 0.03 + fraction],
        [0.035, 0.035],
        transform=panel.transAxes,
        color=INK,
        linewidth=3,
        path_effects=[withStroke(linewidth=5, foreground=PAPER)],
    )
    panel.text(
        0.03, 0.05, f"{length_mm} mm", transform=panel.transAxes, color=INK, fontsize=9, va="bottom", path_effects=HALO
    )
