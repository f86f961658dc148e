# SPDX-License-Identifier: Apache-2.0
"""Masks and surfaces as programs leave them, drawn at random: places said in one way of NIfTI, networks' rims, DICOM
segmentations of parts, and surfaces that were put together without a Boolean union.
"""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from pipeline.files.mesh import Mesh
from pipeline.files.volume import Volume
from pipeline.geometry.lattice.crossings import winding
from pipeline.geometry.lattice.grid import choose_frame
from tests.pipeline.stages.test_import_mask import write_segmentation
from tests.support.shapes import joined
from tests.support.strange_given import Drawn, Random, _given, _hard, _masked, _tube, _wall
from tests.support.strange_images import Scene, scene
from tests.support.swept import arc, swept
from tests.support.tubes import rotation

# ---- masks -----------------------------------------------------------------------------------------------------------


def _case(made: Scene, entry: dict[str, Any]) -> Drawn:
    """The case of a mask that is written, and the truth."""
    truth = {"true_ml": float(made.lumen.sum() * np.prod(made.spacing_mm) / 1000), "true_openings": made.cuts()}
    flow = {"inlets": {"*": {"flow_ml_s": round(0.15 * np.pi * made.radius_mm**2, 3)}}}
    words = {"words": {"radius_mm": made.radius_mm, "spacing_mm": made.spacing_mm}}
    return {"input": entry, "solve": flow}, truth | words


def mask_oblique(rng: Random, folder: Path) -> Drawn:
    """NIfTI in any pose, whose place is said as qform, as sform or as both."""
    made = scene(rng)
    mask = _hard(made).astype(np.uint8)
    pose = rotation(int(rng.integers(1 << 30))) * rng.choice([-1, 1], 3)
    pose *= np.sign(np.linalg.det(pose))
    Volume(mask, made.spacing_mm, tuple(rng.uniform(-90, 90, 3)), pose).write(folder / "mask.nii.gz")
    raw = bytearray(gzip.decompress((folder / "mask.nii.gz").read_bytes()))
    form = str(rng.choice(["qform", "sform", "both"]))
    if form != "both":
        place = 252 if form == "sform" else 254  # of the code that says which is meant
        raw[place : place + 2] = b"\0\0"
    (folder / "mask.nii.gz").write_bytes(gzip.compress(bytes(raw)))
    case, truth = _case(made, {"mask": str(folder / "mask.nii.gz")})
    truth["words"]["form"] = form
    return case, truth


def mask_slabs(rng: Random, folder: Path) -> Drawn:
    """Voxels of 0.4 x 0.4 x 3 mm, a vessel of 2 to 5 mm up to 45 degrees aslant."""
    made = scene(rng, radius=(2, 5), spacing=(0.4, 0.4, 3.0), tilt=45)
    return _masked(made, _hard(made).astype(np.uint8), folder, flip=bool(rng.random() < 0.5))


def mask_network(rng: Random, folder: Path) -> Drawn:
    """Of a network that smooths: blurred, and a voxel too small or too large."""
    made = scene(rng)
    soft = ndimage.gaussian_filter(made.lumen, rng.uniform(0.8, 1.5))
    larger = rng.random() < 0.5
    mask = ndimage.binary_dilation(soft > 0.5) if larger else ndimage.binary_erosion(soft > 0.5, border_value=1)
    label, _ = ndimage.label(mask)
    mask = label == 1 + np.bincount(label.ravel())[1:].argmax()
    made.lumen = mask.astype(float)
    return _masked(made, mask.astype(np.uint8), folder)


def mask_checkered(rng: Random, folder: Path) -> Drawn:
    """Every second voxel of the outermost layer is missing, and 1 to 5 % of those within."""
    made = scene(rng)
    mask = _hard(made)
    parity = np.indices(mask.shape).sum(axis=0) % 2 == 0
    inner = ndimage.binary_erosion(mask, border_value=1)
    holes = (rng.random(mask.shape) < rng.uniform(0.01, 0.05)) & ndimage.binary_erosion(inner, border_value=1)
    mask = inner | (mask & parity)
    made.lumen = mask.astype(float)
    return _masked(made, (mask & ~holes).astype(np.uint8), folder)


def seg_parts(rng: Random, folder: Path) -> Drawn:
    """A DICOM segmentation with a segment for each of two or three parts of the vessel, and in half the wall's."""
    made = scene(rng)
    mask, along = _hard(made), made.along()
    number = 1 + np.minimum((along * rng.integers(2, 4)).astype(int), 2)
    parts = [mask & (number == each) for each in np.unique(number[mask])]
    names = [f"part {k}" for k in range(len(parts))]
    if rng.random() < 0.5:
        parts.append(ndimage.binary_dilation(mask, iterations=2) & ~mask)
        names.append("wall")
    image = Volume(np.zeros(mask.shape, np.int16), made.spacing_mm, tuple(rng.uniform(-90, 90, 3)), np.eye(3))
    masks = {name: part.astype(np.uint8) for name, part in zip(names, parts, strict=True)}
    path = write_segmentation(folder, image, masks)
    case, truth = _case(made, {"mask": str(path)})
    truth["words"]["segments"] = names
    return case, truth


# ---- surfaces --------------------------------------------------------------------------------------------------------


def _untagged(mesh: Mesh) -> Mesh:
    return Mesh(mesh.points_mm, mesh.triangles, np.zeros(len(mesh.triangles), np.int8))


def _within_mm3(mesh: Mesh, radius: float) -> float:
    """Volume of what closed tubes hold together."""
    frame = choose_frame(mesh, radius / 12)
    return float(np.count_nonzero(winding(mesh, frame) > 0) * frame.spacing_mm**3)


