# SPDX-License-Identifier: Apache-2.0
"""A moving picture of particles in the vessel, as a GIF that repeats without a jump.

Each particle repeats its path: in a periodic flow with the period, in a steady flow with the median time of the blood's
way through the vessel, each with a phase of its own. Particles are picked in proportion to the flow for which they
stand, so that all over the vessel they are equally dense, and drawn with a tail: where they were a moment before.
"""

import io
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from pipeline.files.mesh import Mesh
from pipeline.haemodynamics.paths import SPREAD, Paths
from pipeline.haemodynamics.percentiles import weighted_percentiles
from pipeline.reporting import figures, render
from pipeline.reporting.colours import colour_map
from pipeline.reporting.quantities import SPEED_COLOURS
from pipeline.reporting.scene import View, front_view
from solver.domain.nodes import Nodes
from solver.runtime.progress import Progress

MAX_BYTES = 2_000_000
"""A larger file is made of smaller pictures."""

SMALLER = 0.85
"""Factor on the size of the pictures, until the file is small enough."""

SHOWN = 400
"""Particles in a picture, about."""

TAIL = 0.04
"""Length of a tail in time: a part of the median way through the vessel."""

THICK = 0.045
"""Radius of a tail as a part of the radius of the smallest opening."""

TAIL_POINTS = 6
DOTS_PER_INCH = 110
COLOURS, BAR_ROWS = 160, 200
"""Colours of the file; so many rows of the colour map are among the pixels that they are chosen for."""

FRAME_MS = 80

SPEED_PERCENTILE = 99.5
"""Colours end at this percentile of the speeds on the paths."""


@dataclass(frozen=True)
class Animation:
    """A moving picture.

    Attributes
    ----------
    gif : the file's contents.
    drawn_by : name of VTK's window, or ``matplotlib`` where it cannot draw.
    """

    gif: bytes
    drawn_by: str


