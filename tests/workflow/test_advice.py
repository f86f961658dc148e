# SPDX-License-Identifier: Apache-2.0
"""What a refusal advises, followed to the letter, ends in a result or in another refusal: never in the same one.

What is advised is read out of the message itself (advice.py); each kind of input that is refused is made small here,
and run by the stages of the workflow.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
import yaml

from pipeline.files.volume import Volume
from pipeline.haemodynamics.advice import Advice, in_words
from pipeline.haemodynamics.flow_checks import resolving
from pipeline.haemodynamics.trust import check
from pipeline.stages.phantom import SeriesHeader, write_series
from pipeline.workflow.recovery import require_folders
from solver.backends.cost import Device
from solver.domain import nodes as node_files
from solver.run.forecast import forecast
from solver.runtime.errors import StageError
from tests.pipeline.geometry.test_left_out import with_twig
from tests.pipeline.segmentation.test_automatic_seeds import cylinder_in_body
from tests.pipeline.segmentation.test_left_vessel import imaged, ventricle
from tests.pipeline.segmentation.test_pick_page import Picker, made
from tests.pipeline.stages.test_import_mask import ball, fewer_frames, write_segmentation
from tests.pipeline.stages.test_import_surface import faulty
from tests.pipeline.stages.test_import_surface import write as write_given
from tests.support import chromium
from tests.support.advice import Deeds, Refusal, Step, Values, Workflow, advised, follow, merged
from tests.support.dicom_files import edit, files, put, shift
from tests.support.file_mutations import flipped
from tests.support.linear_field import slices, write
from tests.support.neighbours import aortic_slab
from tests.support.shapes import capped_cylinder, stenosis
from tests.support.tubes import grid_around, voxel_places
from tests.support.variants import some
from tests.support.vessels import centre_line_mm, tube_volume

FLOW: Values = {"solve": {"inlets": {"*": {"flow_ml_s": 2.0}}}}
TUBE = capped_cylinder((1, -2, 3), 2.0, 20.0, (12.0, -34.0, 250.0), segments=24)[0]


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    """Pages and pictures take longer than the stages, and refuse nothing."""
    for module in ("segment", "import_mask"):
        monkeypatch.setattr(f"pipeline.stages.{module}.draw", lambda *_: None)
        monkeypatch.setattr(f"pipeline.stages.{module}.render", lambda *_, **__: "")


def refused(workflow: Workflow, values: Values) -> Refusal:
    refusal = workflow.run(values)
    assert refusal
    return refusal


def passed(steps: list[Step]) -> bool:
    return bool(steps) and steps[-1].taken is not None


# ---- units -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def surface(tmp_path_factory) -> Callable[[str], Path]:
    """The tube in a file, by the unit that it is written in."""
    folder = tmp_path_factory.mktemp("surface")
    return lambda unit: write_given(TUBE, folder / unit, "stl", unit, "LPS", said=False)


SLIPS: dict[str, tuple[str, Values]] = {
    "viscosity in mPa s": ("mm", {"solve": {"viscosity_pa_s": 3.5}}),
    "density in g/cm3": ("mm", {"solve": {"density_kg_m3": 1.06}}),
    "flow in mL/min": ("mm", {"solve": {"inlets": {"*": {"flow_ml_s": 120.0}}}}),
    "flow in m3/s": ("mm", {"solve": {"inlets": {"*": {"flow_ml_s": 2e-6}}}}),
    "lengths in m": ("m", {}),
    "lengths in um": ("um", {}),
}


@pytest.mark.parametrize("way", some(range(2), 0))
@pytest.mark.parametrize("slip", SLIPS)
def test_slips_of_units(slip, way, surface, tmp_path):
    unit, wrong = SLIPS[slip]
    values = {"input": {"surface": str(surface(unit)), "surface_unit": "mm"}} | FLOW
    steps = follow(
        Workflow(tmp_path, "plausibility").run, values | {"solve": FLOW["solve"] | wrong.get("solve", {})}, first=way
    )
    assert steps
    assert passed(steps) or way  # not every slip has a second way


@pytest.mark.parametrize("seed", some(range(4), 1))
def test_a_flow_too_large_for_the_narrowest_place(seed, tmp_path):
    """A stenosis through which blood would go at more than 5 m/s, drawn at random: less flow, or it is accepted."""
    rng = np.random.default_rng(9200 + seed)
    radius = rng.uniform(1.5, 3.0)
    throat, flow_ml_s = radius * rng.uniform(0.2, 0.3), 400 * np.pi * radius**2 * 1e-3
    tight = stenosis(rng.normal(size=3), radius, 12 * radius, throat, segments=32)[0]
    path = write_given(tight, tmp_path / "tight", "stl", "mm", "LPS", said=False)
    inlets = {"solve": {"inlets": {"*": {"flow_ml_s": float(flow_ml_s)}}}}
    values = {"input": {"surface": str(path), "surface_unit": "mm"}} | inlets
    workflow = Workflow(tmp_path, "plausibility")
    refusal = refused(workflow, values)
    assert "mean speed at the narrowest place" in refusal.said
    ways = advised(refusal.said, values)
    assert [*ways[0].settings] == ["solve"]
    assert ways[-1].settings == {"accept": ["narrowest_speed"]}
    for way, advice in enumerate(ways):
        assert passed(follow(workflow.run, values, first=way))
        checks = {check["name"]: check for check in json.loads((tmp_path / "plausibility.json").read_text())["checks"]}
        assert checks["mean speed at the narrowest place"]["passed"] == ("solve" in advice.settings)


# ---- images: seeds, thresholds, regions, contrast --------------------------------------------------------------------

SMALL = Device("a small card", 1.5e6, 1e6, 1e-5, 0.0)
ORIGIN = (-30.0, 55.0, 100.0)
"""Of the images: a point in RAS lies elsewhere."""


def at(x: float, y: float, z: float) -> list[float]:
    """A voxel's place; voxels are 1 mm large."""
    return [ORIGIN[0] + x, ORIGIN[1] + y, ORIGIN[2] + z]


