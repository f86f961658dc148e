# SPDX-License-Identifier: Apache-2.0
"""Real images, masks and surfaces as other people hand them in: changed at random, each run once up to the lattice.

    HEMO_CASES=... python benchmarks/real_variants.py --folder variants --seeds 100 104
    HEMO_CASES=... python benchmarks/real_variants.py --folder variants --seeds 100 104 --kinds 'surface|mask'

Images (benchmarks/changed_images.py: turned, resampled, cropped, noisy, in other numbers; here MR with an offset, too)
are held against the lumen of the image as it is, by the levels near each place. Masks become labels of many kinds,
grids and formats, DICOM segmentations and series, and are held against their voxels; surfaces other units, formats,
caps and orientations, and are held against the volume that they enclose. What a refusal or a failed check advises is
followed, as in benchmarks/strangers.py; openings are not known, and kept to compare.
"""

import argparse
import logging
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK as sitk
import vtk
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial.transform import Rotation

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from bench import add_results, write_results  # noqa: E402
from changed_images import FORMATS, IMAGES, Real, changed, reference, volume_within  # noqa: E402
from strangers import row, tried, without_pages  # noqa: E402

from pipeline.files.volume import Volume  # noqa: E402
from pipeline.stages.phantom import SeriesHeader, write_series  # noqa: E402
from tests.pipeline.stages.test_import_mask import write_segmentation  # noqa: E402
from tests.support.advice import Values  # noqa: E402

Made = tuple[Values, dict[str, Any]]
Maker = Callable[[str, np.random.Generator, Path, Path], Made]

IMAGES |= {
    "chest": Real(
        "chest-cta-dissection/ct_cropped.nii.gz", [[51, 47, 104]], [], 250, ct=True, by=(("least_radius_mm", 4.0),)
    ),
    "time-of-flight": Real(
        "tof-circle-of-willis/chris_MRA.nii.gz", [[153, 131, 16]], [[117, 165, 59]], 60, by=(("lower", 60.0),)
    ),
}
FLOW_ML_S = {"fistula": 8, "aorta-iliac": 40, "chest": 80, "time-of-flight": 8}
MASKS = ("aorta", "aorta_true_lumen", "aorta_false_lumen")
SURFACES = {  # file, its unit in mm, and a flow
    "aorta-closed": ("aorta-iliac-mra/aorta-surface.stl", 1.0, 40.0),
    "aorta-open": ("aorta-iliac-mra/aorta-surface-open-ends.stl", 1.0, 40.0),
    "palabos": ("surfaces/palabos-aneurysm-metres.stl", 1000.0, 6.0),
    "simvascular": ("surfaces/simvascular-aorto-iliac-cm.vtp", 10.0, 20.0),
    "alster": ("surfaces/caput-alster-ay-mm.stl", 1.0, 3.0),
}
UNITS = {"m": 1000.0, "cm": 10.0, "mm": 1.0}


def flow(ml_s: float) -> Values:
    """The section of a given inflow."""
    return {"inlets": {"*": {"flow_ml_s": ml_s}}}


# ---- images ----------------------------------------------------------------------------------------------------------


def an_image(name: str, rng: np.random.Generator, cases: Path, folder: Path) -> Made:
    """A changed image, its seeds, and in half its threshold in its numbers."""
    real, (lumen, seeds) = IMAGES[name], reference(name, cases)
    whole = sitk.Cast(sitk.ReadImage(str(cases / real.file)), sitk.sitkFloat32)
    image, factor = changed(whole, rng, seeds[0], real)
    offset = 0.0 if real.ct or image.GetPixelID() == sitk.sitkUInt16 else float(np.rint(rng.uniform(-500, 500)))
    image += offset
    file = folder / f"image{FORMATS[int(rng.integers(len(FORMATS)))]}"
    sitk.WriteImage(image, str(file))
    segmented: Values = {"seeds_mm": [[round(x, 2) for x in seed] for seed in seeds]}
    if rng.random() < 0.5:
        segmented["lower"] = round(real.lower * factor + offset, 2)
    words = {"type": image.GetPixelIDTypeAsString(), "spacing_mm": image.GetSpacing(), "factor": factor}
    case = {"input": {"volume": str(file)}, "segment": segmented, "solve": flow(FLOW_ML_S[name])}
    true_ml = volume_within(lumen, image, seeds[0])
    return case, {"true_ml": true_ml, "true_openings": None, "words": words | {"offset": offset}}


# ---- masks -----------------------------------------------------------------------------------------------------------


