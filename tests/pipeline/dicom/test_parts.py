# SPDX-License-Identifier: Apache-2.0
"""Slices that do not belong to one image are kept apart, and those that do are not torn apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from pydicom import uid

from pipeline.files.volume import Volume
from solver.runtime.errors import StageError
from tests.support.dicom_files import SLICES, edit, files, noise, oblique, put, read, write
from tests.support.dicom_writer import enhanced, item, save

Change = Callable[[pydicom.Dataset, int], Any]


def two(folder: Path, first: Change, second: Change) -> tuple[np.ndarray, np.ndarray]:
    """One series of two images at the same places, told apart by what the changes set; and the voxels of both."""
    images = noise(), noise()[:, ::-1].copy()
    series, study = uid.generate_uid(), uid.generate_uid()
    for name, voxels, change in zip("ab", images, (first, second), strict=True):
        write(oblique(voxels), folder / name)
        edit(folder / name, put(SeriesInstanceUID=series, StudyInstanceUID=study, AcquisitionNumber=1))
        edit(folder / name, change)
    return images


def numbered(keyword: str, start: float, step: float = 0) -> Change:
    return lambda dataset, k: setattr(dataset, keyword, start + step * k)


def typed(*words: str) -> Change:
    return put(ImageType=list(words))


def as_mr(change: Change) -> Change:
    return lambda dataset, k: (setattr(dataset, "Modality", "MR"), change(dataset, k))


DISTINGUISHED = {
    "temporal position": (put(TemporalPositionIdentifier=1), put(TemporalPositionIdentifier=2), "temporal position 1"),
    "cardiac phase": (
        put(NominalPercentageOfCardiacPhase=30.0),
        put(NominalPercentageOfCardiacPhase=75.0),
        "phase 30 %",
    ),
    "trigger time that drifts from slice to slice": (
        numbered("TriggerTime", 10, 0.5),
        numbered("TriggerTime", 300, 0.5),
        "trigger delay 11.25 ms",
    ),
    "echo": (
        lambda d, k: put(EchoNumbers=1, EchoTime="2.3")(d, k),
        lambda d, k: put(EchoNumbers=2, EchoTime="4.6")(d, k),
        "echo 1 (2.3 ms)",
    ),
    "echo time": (put(EchoTime="2.3"), put(EchoTime="4.6"), "echo time 2.3 ms"),
    "b value": (put(DiffusionBValue=0.0), put(DiffusionBValue=800.0), "b value 0 s/mm2"),
    "component": (
        as_mr(typed("ORIGINAL", "PRIMARY", "M", "ND")),
        as_mr(typed("ORIGINAL", "PRIMARY", "P", "ND")),
        "magnitude",
    ),
    "image type": (
        typed("ORIGINAL", "PRIMARY", "AXIAL", "FAT"),
        typed("ORIGINAL", "PRIMARY", "AXIAL", "WATER"),
        "fat",
    ),
    "acquisition": (put(AcquisitionNumber=1), put(AcquisitionNumber=2), "acquisition 1"),
    "time alone": (put(AcquisitionTime="101500.5"), put(AcquisitionTime="101530.25"), "time 1"),
}


@pytest.mark.parametrize("case", DISTINGUISHED)
def test_images_at_the_same_places_are_kept_apart_and_chosen_by_name_or_number(case, tmp_path):
    change, other, name = DISTINGUISHED[case]
    first, second = two(tmp_path, change, other)
    with pytest.raises(StageError, match=r"holds 2 parts .*load\.phase.*: 1: .* \(6 slices\); 2: .* \(6 slices\)$"):
        read(tmp_path)
    for phase, expected in ((1, first), ("2", second), (name, first), (name.upper(), first)):
        volume, facts = read(tmp_path, phase=phase)
        np.testing.assert_array_equal(volume.voxels, expected)
    assert facts.part == name
    assert facts.files["skipped"] == {"other part of the series": SLICES}
    with pytest.raises(StageError, match=r"load\.phase: no part with the number or name .*load\.phase: 1\): 1:"):
        read(tmp_path, phase="late")


def test_times_of_phases_that_overlap_are_not_guessed_between(tmp_path):
    two(tmp_path, numbered("TriggerTime", 10, 100), numbered("TriggerTime", 300, 100))
    with pytest.raises(StageError, match=r"12 slices lie at 6 places along the normal \(2 at each"):
        read(tmp_path)


def test_phases_times_echoes_are_four_parts(tmp_path):
    series = uid.generate_uid()
    images = {}
    for phase in (1, 2):
        for echo in (1, 2):
            voxels = np.roll(noise(), 3 * phase + echo, axis=1)
            images[f"temporal position {phase}, echo {echo}"] = voxels
            folder = tmp_path / f"{phase}{echo}"
            write(oblique(voxels), folder)
            edit(folder, put(SeriesInstanceUID=series, TemporalPositionIdentifier=phase, EchoNumbers=echo))
    for name, voxels in images.items():
        np.testing.assert_array_equal(read(tmp_path, phase=name)[0].voxels, voxels)


def test_a_phase_that_lacks_a_slice_is_still_distinguished(tmp_path):
    first, _ = two(tmp_path, put(TemporalPositionIdentifier=1), put(TemporalPositionIdentifier=2))
    edit(tmp_path / "b", lambda dataset, k: k != 3)
    np.testing.assert_array_equal(read(tmp_path, phase=1)[0].voxels, first)
    with pytest.raises(StageError, match="1 slice is missing"):
        read(tmp_path, phase=2)


def test_interleaved_phases_are_never_one_volume(tmp_path):
    """Half a slice apart they would make an even stack of both."""
    write(oblique(noise()), tmp_path)
    edit(tmp_path, lambda dataset, k: setattr(dataset, "TemporalPositionIdentifier", 1 + k % 2))
    with pytest.raises(StageError, match=r"1: temporal position 1 \(3 slices\); 2: temporal position 2 \(3 slices\)"):
        read(tmp_path)


ONE = {
    "acquisition of each table position": numbered("AcquisitionNumber", 1, 1),
    "interleaved acquisitions": lambda d, k: setattr(d, "AcquisitionNumber", 1 + k % 2),
    "time of each slice": lambda d, k: setattr(d, "AcquisitionTime", f"1015{k:02d}.5"),
    "trigger time of each slice": numbered("TriggerTime", 10, 7),
    "tube current and kernel": lambda d, k: put(XRayTubeCurrent=100 + k, KVP="120")(d, k),
    "phase by table position": lambda d, k: setattr(d, "TemporalPositionIdentifier", 1 + k // 3),
    "derived, and nothing else": typed("DERIVED", "SECONDARY", "REFORMATTED"),
    "derived axial": typed("DERIVED", "SECONDARY", "AXIAL"),
}


@pytest.mark.parametrize("case", ONE)
def test_one_stack_is_not_torn_apart(case, tmp_path):
    write(oblique(noise()), tmp_path)
    edit(tmp_path, ONE[case])
    volume, facts = read(tmp_path)
    np.testing.assert_array_equal(volume.voxels, noise())
    assert facts.part is None


def test_localizers_and_what_is_derived_are_set_apart_in_the_same_series(tmp_path):
    write(oblique(noise()), tmp_path / "a")
    series = pydicom.dcmread(files(tmp_path)[0]).SeriesInstanceUID
    for name, words, count in (
        ("b", ("DERIVED", "SECONDARY", "REFORMATTED"), 9),
        ("c", ("ORIGINAL", "PRIMARY", "LOCALIZER"), 2),
        ("d", ("DERIVED", "SECONDARY", "MIP"), 12),
    ):
        write(oblique(noise((count, 11, 17))), tmp_path / name)
        edit(tmp_path / name, lambda d, k, words=words: put(SeriesInstanceUID=series, ImageType=list(words))(d, k))
    volume, facts = read(tmp_path)
    np.testing.assert_array_equal(volume.voxels, noise())
    assert facts.files == {"seen": SLICES + 23, "used": SLICES, "skipped": {"other part of the series": 23}}
    kinds = [part["kind"] for part in facts.series_seen[0]["parts"]]
    assert kinds == ["original", "derived", "rendered", "localizer"]
    assert read(tmp_path, phase="derived")[0].voxels.shape[0] == 9
    with pytest.raises(StageError, match="projections or renderings of a volume"):
        read(tmp_path, phase=3)


@pytest.mark.parametrize("k", [0, 2, SLICES - 1])
def test_a_slice_of_another_type_that_goes_on_a_stack_is_not_left_out_without_a_word(k, tmp_path):
    """Left out at an end, it would only shorten the volume."""
    write(oblique(noise()), tmp_path)
    edit(tmp_path, put(only=k, ImageType=["DERIVED", "PRIMARY", "AXIAL"]))
    with pytest.raises(StageError, match=r"holds 2 parts .*1: original \(5 slices\).* 2: derived \(1 slice\): only 1"):
        read(tmp_path)


def test_rescaling_of_some_slices_alone_is_refused(tmp_path):
    write(oblique(noise()), tmp_path)
    edit(tmp_path, put(Modality="MR"))
    edit(tmp_path, lambda d, k: [d.pop("RescaleSlope"), d.pop("RescaleIntercept")] if k == 5 else None)
    with pytest.raises(StageError, match="1 of 6 slices lack RescaleSlope"):
        read(tmp_path)


@pytest.mark.parametrize("words", [("DERIVED", "SECONDARY", "MIP"), ("DERIVED", "PRIMARY", "PERFUSION", "RCBF")])
def test_what_is_no_image_of_intensities_is_refused(words, tmp_path):
    write(oblique(noise()), tmp_path)
    edit(tmp_path, typed(*words))
    with pytest.raises(StageError, match=r"not the volume|calculated quantity"):
        read(tmp_path)


def test_copies_of_an_image_are_dropped_even_in_another_transfer_syntax(tmp_path):
    write(oblique(noise()), tmp_path / "a")
    for path in files(tmp_path / "a"):
        save(pydicom.dcmread(path), tmp_path / "b" / path.name, uid.RLELossless)
    volume, facts = read(tmp_path)
    np.testing.assert_array_equal(volume.voxels, noise())
    assert facts.files["skipped"] == {"duplicate of a slice": SLICES}


# Enhanced multi-frame images


def frames(count: int = 6) -> tuple[np.ndarray, Volume]:
    cells = np.random.default_rng(5).integers(0, 4096, (count, 11, 17)).astype(np.uint16)
    return cells, oblique(cells)


@pytest.mark.parametrize("kind", ["CT", "MR", "XA", "legacy CT"])
def test_frames_are_put_where_their_functional_groups_say(kind, tmp_path):
    cells, grid = frames()
    order = [3, 0, 5, 1, 4, 2]  # frame 0 lies at place 3, and so on
    save(enhanced(cells, grid, kind, order=order), tmp_path / "x")
    volume, facts = read(tmp_path)
    np.testing.assert_array_equal(volume.voxels[order], cells.astype(int) - 1024)
    np.testing.assert_allclose(volume.to_mm([16, 10, 5]), grid.to_mm([16, 10, 5]), atol=1e-9)
    np.testing.assert_allclose(volume.direction, grid.direction, atol=1e-9)
    assert facts.modality == kind.split()[-1]
    assert facts.files == {"seen": 1, "used": 1, "skipped": {}}


def test_frames_have_their_own_rescaling(tmp_path):
    cells, grid = frames()
    save(enhanced(cells, grid, rescale=[(1 + k, -100 * k) for k in range(6)]), tmp_path / "x")
    expected = cells.astype(int) * np.arange(1, 7)[:, None, None] - 100 * np.arange(6)[:, None, None]
    np.testing.assert_array_equal(read(tmp_path)[0].voxels, expected)


@pytest.mark.parametrize("kind", ["MR", "XA"])
def test_frames_of_mr_and_xa_may_come_without_rescaling_but_not_of_ct(kind, tmp_path):
    cells, grid = frames()
    save(enhanced(cells, grid, kind, rescale=None), tmp_path / "x")
    np.testing.assert_array_equal(read(tmp_path)[0].voxels, cells)
    save(enhanced(cells, grid, "CT", rescale=None), tmp_path / "x")
    with pytest.raises(StageError, match=r"RescaleSlope or RescaleIntercept is missing in file 1 .* frame 1"):
        read(tmp_path)


PHASES = {
    "temporal position 1": lambda k: {"FrameContentSequence": item(TemporalPositionIndex=1 + k % 2)},
    "phase 20 %": lambda k: {
        "CardiacSynchronizationSequence": item(NominalPercentageOfCardiacPhase=20.0 + 55 * (k % 2))
    },
    "echo time 2 ms": lambda k: {"MREchoSequence": item(EffectiveEchoTime=2.0 + 3 * (k % 2))},
    "trigger delay 0 ms": lambda k: {
        "UnassignedPerFrameConvertedAttributesSequence": item(TriggerTime=str(400 * (k % 2)))
    },
}


@pytest.mark.parametrize("name", PHASES)
def test_phases_in_one_file_are_kept_apart(name, tmp_path):
    cells, grid = frames(12)
    order = [k // 2 for k in range(12)]
    save(enhanced(cells, grid, "MR", PHASES[name], order=order), tmp_path / "x")
    with pytest.raises(StageError, match="holds 2 parts"):
        read(tmp_path)
    for phase, start in ((name, 0), (2, 1)):
        np.testing.assert_array_equal(read(tmp_path, phase=phase)[0].voxels, cells[start::2].astype(int) - 1024)


def test_magnitude_and_phase_frames_are_kept_apart(tmp_path):
    cells, grid = frames(12)

    def component(k: int) -> dict[str, pydicom.Dataset]:
        word = "MAGNITUDE" if k < 6 else "PHASE"
        return {"MRImageFrameTypeSequence": item(FrameType=["ORIGINAL", "PRIMARY"], ComplexImageComponent=word)}

    save(enhanced(cells, grid, "MR", component, order=[*range(6), *range(6)]), tmp_path / "x")
    np.testing.assert_array_equal(read(tmp_path, phase="magnitude")[0].voxels, cells[:6].astype(int) - 1024)


ENHANCED_FAULTS = {
    "no groups": (lambda d: d.pop("PerFrameFunctionalGroupsSequence"), "Enhanced CT .* of 6 frames without functional"),
    "groups of five": (
        lambda d: d.PerFrameFunctionalGroupsSequence.pop(),
        "Enhanced CT .* of 6 frames with functional groups for 5",
    ),
    "no position of one": (
        lambda d: d.PerFrameFunctionalGroupsSequence[2].pop("PlanePositionSequence"),
        "1 of 6 slices lack ImagePositionPatient",
    ),
    "position of the file, not of the frames": (
        lambda d: (
            [group.pop("PlanePositionSequence") for group in d.PerFrameFunctionalGroupsSequence],
            setattr(d, "ImagePositionPatient", [0, 0, 0]),
        ),
        "6 of 6 slices lack ImagePositionPatient",
    ),
    "no orientation": (
        lambda d: d.SharedFunctionalGroupsSequence[0].pop("PlaneOrientationSequence"),
        "6 of 6 slices lack ImageOrientationPatient",
    ),
    "frames that are projections": (
        lambda d: setattr(
            d.SharedFunctionalGroupsSequence[0].CTImageFrameTypeSequence[0], "VolumetricProperties", "SAMPLED"
        ),
        "projections or renderings",
    ),
    "fewer frames than said": (lambda d: setattr(d, "PixelData", d.PixelData[:-400]), "truncated"),
    "2-D angiography": (
        lambda d: (setattr(d, "SOPClassUID", uid.EnhancedXAImageStorage), setattr(d, "Modality", "XA")),
        "an X-ray projection",
    ),
}


@pytest.mark.parametrize("fault", ENHANCED_FAULTS)
def test_enhanced_images_with_faults_are_refused(fault, tmp_path):
    cells, grid = frames()
    dataset = enhanced(cells, grid)
    change, expected = ENHANCED_FAULTS[fault]
    change(dataset)
    save(dataset, tmp_path / "x")
    with pytest.raises(StageError, match=expected):
        read(tmp_path)


def test_real_enhanced_mr_gives_its_four_parts(real_cases):
    path = real_cases / "dicom-oddities/r12-enhanced-multiframe/BRMULTI.dcm"
    with pytest.raises(StageError, match="holds 4 parts"):
        read(path)
    stored = pydicom.dcmread(path)
    volume, _ = read(path, phase=3)
    assert volume.voxels.shape == (3, 256, 256)
    groups = stored.PerFrameFunctionalGroupsSequence
    long = [k for k, group in enumerate(groups) if group.MREchoSequence[0].EffectiveEchoTime > 100]
    long.sort(key=lambda k: groups[k].PlanePositionSequence[0].ImagePositionPatient[2])
    assert len(long) == 3
    np.testing.assert_array_equal(volume.voxels, stored.pixel_array[long])


def test_a_real_converted_series_is_the_same_as_its_single_files(real_cases):
    root = real_cases / "dicom-oddities/r18-ct-multiframe-seg-24x38x3"
    single, converted = read(root / "image")[0], read(root / "multiframe")[0]
    np.testing.assert_array_equal(single.voxels, converted.voxels)
    np.testing.assert_allclose(single.to_mm([3, 4, 2]), converted.to_mm([3, 4, 2]), atol=1e-6)