def ct(**more: Any) -> Volume:
    """A tube of 300 HU and 4 mm about the voxels (25, 25, z), in 40 HU."""
    image = cylinder_in_body(**more)
    return Volume(image.voxels.astype(np.int16), image.spacing_mm, ORIGIN, np.eye(3))


def with_block(box: tuple[slice, slice, slice], hu: float) -> Volume:
    """The same with a block [z, y, x] of another level."""
    image = ct()
    image.voxels[box] += np.int16(hu - 40)
    return image


def leaky(organ: float | None) -> Volume:
    """The tube, joined to an organ beside it; or one whose levels rise to that of the lumen."""
    image = ct()
    levels = np.linspace(320, 80, 12) if organ is None else organ
    image.voxels[2:38, 2:48, 36:48] += np.asarray(levels - 40, np.int16)
    image.voxels[19:22, 24:27, 28:36] += np.int16((organ or 330) - 50)
    return image


INSIDE = at(25, 25, 20)
SEEDED: Values = {"segment": {"seeds_mm": [INSIDE], "lower": 170.0}}
IMAGES: dict[str, tuple[Callable[[], Volume], Values]] = {
    "seed beside the vessel": (ct, {"segment": {"seeds_mm": [at(18, 25, 20)], "lower": 170.0}}),
    "seed far from the vessel": (ct, {"segment": {"seeds_mm": [at(12, 12, 11)], "lower": 170.0}}),
    "seed beside the vessel, MR": (ct, {"segment": {"seeds_mm": [at(18, 25, 20)], "lower": 170.0}}),
    "seed far from the vessel, MR": (ct, {"segment": {"seeds_mm": [at(12, 12, 11)], "lower": 170.0}}),
    "noise, MR": (lambda: ct(lumen=60.0), {"segment": {"seeds_mm": [INSIDE], "lower": 50.0}}),
    "seed as a voxel": (ct, {"segment": {"seeds_voxel": [[7, 14, 10]], "lower": 170.0}}),
    "one of two seeds beside": (ct, {"segment": {"seeds_mm": [INSIDE, at(18, 25, 20)], "lower": 170.0}}),
    "seed in tissue": (ct, {"segment": {"seeds_mm": [at(18, 25, 20)]}}),
    "seed in RAS": (ct, {"segment": {"seeds_mm": [[-INSIDE[0], -INSIDE[1], INSIDE[2]]]}}),
    "seed out of the image": (ct, {"segment": {"seeds_mm": [at(300, 25, 20)]}}),
    "seed out of the region": (
        ct,
        {"filter": {"region_voxels": {"low": [0, 0, 0], "high": [9, 30, 20]}}} | SEEDED,
    ),
    "region out of the image": (
        ct,
        {"filter": {"region_mm": {"low_mm": at(60, 0, 0), "high_mm": at(90, 9, 9)}}} | SEEDED,
    ),
    "grown region, seed too dark": (
        ct,
        {"filter": {"region_grown": {"lower": 900.0}}} | SEEDED,
    ),
    "speckle": (
        lambda: with_block(np.s_[20:23, 24:27, 15:18], 300),
        {"segment": {"seeds_mm": [at(16, 25, 21)], "lower": 170.0}},
    ),
    "two vessels": (
        lambda: with_block(np.s_[11:29, 12:16, 12:16], 300),
        {"segment": {"seeds_mm": [INSIDE, at(13, 13, 20)], "lower": 170.0}},
    ),
    "a leak": (lambda: leaky(200), {"segment": {"seeds_mm": [INSIDE], "lower": 150.0}}),
    "a leak at any threshold": (
        lambda: leaky(None),
        {"segment": {"seeds_mm": [INSIDE], "lower": 170.0, "leak_growth": 1.1}},
    ),
    "a leak, threshold to be found": (
        lambda: leaky(None),
        {"segment": {"seeds_mm": [INSIDE], "leak_growth": 1.1}},
    ),
    "a threshold below the tissue": (ct, {"segment": {"seeds_mm": [INSIDE], "lower": 0.0}}),
    "no contrast agent": (lambda: ct(lumen=60.0), {"segment": {"seeds_mm": [INSIDE]}}),
    "no contrast agent, no seed": (lambda: ct(lumen=60.0), {}),
}
"""An image, and settings by which the stages up to the lumen refuse it."""


