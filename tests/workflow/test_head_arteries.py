# SPDX-License-Identifier: Apache-2.0
"""Two arteries of a real head, as their case files say: slices stand 3.7 times as far apart as pixels."""

import json

import numpy as np
import pytest

from pipeline.files.mesh import Mesh, read_openings
from pipeline.files.volume import Volume
from pipeline.geometry.surface.clip import check_closed

ENDS = {
    "carotid-right": {"petrous": (-22.4, -23.7, -63.9), "cavernous": (-7.7, -45.3, -30.4)},
    "basilar": {
        "vertebral": (9.2, -7.3, -69.5),
        "posterior-right": (-12.1, -30.2, -21.3),
        "posterior-left": (4.0, -26.5, -19.9),
    },
}
"""Places where the tubes end by eye, mm, on rendered surfaces, and cavernous where the case's box cuts the vessel."""


@pytest.mark.slow
@pytest.mark.parametrize("case", ENDS)
def test_real_arteries_are_open_where_a_human_would_cut(real_cases, study, snakemake, monkeypatch, case):
    monkeypatch.setenv("HEMO_CASES", str((real_cases / "head-arteries-mr").parent))
    answer = snakemake(study, case, "--", f"results/{case}/openings.json")
    assert answer.returncode == 0, answer.stderr
    results = study / "results" / case
    filtered = Volume.read(results / "filtered.nrrd")
    assert max(filtered.spacing_mm) == pytest.approx(min(filtered.spacing_mm), rel=1e-3)  # resampled to cubes
    assert max(Volume.read(results / "volume.nrrd").spacing_mm) > 3.5 * min(filtered.spacing_mm)
    check_closed(Mesh.read(results / "surface.vtp"))
    openings = {opening.name: opening for opening in read_openings(results / "openings.json")}
    assert set(openings) == set(ENDS[case])
    for name, place in ENDS[case].items():
        assert np.linalg.norm(np.subtract(openings[name].centre_mm, place)) < 4  # about a diameter
        assert 0.7 < openings[name].radius_mm < 3.5


SEED_ALONE = """
input: {dicom: "${HEMO_CASES}/head-arteries-mr/dicom"}
segment: {seeds_voxel: [[339, 235, 28]]}
solve: {inlets: {"*": {flow_ml_s: 4}}}
"""
"""The left internal carotid artery, with a seed and a flow and no more."""


@pytest.mark.slow
def test_a_thin_way_beside_a_real_carotid_does_not_set_the_spacing(real_cases, study, snakemake, monkeypatch):
    """20 nodes across it would be six times as many nodes."""
    monkeypatch.setenv("HEMO_CASES", str((real_cases / "head-arteries-mr").parent))
    (study / "config/cases/seed-alone.yaml").write_text(SEED_ALONE)
    answer = snakemake(study, "seed-alone", "--", "results/seed-alone/lattice.vti")
    assert answer.returncode == 0, answer.stderr
    results = study / "results/seed-alone"
    facts = json.loads((results / "voxelize.provenance.json").read_text())
    tree = json.loads((results / "centreline.json").read_text())
    assert facts["spacing_mm"] > 1.8 * 2 * tree["narrowest_radius_mm"] / 20
    assert facts["fluid_nodes"] < 5e6
