# SPDX-License-Identifier: Apache-2.0
"""Every column and quantity that tables have stands in the dictionary once, with a meaning and the table's unit."""

import csv
import io
import json

import numpy as np
import pytest

from pipeline.haemodynamics.arterial_tree import segment_rows
from pipeline.haemodynamics.coupling_checks import KINDS
from pipeline.haemodynamics.index_table import long_rows
from pipeline.haemodynamics.tree_waveforms import Waveforms
from pipeline.reporting.dictionary import HEAD, QUANTITIES, dictionary
from pipeline.stages import uncertainty
from pipeline.stages.convergence import write_table as write_study
from pipeline.stages.tree import write_sites
from solver.run.monitor import OF_OPENINGS, SINGLE
from tests.pipeline.haemodynamics.test_arterial_tree import PULSE, body, made_up
from tests.support.reported import enrich, leave


@pytest.fixture(scope="module")
def explained():
    rows = list(csv.DictReader(io.StringIO(dictionary())))
    assert tuple(rows[0]) == HEAD
    found = {(row["table"], row["name"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_every_row_says_what_it_means_and_where_it_comes_from(explained):
    assert all(row["meaning"] and row["source"] for row in explained.values())


@pytest.mark.parametrize("table", ["branches.csv", "centreline_flow.csv", "indices.csv", "openings.csv"])
def test_columns_of_the_tables_of_a_case_are_explained(explained, tmp_path, table):
    with (leave(tmp_path) / table).open(newline="") as file:
        columns = next(csv.reader(file))
    assert len(columns) > 4
    assert [name for name in columns if (table, name) not in explained] == []


def test_columns_of_the_solver_and_of_networks_are_explained(explained):
    named = {name.partition(":")[0] for table, name in explained if table == "monitor.csv"}
    assert named == {*SINGLE, *OF_OPENINGS}
    row = segment_rows(made_up(body(), lambda *_: PULSE))[0]
    assert list(row) == [name for table, name in explained if table == "tree.csv"]
    assert explained["tree.csv", "impedance_mmhg_s_ml"]["unit"] == "mmHg s/mL"


def columns_of(explained, table):
    return [name for of, name in explained if of == table]


def test_columns_of_bands_of_grid_studies_and_of_sites_are_explained(explained, tmp_path):
    assert columns_of(explained, "uncertainty.csv") == list(uncertainty.COLUMNS)
    keys = ("order", "order_used", "safety", "extrapolated", "uncertainty", "gci", "behaviour")
    quantity = {"name": "x", "unit": "Pa", "values": [1.0], **dict.fromkeys(keys, 0.0)}
    write_study({"spacings_mm": [0.25], "quantities": [quantity]}, tmp_path / "study.csv")
    assert columns_of(explained, "grid_convergence.csv") == [
        name.replace("0.25", "<spacing>") for name in (tmp_path / "study.csv").read_text().splitlines()[0].split(",")
    ]
    none = np.zeros((1, 1))
    flat = Waveforms(("aorta",), np.zeros(1), np.zeros(1), 1.0, none, none, none, none)
    write_sites(tmp_path / "sites.csv", ["<site>"], flat)
    assert columns_of(explained, "waveforms.csv") == (tmp_path / "sites.csv").read_text().splitlines()[0].split(",")
    assert explained["waveforms.csv", "<site>.area_mm2"]["unit"] == "mm2"


def test_quantities_are_explained_with_the_unit_that_their_rows_have(explained, tmp_path):
    rows = long_rows(json.loads((enrich(leave(tmp_path / "left"), tmp_path / "rich") / "indices.json").read_text()))
    assert {row["quantity"].partition(".")[0] for row in rows} >= {"wall", "openings", "sacs", "stenoses", "energy"}
    for row in rows:
        assert explained["indices.csv", row["quantity"]]["unit"] == row["unit"], row["quantity"]


def test_all_waveforms_of_a_coupled_opening_are_explained():
    assert {f"coupling.{kind}_flow_ml_s" for kind in KINDS} <= QUANTITIES.keys()
    assert sum(key.startswith("coupling.") for key in QUANTITIES) == 4 * len(KINDS) + 5


@pytest.mark.parametrize(
    ("table", "name", "unit"),
    [
        ("cohort.csv", "sac_volume_ml", "mL"),
        ("cohort.csv", "cardiac_output_l_min", "L/min"),
        ("cohort.csv", "wall_below_0.4_pa_fraction", ""),
        ("indices.csv", "volume.mean_shear_rate_1_s", "1/s"),
        ("indices.csv", "volume.mean_viscosity_pa_s", "Pa s"),
        ("indices.csv", "volume.helicity_h1_m_s2", "m/s2"),
        ("indices.csv", "sacs.turnover_time_s", "s"),
        ("openings.csv", "flow_ml_s", "mL/s"),
        ("openings.csv", "mean_speed_m_s", "m/s"),
    ],
)
def test_units_follow_from_names(explained, table, name, unit):
    assert explained[table, name]["unit"] == unit