def scanned(image: Volume, folder: Path) -> Path:
    """The middle of an image as a series, or as a file, of which nobody knows the unit."""
    shutil.rmtree(folder, ignore_errors=True)
    middle = Volume(image.voxels[10:30, 11:41, 11:41], image.spacing_mm, tuple(at(11, 11, 10)), image.direction)
    if folder.suffix:
        middle.write(folder)
        return folder
    write_series(middle, folder, SeriesHeader("study", 2, "series", "AXIAL", 1.0))
    return folder


@pytest.mark.parametrize(
    "fault",
    some(
        IMAGES,
        "seed beside the vessel",
        "seed far from the vessel, MR",
        "seed as a voxel",
        "seed in RAS",
        "seed out of the region",
        "region out of the image",
        "grown region, seed too dark",
        "two vessels",
        "a leak",
        "a leak at any threshold",
        "no contrast agent, no seed",
    ),
)
def test_seeds_thresholds_regions_and_contrast(fault, tmp_path):
    make, settings = IMAGES[fault]
    entry, name = ("volume", "source.nrrd") if fault.endswith("MR") else ("dicom", "source")
    source = scanned(make(), tmp_path / name)
    values = {"input": {entry: str(source)}} | FLOW | settings
    cut = {"point_mm": at(32, 25, 20), "normal": [1, 0, 0], "radius_mm": 8.0}
    deeds: Deeds = {"cut plane": lambda _: {"segment": {"cut_planes": [cut]}}}
    if fault.startswith(("no contrast", "noise")):
        deeds["other images"] = lambda _: scanned(ct(), source) and None
    ways = len(advised(refused(Workflow(tmp_path, "segment"), values).said, values))
    assert ways
    for way in range(ways):
        scanned(make(), source)
        steps = follow(Workflow(tmp_path, "segment").run, values, deeds, first=way)
        assert passed(steps) or way


# ---- vessels that the image cuts flat, and what they open into -------------------------------------------------------


SLAB: dict[str, Values] = {
    "no more than the seed": {},
    "one of its ends closed": {"surface": {"closed_mm": "an end"}},
    "no border may be covered": {"segment": {"border_fraction": 0.01}},
}


@pytest.fixture(scope="module")
def slab(tmp_path_factory) -> tuple[Path, Values]:
    """An aorta of 254 HU between the first and the last of 29 slices, beside lung, as a file, and its seed."""
    phantom = aortic_slab(1003)
    path = tmp_path_factory.mktemp("slab") / "slab.nrrd"
    phantom.image.write(path)
    seed = {"segment": {"seeds_voxel": [list(phantom.seed)]}, "filter": {"spacing_mm": 1.5, "smoothing": "none"}}
    return path, {"input": {"volume": str(path)}} | seed | {"solve": {"inlets": {"*": {"flow_ml_s": 80.0}}}}


@pytest.mark.parametrize("fault", some(SLAB, "one of its ends closed"))
def test_a_vessel_that_the_first_and_last_slice_cut_flat_is_open_there_and_whole(fault, slab, tmp_path):
    path, values = slab
    wrong = dict(SLAB[fault])
    if "surface" in wrong:
        image = Volume.read(path)
        x, y, _ = values["segment"]["seeds_voxel"][0]
        wrong = {"surface": {"closed_mm": [image.to_mm((x, y, -0.5)).tolist()]}}
    run = Workflow(tmp_path, "plausibility").run
    steps = follow(run, merged(values, wrong))
    assert passed(steps) or not steps
    openings = json.loads((tmp_path / "openings.json").read_text())["openings"]
    slices = Volume.read(tmp_path / "filtered.nrrd")
    depths = sorted(slices.to_index(opening["centre_mm"])[2] for opening in openings)
    assert depths == pytest.approx([-0.5, slices.voxels.shape[0] - 0.5], abs=0.05)  # in the plane of the border
    checks = {check["name"]: check for check in json.loads((tmp_path / "plausibility.json").read_text())["checks"]}
    assert checks["volume cut off beyond the ends"]["passed"]
    assert checks["places where the mask may have left the vessel"]["passed"]


