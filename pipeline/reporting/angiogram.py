# SPDX-License-Identifier: Apache-2.0
"""A virtual angiogram: how a bolus of contrast would look under X-rays from in front and from the left.

Each pixel is the line integral of the concentration along one axis of the lattice, and its brightness exp(-mu integral)
of the background, as in digital subtraction angiography, which shows contrast alone. Where rays meet, how contrast
absorbs, and what a detector adds is left out: rays are parallel, mu is such that of the rays that meet the full vessel
half let less than a seventh through.
"""

import io
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from solver.domain.nodes import Nodes

MOST_FRAMES = 96
"""Pictures that are kept; beyond, every second is left out."""
STRIP = 8
"""Of the strip."""
SHOWN_FROM = 0.05
"""Part of its largest filling from which on, and down to which, the vessel is shown."""
DARK, BACKGROUND, BLUR = 1 / 7, 0.86, 0.6
"""Of the brightness: what half of the rays at most let through that meet the full vessel, so that a wide sac does not
make the rest pale; what is shown without contrast; and the blur of a detector in pixels of the lattice."""
HEIGHT, MARGIN = 360, 0.06
"""Pixels of a picture, and the part around the vessel."""
FRAME_MS, QUALITY = 90, 80

VIEWS = (("from in front", 1, (2, 0)), ("from the left", 0, (2, 1)))
"""Name, axis of the rays, and the axes down and across; patient coordinates LPS."""


@dataclass
class Projections:
    """Line integrals of a concentration over time.

    Attributes
    ----------
    nodes : the lattice.
    times_s, held, pictures : of each that is kept: time, mean concentration, line integrals (H, W) of each view, mm.
    """

    nodes: Nodes
    times_s: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    pictures: list[tuple[NDArray[np.float32], ...]] = field(default_factory=list)
    _every: int = 1
    _seen: int = 0

    def look(self, time_s: float, concentration: NDArray[np.floating]) -> None:
        """Take the concentration (N,) at a time in."""
        self._seen += 1
        if (self._seen - 1) % self._every:
            return
        self.times_s.append(time_s)
        self.held.append(float(concentration.mean(dtype=np.float64)))
        self.pictures.append(tuple(projected(self.nodes, concentration, view) for view in range(len(VIEWS))))
        if len(self.times_s) > MOST_FRAMES:
            for kept in (self.times_s, self.held, self.pictures):
                del kept[1::2]
            self._every *= 2

    def shown(self) -> list[int]:
        """Numbers of the pictures from when the vessel fills until it is nearly empty again."""
        held = np.array(self.held)
        filled = np.flatnonzero(held >= SHOWN_FROM * held.max(initial=0.0))
        return [*range(int(filled[0]), int(filled[-1]) + 1)] if len(filled) else []


def projected(nodes: Nodes, values: NDArray[np.floating], view: int) -> NDArray[np.float32]:
    """Line integrals of values (N,) in a view, (H, W): times mm; the head above.

    Parameters
    ----------
    nodes : the lattice.
    values : at its nodes.
    view : number of one of `VIEWS`.
    """
    _, _, (down, across) = VIEWS[view]
    place = nodes.position - nodes.position.min(axis=0)
    height, width = (int(place[:, axis].max()) + 1 for axis in (down, across))
    rows, columns = height - 1 - place[:, down], place[:, across]
    sums = np.bincount(rows * width + columns, values, height * width)
    return (sums.reshape(height, width) * nodes.spacing_mm).astype(np.float32)


def angiogram(projections: Projections, concentration: float) -> tuple[bytes, bytes]:
    """The strip of pictures (PNG) and the moving picture (WebP).

    Parameters
    ----------
    projections : line integrals.
    concentration : largest one that came in.
    """
    nodes = projections.nodes
    full = np.concatenate([projected(nodes, np.ones(nodes.count), view).ravel() for view in range(len(VIEWS))])
    mu = -np.log(DARK) / (concentration * float(np.median(full[full > 0])))
    shown = projections.shown() or [0]
    picked = [shown[k] for k in np.unique(np.linspace(0, len(shown) - 1, STRIP).round().astype(int))]
    frames = {k: [xray(each, mu) for each in projections.pictures[k]] for k in shown}
    strip = [
        np.concatenate([_labelled(frames[k][view], f"{projections.times_s[k]:.2f} s", "") for k in picked], axis=1)
        for view in range(len(VIEWS))
    ]
    moving = [
        np.concatenate(
            [
                _labelled(frames[k][view], f"{projections.times_s[k]:.2f} s" if view == 0 else "", VIEWS[view][0])
                for view in range(len(VIEWS))
            ],
            axis=1,
        )
        for k in shown
    ]
    width = max(row.shape[1] for row in strip)
    padded = [
        np.pad(row, ((0, 0), (0, width - row.shape[1])), constant_values=round(255 * BACKGROUND)) for row in strip
    ]
    return _png(np.concatenate(padded)), _moving(moving)


def xray(integral: NDArray[np.float32], mu: float) -> NDArray[np.uint8]:
    """Brightness behind a line integral, (HEIGHT, W)."""
    margin = max(2, round(MARGIN * max(integral.shape)))
    through = np.exp(-mu * gaussian_filter(np.pad(integral, margin), BLUR))
    image = Image.fromarray(np.clip(255 * BACKGROUND * through, 0, 255).astype(np.uint8))
    width = max(1, round(HEIGHT * image.width / image.height))
    return np.asarray(image.resize((width, HEIGHT), Image.Resampling.BICUBIC))


def _labelled(picture: NDArray[np.uint8], below: str, above: str) -> NDArray[np.uint8]:
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    draw.text((6, HEIGHT - 18), below, fill=20)
    draw.text((6, 4), above, fill=20)
    return np.asarray(image)


def _png(picture: NDArray[np.uint8]) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "png", optimize=True)
    return stream.getvalue()


def _moving(pictures: list[NDArray[np.uint8]]) -> bytes:
    first, *others = [Image.fromarray(each).convert("RGB") for each in pictures]
    stream = io.BytesIO()
    first.save(
        stream, "webp", save_all=True, append_images=others, duration=FRAME_MS, loop=0, quality=QUALITY, method=4
    )
    return stream.getvalue()