def real_mask(name: str, cases: Path) -> Volume:
    """Of a file, or the lumen of an image; its largest part."""
    mask = Volume.read(cases / f"chest-cta-dissection/{name}.nii.gz") if name in MASKS else reference(name, cases)[0]
    label, _ = ndimage.label(mask.voxels >= 0.5)
    size = np.bincount(label.ravel())
    size[0] = 0
    return mask.with_voxels((label == size.argmax()).astype(np.uint8))


def resampled(mask: Volume, spacing_mm: NDArray[np.floating]) -> Volume:
    """On another grid, by the nearest voxel."""
    factor = np.array(mask.spacing_mm) / spacing_mm
    size = np.maximum((np.array(mask.voxels.shape[::-1]) * factor).astype(int), 1)
    at = [
        np.clip(np.rint(np.arange(n) / f).astype(int), 0, old - 1)
        for n, f, old in zip(size, factor, mask.voxels.shape[::-1], strict=True)
    ]
    voxels = mask.voxels[np.ix_(at[2], at[1], at[0])]
    x, y, z = (float(n) for n in spacing_mm)
    return Volume(np.ascontiguousarray(voxels), (x, y, z), mask.origin_mm, mask.direction)


def a_mask(name: str, rng: np.random.Generator, cases: Path, folder: Path) -> Made:
    """A mask with other labels, on another grid, in another format."""
    mask = real_mask(name, cases)
    if rng.random() < 0.5:
        mask = resampled(mask, np.array(mask.spacing_mm) * rng.uniform([0.7, 0.7, 0.7], [1.2, 1.2, 1.6]))
    true_ml = float(mask.voxels.sum() * np.prod(mask.spacing_mm) / 1000)
    kind = str(rng.choice(["2", "255", "several", "float", "segmentation", "series", "parts"]))
    given: Values = {}
    if kind in ("segmentation", "series"):
        grid = mask.with_voxels(np.zeros(mask.voxels.shape, np.int16))
        if kind == "segmentation":
            path = write_segmentation(folder, grid, {"vessel": mask.voxels})
        else:
            path = folder / "dicom"
            as_image = mask.with_voxels((mask.voxels * int(rng.choice([1, 255]))).astype(np.int16))
            write_series(as_image, path, SeriesHeader(name, 2, "mask", "AXIAL", mask.spacing_mm[2]))
    else:
        labels: NDArray[Any] = mask.voxels.astype(np.float32 if kind == "float" else np.uint8)
        if kind in ("2", "255"):
            labels *= int(kind)
        if kind in ("several", "parts"):
            z = np.arange(labels.shape[0])[:, None, None]
            upper = (z > np.median(np.argwhere(labels)[:, 0])) & (labels > 0)
        if kind == "several":  # another organ beside it
            beside = ndimage.binary_dilation(labels > 0, iterations=4) & (labels == 0)
            labels = np.where(labels > 0, 7, np.where(beside, 3, 0)).astype(np.uint8)
            given["mask_segment"] = 7
        if kind == "parts":
            labels = labels + upper.astype(np.uint8)
        path = folder / f"mask{FORMATS[int(rng.integers(len(FORMATS)))]}"
        image = sitk.GetImageFromArray(labels)
        image.SetSpacing(mask.spacing_mm)
        image.SetOrigin(mask.origin_mm)
        image.SetDirection(mask.direction.ravel().tolist())
        image = sitk.Flip(sitk.PermuteAxes(image, rng.permutation(3).tolist()), (rng.random(3) < 0.5).tolist(), False)
        sitk.WriteImage(image, str(path))
    words = {"kind": kind, "spacing_mm": mask.spacing_mm, "file": path.name}
    case = {"input": {"mask": str(path)} | given, "solve": flow(FLOW_ML_S.get(name, 40))}
    return case, {"true_ml": true_ml, "true_openings": None, "words": words}


# ---- surfaces --------------------------------------------------------------------------------------------------------


def filled(mesh: vtk.vtkPolyData) -> vtk.vtkPolyData:
    """With its holes closed, triangles whose normals agree and point outwards."""
    clean = vtk.vtkCleanPolyData()
    clean.SetInputData(mesh)
    holes = vtk.vtkFillHolesFilter()
    holes.SetInputConnection(clean.GetOutputPort())
    holes.SetHoleSize(1e6)
    normals = vtk.vtkPolyDataNormals()
    normals.SetInputConnection(holes.GetOutputPort())
    normals.ConsistencyOn()
    normals.AutoOrientNormalsOn()
    normals.SplittingOff()
    normals.Update()
    return normals.GetOutput()


def enclosed_ml(mesh: vtk.vtkPolyData, unit_mm: float) -> float:
    """Of a closed surface."""
    measure = vtk.vtkMassProperties()
    measure.SetInputData(mesh)
    measure.Update()
    return float(measure.GetVolume() * unit_mm**3 / 1000)