@pytest.mark.slow
@pytest.mark.parametrize("valve", [4.0, 9.0])
def test_a_vessel_that_opens_into_a_chamber(valve, tmp_path):
    """What is said to part the two was tried: it gives the vessel."""
    phantom = ventricle(valve)
    image = imaged(phantom.mask, 1.0)
    path = written(image, tmp_path / "heart.nrrd")
    segment = {"seeds_mm": [image.to_mm(phantom.seed).tolist()], "lower": 195.0}
    values = {"input": {"volume": str(path)}, "filter": {"smoothing": "none"}, "segment": segment} | FLOW
    ways = advised(refused(Workflow(tmp_path, "segment"), values).said, values)
    assert [way.settings["segment"] for way in ways][-1] == {"beyond": "accept"}
    assert len(ways) > 1
    for way, advice in enumerate(ways):
        workflow = Workflow(tmp_path, "segment")
        assert passed(follow(workflow.run, values, first=way))
        found = Volume.read(tmp_path / "lumen.nrrd").voxels > 0
        beyond = int((found[:36]).sum())  # below the valve's tube: the chamber's ball, cut off at its top
        assert (beyond > 0) == ("beyond" in advice.settings["segment"])


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Picker]:
    started = chromium.start(tmp_path_factory.mktemp("profile"), Picker)
    started.screen(1280, 900)
    yield started
    started.close()


def copied(browser: Picker, image: Volume, folder: Path, given: Values) -> str:
    """What a user copies who seeds a vessel, takes the box around it and marks both ends."""
    image.write(folder / "image.nrrd")
    browser.open(made(image, given), folder)
    line = centre_line_mm()
    browser.seed(line[1000])
    browser.press("#box-around")
    browser.grown()
    for y in (1.0, 24.5):
        browser.click_surface("opening", line[np.abs(line[:, 1] - y).argmin()])
    assert browser.doubts() == []
    return browser.text("yaml")


@pytest.mark.parametrize("seed", some(range(2), 1))
def test_what_the_page_copies_is_a_whole_case(seed, browser, tmp_path, monkeypatch):
    """Put in place of the file that it was made from, without a further word, it leads to a lattice."""
    rng = np.random.default_rng(9300 + seed)
    image = tube_volume(radius_mm=rng.uniform(2, 3), noise=rng.uniform(0, 20), spacing_mm=(0.6, 0.6, 0.6))
    whole = image.with_voxels(np.rint(image.voxels).astype(np.int16))
    values = yaml.safe_load(copied(browser, whole, tmp_path, {"input": {"volume": "image.nrrd"}} | FLOW))
    monkeypatch.chdir(tmp_path)
    assert Workflow(tmp_path, "decompose").run(values) is None
    openings = json.loads((tmp_path / "openings.json").read_text())["openings"]
    assert {each["name"] for each in openings} == {each["name"] for each in values["surface"]["openings"]}
    assert {each["role"] for each in openings} == {"inlet", "outlet"}
    checks = json.loads((tmp_path / "plausibility.json").read_text())["checks"]
    assert [check["advice"] for check in checks if not check["passed"]] == []


@pytest.mark.slow
def test_what_the_page_copies_runs_to_a_report(browser, study, snakemake):
    folder = study / "data/patients/picked"
    folder.mkdir(parents=True)
    image = tube_volume(radius_mm=2.5, noise=10, spacing_mm=(0.6, 0.6, 0.6))
    whole = image.with_voxels(np.rint(image.voxels).astype(np.int16))
    given = {"input": {"volume": "data/patients/picked/image.nrrd"}, "voxelize": {"nodes_across": 10}} | FLOW
    (study / "config/cases/picked.yaml").write_text(copied(browser, whole, folder, given))
    answer = snakemake(study, "picked")
    assert answer.returncode == 0, answer.stderr[-2000:]
    assert (study / "results/picked/report.html").is_file()