def surface_put_together(rng: Random, folder: Path) -> Drawn:
    """A closed tube, and a closed branch that begins within it: a Boolean union that was never made."""
    mesh, radius, around = _tube(rng)
    ring = len(mesh.points_mm) // around // 2
    rows = mesh.points_mm[ring * around : (ring + 1) * around]
    middle = rows.mean(axis=0)
    out = np.array([0, 0, 1.0])
    aslant = out + rng.uniform(-0.7, 0.7) * (rows[0] - middle) / radius
    aslant /= np.linalg.norm(aslant)
    small, long = radius * rng.uniform(0.4, 0.85), radius * rng.uniform(5, 8)
    places = (
        middle
        + np.linspace(rng.uniform(0, 0.3) * radius, long, max(6, int(long * around / 6 / small)))[:, None] * aslant
    )
    branch, _ = swept(places, small, around)
    whole = joined(_untagged(mesh), _untagged(branch))
    case, truth = _given(rng, whole, folder, _within_mm3(whole, small), radius)
    return case, truth | {"true_openings": 3}


def surface_twice(rng: Random, folder: Path) -> Drawn:
    """The surface twice, the second time 0.05 mm aside, open or closed."""
    mesh, radius, _ = _tube(rng)
    part = _wall(mesh) if rng.random() < 0.5 else _untagged(mesh)
    turn = rng.normal(size=3)
    aside = Mesh(part.points_mm + 0.05 * turn / np.linalg.norm(turn), part.triangles, part.opening)
    case, truth = _given(rng, joined(part, aside), folder, mesh.volume_mm3(), radius)
    truth["words"]["open"] = len(part.triangles) < len(mesh.triangles)
    return case, truth


def surface_part_turned(rng: Random, folder: Path) -> Drawn:
    """All triangles on one side of a plane across the vessel are turned, open or closed, in one piece or as two."""
    mesh, radius, _ = _tube(rng)
    part = _wall(mesh) if rng.random() < 0.5 else _untagged(mesh)
    middles = part.centroids_mm()
    place = middles[rng.integers(len(middles))]
    turned = (middles - place) @ rng.normal(size=3) > 0
    triangles = np.where(turned[:, None], part.triangles[:, ::-1], part.triangles)
    return _given(rng, Mesh(part.points_mm, triangles, part.opening), folder, mesh.volume_mm3(), radius)


def _cut_tube(rng: Random) -> tuple[Mesh, Mesh, Mesh, float, int]:
    """A bent tube, and the two closed ones that a plane across it makes of it."""
    radius, around = float(rng.uniform(1, 10)), int(rng.choice([16, 24, 32]))
    length, bend = radius * rng.uniform(10, 18), rng.uniform(0.3, 1.8)
    rings = max(12, int(length * around / (2 * np.pi * radius)))
    whole, _ = swept(arc(length / bend, bend, rings), radius, around)
    at = int(rng.integers(rings // 3, 2 * rings // 3))
    sides = []
    walls = whole.triangles[whole.opening == 0]
    caps = [whole.triangles[whole.opening == 1], whole.triangles[whole.opening == 2]]
    middle = whole.points_mm[at * around : (at + 1) * around].mean(axis=0)
    rim = at * around + np.arange(around)
    disc = np.stack([rim, np.roll(rim, -1), np.full(around, len(whole.points_mm))], axis=1)
    points = np.concatenate([whole.points_mm, middle[None]])
    before = walls.max(axis=1) < (at + 1) * around
    for rows, cap, face in ((before, caps[0], disc), (~before, caps[1], disc[:, ::-1])):
        triangles = np.concatenate([walls[rows], cap, face])
        sides.append(Mesh(points, triangles, np.zeros(len(triangles), np.int8)))
    return whole, sides[0], sides[1], radius, around


def surface_in_parts(rng: Random, folder: Path) -> Drawn:
    """Two closed tubes end to end, whose faces between them are left within: in the same points, or 0.02 mm apart."""
    whole, first, second, radius, _ = _cut_tube(rng)
    apart = float(rng.choice([0.0, 0.02]))
    used, rows = np.unique(second.triangles, return_inverse=True)
    moved = Mesh(
        second.points_mm[used] + apart * rng.choice([-1, 1]) * np.array([1.0, 0, 0]),
        rows.reshape(-1, 3),
        second.opening,
    )
    case, truth = _given(rng, joined(first, moved), folder, whole.volume_mm3(), radius)
    truth["words"]["apart_mm"] = apart
    return case, truth


def surface_membrane(rng: Random, folder: Path) -> Drawn:
    """A closed or an open tube with a single face across it left within."""
    whole, first, _, radius, around = _cut_tube(rng)
    disc = first.triangles[-around:]
    part = whole.triangles if rng.random() < 0.5 else whole.triangles[whole.opening == 0]
    triangles = np.concatenate([part, disc])
    mesh = Mesh(first.points_mm, triangles, np.zeros(len(triangles), np.int8))
    return _given(rng, mesh, folder, whole.volume_mm3(), radius)


KINDS: dict[str, Callable[[Random, Path], Drawn]] = {
    "mask-oblique": mask_oblique,
    "mask-slabs": mask_slabs,
    "mask-network": mask_network,
    "mask-checkered": mask_checkered,
    "seg-parts": seg_parts,
    "surface-put-together": surface_put_together,
    "surface-twice": surface_twice,
    "surface-part-turned": surface_part_turned,
    "surface-in-parts": surface_in_parts,
    "surface-membrane": surface_membrane,
}