def animate(
    paths: Paths, nodes: Nodes, wall: Mesh, period_s: float | None, frames: int, log: logging.Logger
) -> Animation:
    """Draw particles on their paths over one round.

    Parameters
    ----------
    paths : of particles; they may be none.
    nodes : the lattice that places of paths are of.
    wall : the wall without caps.
    period_s : of the flow; none of a steady one.
    frames : number of pictures.
    log : of the progress.
    """
    view = front_view(wall.points_mm)
    round_s = period_s or median_way_s(paths)
    tail_s = TAIL * min(round_s, median_way_s(paths))
    shown, phase_s = pick(paths, round_s, period_s is not None, SHOWN)
    speeds = (0.0, float(np.percentile(paths.speed_m_s, SPEED_PERCENTILE)) if len(paths.speed_m_s) else 1.0)
    radius = min((opening.radius_mm for opening in nodes.openings), default=min(view.width_mm, view.height_mm) / 12)
    moments = np.arange(frames) * round_s / frames
    lines = _tails(paths, nodes, shown, phase_s, moments, round_s, tail_s)
    clock = [f"{moment:.3f} s of a cycle of {round_s:.3f} s" if period_s else f"{moment:.3f} s" for moment in moments]

    def drawn(chosen: Iterable[int], factor: float) -> Iterator[Image.Image]:
        caption = _Caption(view, speeds, factor)
        with render.Canvas(view, caption.longest) if render.window_class() else nullcontext() as canvas:
            glass = render.see_through_actors(wall) if canvas else []
            for k in chosen:
                if canvas is None:
                    image = draw_flat(wall, lines[k], radius, speeds, view, caption.longest)
                else:
                    tubes = [render.tube_actor(lines[k], THICK * radius, speeds, SPEED_COLOURS)] if lines[k] else []
                    image = canvas.picture([*glass, *tubes], view)
                yield caption.around(image, clock[k])

    pairs = [k + next_one for k in (0, frames // 2) for next_one in (0, 1)]
    factor = _fitting(list(drawn(pairs, 1.0)), frames)
    pictures, progress = [], Progress(log, frames, "pictures")
    for picture in drawn(range(frames), factor):
        pictures.append(picture)
        progress.update(len(pictures))
    return Animation(_to_gif(pictures), render.window_class() or "matplotlib")


def median_way_s(paths: Paths) -> float:
    """Median time from release to the end of a path, weighted by flow."""
    return weighted_percentiles(paths.lasted_s(), paths.flux, (50,))[0] if len(paths.flux) else 1.0


def pick(
    paths: Paths, round_s: float, released: bool, count_at_once: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Paths that are shown, as often as they stand for flow, and the time of each one's release in a round.

    Parameters
    ----------
    paths : of particles.
    round_s : after which each goes the same way again.
    released : whether times of release are those of the paths, as in a periodic flow.
    count_at_once : how many are to be seen at a time, about.
    """
    if not len(paths.flux):
        return np.empty(0, np.int64), np.empty(0)
    at_once = float(paths.lasted_s() @ paths.flux) / float(paths.flux.sum()) / round_s  # of one path, on average
    count = int(np.clip(round(count_at_once / max(at_once, 1e-9)), 1, len(paths.flux)))
    total = np.cumsum(paths.flux)
    rows = np.unique(np.searchsorted(total, (np.arange(count) + 0.5) / count * total[-1]))
    phase = paths.released_s[rows] if released else np.arange(len(rows)) * SPREAD % 1 * round_s
    return rows, phase


def _tails(
    paths: Paths,
    nodes: Nodes,
    rows: NDArray[np.int64],
    phase_s: NDArray[np.float64],
    moments_s: NDArray[np.float64],
    round_s: float,
    tail_s: float,
) -> list[list[NDArray[np.float64]]]:
    """Where particles are and were at each moment, each (TAIL_POINTS, 4): x, y, z in mm and speed in m/s; the newest
    point last.
    """
    found: list[list[NDArray[np.float64]]] = [[] for _ in moments_s]
    lasted = paths.lasted_s()
    back: NDArray[np.float64] = np.linspace(-tail_s, 0, TAIL_POINTS)
    for row, phase in zip(rows.tolist(), phase_s.tolist(), strict=True):
        part = slice(paths.offsets[row], paths.offsets[row + 1])
        age, lasts = paths.time_s[part] - paths.released_s[row], lasted[row]
        heads = [np.arange((moment - phase) % round_s, lasts + tail_s, round_s) for moment in moments_s.tolist()]
        of_moment = np.repeat(np.arange(len(heads)), [len(each) for each in heads])
        at = np.clip(np.concatenate(heads)[:, None] + back, 0, lasts)
        place, speed = paths.place[part] * nodes.spacing_mm + nodes.origin_mm, paths.speed_m_s[part]
        tables = np.stack([np.interp(at, age, values) for values in (*place.T, speed)], axis=-1)
        for k, moment in enumerate(of_moment.tolist()):
            if at[k, -1] > at[k, 0]:
                found[moment].append(tables[k])
    return found


def draw_flat(
    wall: Mesh,
    lines: Sequence[NDArray[np.float64]],
    radius_mm: float,
    speeds: tuple[float, float],
    view: View,
    longest: int,
) -> NDArray[np.uint8]:
    """The same without VTK's windows: lines, each (P, 4), over the outline of the wall, (H, W, 3).

    Parameters
    ----------
    wall : the wall without caps.
    lines : x, y, z in mm and speed in m/s.
    radius_mm : of the smallest opening, for the width of lines.
    speeds : range of the colours.
    view, longest : point of view; longer side of the picture in pixels.
    """
    scale = longest / max(view.width_mm, view.height_mm)
    size = np.round(np.array([view.width_mm, view.height_mm]) * scale)
    figure = Figure(figsize=tuple(size / 100), dpi=100)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-view.width_mm / 2, view.width_mm / 2)
    axes.set_ylim(-view.height_mm / 2, view.height_mm / 2)
    triangles = view.project(wall.points_mm)[wall.triangles]
    for colour, width in ((figures.FAINT, 2.0), (render.GLASS, 0.5)):
        axes.add_collection(PolyCollection(list(triangles), facecolors=[colour], edgecolors=[colour], linewidths=width))
    if lines:
        pieces = np.concatenate([np.stack((line[:-1], line[1:]), axis=1) for line in lines])
        drawn = LineCollection(
            list(view.project(pieces[..., :3])),
            cmap=colour_map(SPEED_COLOURS),
            norm=mpl.colors.Normalize(*speeds),
            linewidths=2 * THICK * radius_mm * scale * 0.72,
            capstyle="round",
        )
        drawn.set_array(pieces[..., 3].mean(axis=1))
        axes.add_collection(drawn)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


class _Caption:
    """Scale bar, patient directions, colour bar and the time around pictures: drawn once, but for the time.

    Parameters
    ----------
    view : of the pictures.
    speeds : range of the colours.
    factor : on the size.

    Attributes
    ----------
    longest : longer side of a picture in pixels.
    """

    def __init__(self, view: View, speeds: tuple[float, float], factor: float) -> None:
        figure = figures.speed_figure(np.full((1, 1, 3), 255, np.uint8), view, speeds)
        figure.set_dpi(DOTS_PER_INCH * factor)
        figure.patch.set_visible(False)
        self._canvas, self._axes = FigureCanvasAgg(figure), figure.axes[0]
        self._axes.images[0].remove()
        self._clock = self._axes.text(
            0.01, 0.99, "", transform=self._axes.transAxes, ha="left", va="top", color=figures.INK, fontsize=9
        )
        self._canvas.draw()
        self._without_time = self._canvas.copy_from_bbox(figure.bbox)
        room = self._axes.get_window_extent()
        self._place = round(room.x0), round(figure.bbox.height - room.y1)
        self.longest = round(max(room.width, room.height))

    def around(self, image: NDArray[np.uint8], time: str) -> Image.Image:
        """A picture with its caption."""
        self._canvas.restore_region(self._without_time)
        self._clock.set_text(time)
        self._axes.draw_artist(self._clock)
        words = Image.fromarray(np.asarray(self._canvas.buffer_rgba()))
        picture = Image.new("RGB", words.size, "white")
        picture.paste(Image.fromarray(image), self._place)
        picture.paste(words, mask=words)
        return picture


def _fitting(pairs: Sequence[Image.Image], frames: int) -> float:
    """Factor on the size of pictures with which a file of so many is small enough, about.

    Parameters
    ----------
    pairs : pictures, each second of which follows the one before; a file holds of it what differs from that.
    frames : number of pictures.
    """
    factor = 1.0
    while True:
        scaled = _scaled(pairs, factor)
        palette = _palette(scaled)
        alone, both = (
            sum(len(_encoded(scaled[k : k + count], palette)) for k in range(0, len(scaled), 2)) for count in (1, 2)
        )
        if (alone + (frames - 1) * (both - alone)) / (len(scaled) // 2) <= MAX_BYTES:
            return factor
        factor *= SMALLER


def _to_gif(pictures: Sequence[Image.Image]) -> bytes:
    """A GIF that repeats, of pictures as large as the limit of its size allows, all with the same colours."""
    factor = 1.0
    while True:
        scaled = _scaled(pictures, factor)
        encoded = _encoded(scaled, _palette([scaled[0], scaled[len(scaled) // 2]]))
        if len(encoded) <= MAX_BYTES:
            return encoded
        factor *= SMALLER


def _scaled(pictures: Sequence[Image.Image], factor: float) -> Sequence[Image.Image]:
    """The pictures, smaller by a factor."""
    size = round(pictures[0].width * factor), round(pictures[0].height * factor)
    return [each.resize(size, Image.Resampling.LANCZOS) for each in pictures] if factor < 1 else pictures


def _palette(pictures: Sequence[Image.Image]) -> Image.Image:
    """Colours for these pictures and others of particles."""
    width = pictures[0].width
    bar = (colour_map(SPEED_COLOURS)(np.linspace(0, 1, width)) * 255).round().astype(np.uint8)
    sample = np.concatenate([*pictures, np.tile(bar[:, :3], (BAR_ROWS, 1, 1))])
    return Image.fromarray(sample).quantize(COLOURS, dither=Image.Dither.NONE)


def _encoded(pictures: Sequence[Image.Image], palette: Image.Image) -> bytes:
    """A GIF of the pictures in the colours of the palette."""
    mapped = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in pictures]
    stream = io.BytesIO()
    mapped[0].save(stream, "GIF", save_all=True, append_images=mapped[1:], duration=FRAME_MS, loop=0, optimize=False)
    return stream.getvalue()