# ---- damaged files ---------------------------------------------------------------------------------------------------


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    path.write_bytes(flipped(data, np.random.default_rng(1), len(data) // 2))


def without_numbers(path: Path) -> None:
    volume = Volume.read(path)
    volume.voxels[3:5, 4, 5] = np.nan
    volume.write(path)


VOLUMES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a NIfTI file cut off": ("a.nii.gz", cut_off),
    "flipped bytes in packed MHA": ("a.mha", flip),
    "flipped bytes in packed NRRD": ("a.nrrd", flip),
    "NaN": ("float.nii", without_numbers),
}


def restoring(sound: Path, source: Path) -> Deeds:
    """The files as they were, once more."""

    def again(_: str) -> None:
        if sound.is_file():
            shutil.copy(sound, source)
            return
        shutil.rmtree(source)
        shutil.copytree(sound, source)

    return {"again": again, "mend": again}


@pytest.mark.parametrize("fault", VOLUMES)
@pytest.mark.parametrize("entry", ["volume", "mask"])
def test_damaged_volumes(entry, fault, tmp_path):
    name, damage = VOLUMES[fault]
    sound, source = tmp_path / "sound" / name, tmp_path / "given" / name
    for path in (sound, source):
        path.parent.mkdir()
        made = ball()
        if entry == "volume":
            made = made.with_voxels(200 * made.voxels + np.arange(made.voxels.size).reshape(made.voxels.shape) % 50)
        made.with_voxels(made.voxels.astype(np.float32 if name.startswith("float") else np.int16)).write(path)
    damage(source)
    values = {"input": {entry: str(source)}} | FLOW
    run = Workflow(tmp_path, "load" if entry == "volume" else "import_mask").run
    assert passed(follow(run, values, restoring(sound, source)))


def series(folder: Path) -> None:
    write(slices(), folder)


def taken_out(said: str, folder: Path) -> None:
    """The files that a message names by their numbers in the order of names."""
    there = files(folder)
    named = {int(number) for number in re.findall(r"file (\d+) of the folder", said)}
    assert named
    for number in named:
        there[number - 1].unlink()


def other_patient(folder: Path) -> None:
    edit(folder, lambda each, k: setattr(each, "PatientID", f"PLANTED-{k // 5}"))


def two_orientations(folder: Path) -> None:
    write([*slices(), *(each.tagged() for each in slices([0, 0.8, 1.6, 2.4], (-90, 0, 0)))], folder)


def mixed(folder: Path) -> None:
    edit(folder, lambda each, k: put(ImageOrientationPatient=list("100010"))(each, k) if k in (2, 3, 7) else None)


def first(change: Callable[[pydicom.Dataset], Any], *only: int) -> Callable[[Path], None]:
    """A change of some slices, of the first unless others are named."""
    return lambda folder: edit(folder, lambda each, k: change(each) if k in (only or (0,)) else None)


def resized(each: pydicom.Dataset) -> None:
    each.Rows -= 1
    each.PixelData = each.PixelData[: each.Rows * each.Columns * 2]


def two_series(folder: Path) -> None:
    write(
        [each.tagged(SeriesInstanceUID="1.2.3.4", SOPInstanceUID=f"1.2.3.4.{k}") for k, each in enumerate(slices())],
        folder / "other",
    )


def same_twice(folder: Path) -> None:
    shutil.copy(files(folder)[0], folder / "zz.dcm")
    dataset = pydicom.dcmread(folder / "zz.dcm")
    dataset.PixelData = dataset.PixelData[::-1]
    dataset.save_as(folder / "zz.dcm")


SERIES: dict[str, Callable[[Path], Any]] = {
    "a damaged header at an end": lambda folder: files(folder)[0].write_bytes(files(folder)[0].read_bytes()[:200]),
    "an empty file inside": lambda folder: files(folder)[4].write_bytes(b""),
    "a slice under another UID": first(lambda each: setattr(each, "SeriesInstanceUID", "1.2.3")),
    "two patients under one UID": other_patient,
    "two orientations": two_orientations,
    "two orientations mixed up": mixed,
    "two series of one size": two_series,
    "a slice missing": lambda folder: files(folder)[4].unlink(),
    "a slice moved along": first(lambda each: shift(each, normal=0.3), 4),
    "no pixels in any file": lambda folder: edit(folder, lambda each, k: delattr(each, "PixelData")),
    "no pixels in one file": first(lambda each: delattr(each, "PixelData")),
    "no position in one file": first(lambda each: delattr(each, "ImagePositionPatient")),
    "a slice of another size": first(resized),
    "an image twice, otherwise": same_twice,
    "no rescale slope in one": first(lambda each: delattr(each, "RescaleSlope")),
    "colours": lambda folder: edit(folder, lambda each, k: setattr(each, "PhotometricInterpretation", "MONOCHROME1")),
}


@pytest.mark.parametrize("fault", SERIES)
def test_damaged_and_mixed_up_series(fault, tmp_path):
    sound, source = tmp_path / "sound", tmp_path / "source"
    series(sound)

    def spoil() -> None:
        shutil.rmtree(source, ignore_errors=True)
        series(source)
        SERIES[fault](source)

    spoil()
    values = {"input": {"dicom": str(source)}} | FLOW
    ways = len(advised(refused(Workflow(tmp_path, "load"), values).said, values))
    deeds = restoring(sound, source) | {"take out": lambda said: taken_out(said, source)}
    for way in range(ways):
        spoil()
        assert passed(follow(Workflow(tmp_path, "load").run, values, deeds, first=way))


# ---- masks and surfaces in pieces, or of too many --------------------------------------------------------------------


def tube_mask() -> Volume:
    """A tube that the border of the image cuts at both ends."""
    x, y, _ = np.indices((26, 26, 40), np.float32)
    inside = np.hypot(x - 12.2, y - 12.7) < 6
    return Volume(np.ascontiguousarray(inside.transpose(2, 1, 0)).astype(np.uint8), (0.5,) * 3, ORIGIN, np.eye(3))


def with_speck() -> Volume:
    mask = tube_mask()
    mask.voxels[15:25, 0:5, 0:5] = 1
    return mask


def with_labels() -> Volume:
    mask = tube_mask()
    mask.voxels[:, 0:5, 0:5] = 2
    return mask


def written(mask: Volume, path: Path) -> Path:
    mask.write(path)
    return path


@pytest.mark.parametrize("seeded", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_larger_series_without_contrast_beside_the_one_that_is_meant(seeded, tmp_path):
    """The series with the most slices is taken; the refusal names the other one, which leads to the vessel."""
    meant = tube_volume()
    z, y, x = meant.voxels.shape
    native = np.random.default_rng(6).normal(45, 20, (z + 8, y, x)).astype(np.int16)
    write_series(replace(meant, voxels=native), tmp_path / "images/native", SeriesHeader("study", 3, "n", "AXIAL", 1.0))
    filled = meant.with_voxels(meant.voxels.astype(np.int16))
    write_series(filled, tmp_path / "images/filled", SeriesHeader("study", 2, "f", "AXIAL", 1.0))
    seed = centre_line_mm()[1000].round(2).tolist()
    grower: Values = {"lower": 195.0, "seeds_mm": [seed]} if seeded else {}
    values = {"input": {"dicom": str(tmp_path / "images")}, "segment": grower} | FLOW
    workflow = Workflow(tmp_path / "results", "segment")
    (tmp_path / "results").mkdir()
    ways = advised(refused(workflow, values).said, values)
    (way,) = (each for each in ways if "load" in each.settings)
    assert workflow.run(merged(values, way.settings)) is None


def mask_series(folder: Path, damage: bool) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    mask = tube_mask()
    write_series(mask.with_voxels(mask.voxels.astype(np.int16)), folder, SeriesHeader("study", 2, "s", "AXIAL", 1.0))
    if damage:
        files(folder)[3].write_bytes(b"")
    return folder


def segmentation(folder: Path, damage: bool) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    mask = ball()
    path = write_segmentation(folder, mask, {"a": mask.voxels})
    if damage:
        dataset = pydicom.dcmread(path)
        fewer_frames(dataset)
        dataset.save_as(path)
    return path


MASKS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Path]]] = {
    "two parts": (
        lambda folder: written(with_speck(), folder / "a.nrrd"),
        lambda folder: written(tube_mask(), folder / "a.nrrd"),
    ),
    "two labels and none chosen": (
        lambda folder: written(with_labels(), folder / "a.nrrd"),
        lambda folder: folder / "a.nrrd",
    ),
    "a segmentation with fewer frames": (
        lambda folder: segmentation(folder / "seg", True),
        lambda folder: segmentation(folder / "seg", False),
    ),
    "a series with an empty file": (
        lambda folder: mask_series(folder / "series", True),
        lambda folder: mask_series(folder / "series", False),
    ),
}
"""How a mask is made that is refused, and how the user makes it right."""