def moved(mesh: vtk.vtkPolyData, scale: float, rng: np.random.Generator) -> vtk.vtkPolyData:
    """Scaled, turned and put elsewhere."""
    matrix = np.eye(4)
    matrix[:3, :3] = scale * Rotation.random(random_state=int(rng.integers(1 << 30))).as_matrix()
    matrix[:3, 3] = rng.uniform(-100, 100, 3) * scale
    transform = vtk.vtkTransform()
    transform.SetMatrix(matrix.ravel().tolist())
    mover = vtk.vtkTransformFilter()
    mover.SetTransform(transform)
    mover.SetInputData(mesh)
    mover.Update()
    return mover.GetOutput()


WRITERS = {
    ".stl": vtk.vtkSTLWriter,
    ".vtp": vtk.vtkXMLPolyDataWriter,
    ".ply": vtk.vtkPLYWriter,
    ".obj": vtk.vtkOBJWriter,
}


def a_surface(name: str, rng: np.random.Generator, cases: Path, folder: Path) -> Made:
    """A surface in another unit, place, format, with caps or as it is, with normals inwards or mixed."""
    file, unit_mm, ml_s = SURFACES[name]
    reader = vtk.vtkSTLReader() if file.endswith("stl") else vtk.vtkXMLPolyDataReader()
    reader.SetFileName(str(cases / file))
    reader.Update()
    mesh = reader.GetOutput()
    closed = filled(mesh)
    true_ml = enclosed_ml(closed, unit_mm)
    caps, normals = rng.random() < 0.4, str(rng.choice(["as they are", "inwards", "mixed"], p=[0.5, 0.35, 0.15]))
    mesh = closed if caps else mesh
    unit = str(rng.choice(list(UNITS)))
    mesh = moved(mesh, unit_mm / UNITS[unit], rng)
    if normals == "inwards":
        turn = vtk.vtkReverseSense()
        turn.SetInputData(mesh)
        turn.ReverseCellsOn()
        turn.Update()
        mesh = turn.GetOutput()
    if normals == "mixed":
        for cell in rng.integers(0, mesh.GetNumberOfCells(), max(mesh.GetNumberOfCells() // 20, 1)):
            mesh.ReverseCell(int(cell))
    ending = str(rng.choice(list(WRITERS)))
    writer, path = WRITERS[ending](), folder / f"surface{ending}"
    ascii_file = ending in (".stl", ".ply") and bool(rng.random() < 0.5)
    if ending in (".stl", ".ply"):
        (writer.SetFileTypeToASCII if ascii_file else writer.SetFileTypeToBinary)()
    writer.SetInputData(mesh)
    writer.SetFileName(str(path))
    writer.Write()
    given: Values = {"surface": str(path)}
    if stated := rng.random() < 0.7:
        given["surface_unit"] = unit
    words = {"caps": bool(caps), "normals": normals, "unit": unit, "stated": bool(stated), "ascii": ascii_file}
    case = {"input": given, "solve": flow(ml_s)}
    return case, {"true_ml": true_ml, "true_openings": None, "words": words | {"file": path.name}}


MAKERS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "surface": (a_surface, tuple(SURFACES)),
    "mask": (a_mask, (*MASKS, "fistula", "aorta-iliac")),
    "image": (an_image, ("chest", "time-of-flight")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for what is made")
    parser.add_argument("--seeds", type=int, nargs=2, default=(100, 102), help="from, and up to but not with")
    parser.add_argument(
        "--kinds", default=".*", help="regular expression that names like surface-alster fit as a whole"
    )
    parser.add_argument("--until", default="voxelize", help="last stage")
    add_results(parser)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    without_pages()
    cases, records = Path(os.environ["HEMO_CASES"]).resolve(), {}
    for kind, (make, names) in MAKERS.items():
        for number, name in enumerate(names):
            if not re.fullmatch(options.kinds, f"{kind}-{name}"):
                continue
            for seed in range(*options.seeds):
                folder = options.folder / f"{kind}-{name}-{seed}"
                folder.mkdir(parents=True, exist_ok=True)
                rng = np.random.default_rng([seed, list(MAKERS).index(kind), number])
                case, truth = make(name, rng, cases, folder)
                found = tried(case, truth, folder, options.until)
                for key in ("volume", "mask", "surface"):  # no path of a machine in a record
                    if key in found["case"]["input"]:
                        found["case"]["input"][key] = truth["words"].get("file", Path(found["case"]["input"][key]).name)
                records[folder.name] = found
                print(" | ".join(row(folder.name, found)), truth["words"], flush=True)
    print(write_results(options, "real-variants", records))


if __name__ == "__main__":
    main()