@pytest.mark.parametrize("fault", some(MASKS, *[name for name in MASKS if "series" not in name]))
def test_masks(fault, tmp_path):
    make, repair = MASKS[fault]
    values = {"input": {"mask": str(make(tmp_path))}} | FLOW
    deeds: Deeds = dict.fromkeys(("again", "mend"), lambda _: repair(tmp_path) and None)
    deeds["take out"] = lambda said: taken_out(said, tmp_path / "series")
    for way in range(len(advised(refused(Workflow(tmp_path, "import_mask"), values).said, values))):
        make(tmp_path)
        assert passed(follow(Workflow(tmp_path, "import_mask").run, values, deeds, first=way))


FAULTY = ("not finite", "two pieces", "inner wall", "one side", "overlap", "one rim", "bent rim")


@pytest.mark.parametrize("kind", some(FAULTY, "not finite", "inner wall", "one side", "one rim"))
def test_surfaces_that_only_their_maker_can_repair(kind, tmp_path):
    path = write_given(faulty(kind), tmp_path / "given", "ply", "mm", "LPS", said=False)
    values = {"input": {"surface": str(path), "surface_unit": "mm"}} | FLOW
    repair: Deeds = dict.fromkeys(
        ("again", "mend"), lambda _: write_given(TUBE, tmp_path / "given", "ply", "mm", "LPS", said=False) and None
    )
    assert passed(follow(Workflow(tmp_path, "import_surface").run, values, repair))


def test_ends_that_are_all_closed(tmp_path):
    path = written(tube_mask(), tmp_path / "a.nrrd")
    values = {"input": {"mask": str(path)}, "surface": {"closed_mm": [at(6, 6, 0)]}}
    assert passed(follow(Workflow(tmp_path, "surface").run, values | FLOW))


def with_a_flat_end(flat: float, long_mm: float, keeps: float) -> Volume:
    """A vessel of 5 mm that divides into two of 3, and is pressed flat over some length at its end.

    Parameters
    ----------
    flat : height of the end over the vessel's.
    long_mm : of the flat part.
    keeps : by what power of its height the end is wider: with 1/2 it keeps its area.
    """
    volume = grid_around(np.linspace(0, 72, 60)[:, None] * np.array([1.0, 0, 0]), 22)
    x, y, z = np.moveaxis(voxel_places(volume), -1, 0)
    height = np.interp(x, [long_mm, long_mm + 2], [flat, 1.0])
    width = height**-keeps
    lumen = (np.hypot(y / (5 * width), z / (5 * height * width)) < 1) & (x > 0) & (x < 50)
    for side in (1, -1):
        lumen |= (np.hypot(y - side * 0.55 * np.clip(x - 46, 0, 30), z) < 3) & (x > 46) & (x < 72)
    return volume.with_voxels(lumen.astype(np.uint8))


FLAT_ENDS = {
    "opened by a lower roundness": (0.3, 20.0, 0.5),
    "opened by a lower roundness, less flat": (0.4, 20.0, 0.5),
    "opened by none": (0.25, 10.0, 0.0),
}


@pytest.mark.parametrize(
    "kind",
    [
        "opened by a lower roundness",
        pytest.param("opened by a lower roundness, less flat", marks=pytest.mark.slow),
        pytest.param("opened by none", marks=pytest.mark.slow),
    ],
)
def test_a_main_vessel_whose_end_stays_closed(kind, tmp_path):
    """The check names the roundness that was tried, or to keep the end closed: either way, it does not come back."""
    path = written(with_a_flat_end(*FLAT_ENDS[kind]), tmp_path / "a.nrrd")
    values = {"input": {"mask": str(path)}} | FLOW
    name = "width of a closed end over that of the widest opening"

    def run(values: Values) -> dict[str, Any] | None:
        assert Workflow(tmp_path, "plausibility").run(values) is None
        checks = json.loads((tmp_path / "plausibility.json").read_text())["checks"]
        return next((check for check in checks if check["name"] == name and not check["passed"]), None)

    failed = run(values)
    assert failed
    ways = advised(failed["advice"], values)
    assert len(ways) == (2 if "lower" in kind else 1) + 1  # and the cut planes that a person may draw
    for way in ways:
        if not way.deed:
            assert run(merged(values, way.settings)) is None
            opened = len(json.loads((tmp_path / "openings.json").read_text())["openings"])
            assert opened == (3 if "cut_roundness" in way.settings["surface"] else 2)


# ---- lattices that do not fit ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def twigged(tmp_path_factory) -> tuple[Workflow, Values]:
    """A vessel with a side branch that carries a tenth of the flow, whose surface and lines all tests share."""
    lumen = with_twig(np.random.default_rng(20), 0.42)
    mask = lumen.with_voxels((lumen.voxels >= 0.5).astype(np.uint8))
    folder = tmp_path_factory.mktemp("twig")
    return Workflow(folder, "voxelize"), {"input": {"mask": str(written(mask, folder / "a.nrrd"))}} | FLOW


SIZES: dict[str, Values] = {
    "little memory": {"memory_gb": 0.0015},
    "little memory, nodes counted": {"memory_gb": 0.0015, "nodes_across": 20},
    "too coarse for the branch": {"nodes_across": 8},
    "far too coarse": {"spacing_mm": 3.0},
}


@pytest.mark.parametrize("fault", some(SIZES, "little memory, nodes counted", "too coarse for the branch"))
def test_lattices_that_do_not_fit(fault, twigged):
    workflow, values = twigged
    workflow.until = "voxelize"
    assert passed(follow(workflow.run, values | {"voxelize": SIZES[fault]}))


@pytest.mark.parametrize("chosen", [{"spacing_mm": 0.2}, pytest.param({"nodes_across": 20}, marks=pytest.mark.slow)])
def test_what_the_solver_s_device_cannot_hold(chosen, twigged):
    """The solver's advice leads to that of voxelize, which leads to a lattice that the device holds."""
    workflow, values = twigged
    workflow.until = "decompose"

    def run(values: Values) -> Refusal | None:
        if refusal := workflow.run(values):
            return refusal
        try:
            forecast(node_files.load(workflow.folder / "nodes.h5"), "fp32", 10, SMALL)
        except StageError as error:
            return Refusal("solve", str(error))
        return None

    steps = follow(run, values | {"voxelize": chosen})
    assert passed(steps)
    assert steps[0].refusal.stage == "solve"


# ---- files in the way ------------------------------------------------------------------------------------------------


def test_a_file_where_the_results_belong(tmp_path):
    (tmp_path / "results").touch()

    def run(_: Values) -> Refusal | None:
        try:
            require_folders([tmp_path / "results"])
        except StageError as error:
            return Refusal("workflow", str(error))
        return None

    def move(said: str) -> None:
        path = Path(said.split(":")[0])
        path.rename(path.with_name("moved"))

    assert passed(follow(run, FLOW, {"move": move}))


@pytest.mark.parametrize(("across", "spacing_mm"), [(19.3, 0.1), (8.1, 0.237), (3.2, 0.5)])
def test_figures_that_are_not_resolved(across, spacing_mm):
    """What the check of nodes across advises resolves them."""
    (way,) = advised(f"only {across} nodes across; set {resolving(across, spacing_mm)}", {"input": {}} | FLOW)
    finer_mm = way.settings["voxelize"]["spacing_mm"]
    assert check("nodes across", "", across * spacing_mm / finer_mm, "")["passed"]


@pytest.mark.parametrize("seed", range(8))
def test_a_spacing_that_is_advised_satisfies_all_checks_that_advise_one(seed):
    """Of the opening, of the narrowest place, in any order: whichever is followed, neither comes back."""
    rng = np.random.default_rng(8100 + seed)
    spacing_mm = 10 ** rng.uniform(-2, 0)
    across = dict(zip(("nodes across", "nodes across the narrowest place"), rng.uniform(2, 19, 2), strict=True))
    checks = [check(name, "", n, Advice(f"only {n:.1f}", resolving(n, spacing_mm))) for name, n in across.items()]
    checks += [check("flow balance", "%", 0.03, "run longer"), check("Mach number", "", 0.1, "")]
    found = in_words(checks if seed % 2 else checks[::-1])
    assert {each["name"]: each["advice"] for each in found}["Mach number"] is None
    for each in found:
        if each["name"] in across:
            (way,) = advised(each["advice"], {"input": {}} | FLOW)
            finer_mm = way.settings["voxelize"]["spacing_mm"]
            assert all(check(name, "", n * spacing_mm / finer_mm, "")["passed"] for name, n in across.items())


# ---- as a user gives the command ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_workflow_from_three_mistakes_to_the_report(snakemake, study):
    """Blood in mPa s, flow in mL/min and a seed in RAS: each refusal by the command, the last run by its report."""
    case = study / "config/cases/mistaken.yaml"
    values = yaml.safe_load((study / "config/cases/tiny.yaml").read_text())
    wrong = {"viscosity_pa_s": 3.5, "inlets": {"*": {"flow_ml_s": 120.0}}}
    values = merged(values, {"solve": wrong, "segment": {"seeds_mm": [[500.0, 500.0, 500.0]], "seeds_voxel": []}})

    def run(values: Values) -> Refusal | None:
        case.write_text(yaml.safe_dump(values))
        answer = snakemake(study, "mistaken")
        if not answer.returncode:
            return None
        said = re.findall(r"(?:error: |mistaken\.yaml: )(.*)", answer.stdout + answer.stderr)
        assert said, answer.stderr[-2000:]
        return Refusal("workflow", said[0])

    steps = follow(run, values)
    assert len(steps) == 3
    assert (study / "results/mistaken/report.html").is_file()
