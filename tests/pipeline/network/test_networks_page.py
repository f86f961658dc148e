# SPDX-License-Identifier: Apache-2.0
"""What docs/networks.md shows is so: its example is a network, its edits are edits, its table is that of the files."""

import re
from pathlib import Path

import pytest
import yaml

from pipeline.case.case_file import Case
from pipeline.case.settings.base import parse
from pipeline.case.settings.network_edits import KINDS
from pipeline.network.arterial_ranges import RANGES
from pipeline.network.case_network import network_of_case
from pipeline.network.network_file import Network, find, read_network
from pipeline.network.reading import sound_network
from pipeline.network.walls import LAWS, keys_of
from solver.runtime.sources import ROOT
from tests.support.networks import SHIPPED

PAGE = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
EDITS = re.findall(r"^\| `(\{.*?\})` \|", PAGE.split("## Edits")[1], re.MULTILINE)


def test_the_example_is_a_sound_network(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    example, _ = EXAMPLES
    (tmp_path / "example.yaml").write_text(example, encoding="utf-8")
    network = sound_network(tmp_path / "example.yaml")
    assert list(network.segments) == ["trunk", "left.proximal", "left.stenosis", "left.distal", "right"]


def test_the_case_of_a_network_alone_is_a_case(monkeypatch):
    monkeypatch.chdir(ROOT)
    case = parse(Case, yaml.safe_load(EXAMPLES[1]), "docs/networks.md")
    network, edits = network_of_case(Path(case.input.network), case.tree, "docs/networks.md")
    assert len(edits) == 1
    assert {site.segment for site in case.tree.sites} <= {*network.segments}


@pytest.mark.parametrize("edit", EDITS)
def test_each_edit_in_the_table_works_on_adan56(edit, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = find("adan56").read_text(encoding="utf-8")
    (tmp_path / "net.yaml").write_text(f"{text}edits: [{edit}]\n", encoding="utf-8")
    before, after = read_network(find("adan56")), sound_network(tmp_path / "net.yaml")
    assert (before.segments, before.terminals) != (after.segments, after.terminals)


def test_every_edit_law_and_shipped_network_is_in_its_table():
    assert [next(iter(yaml.safe_load(edit))) for edit in EDITS] == list(KINDS)
    for law in LAWS:
        (row,) = re.findall(rf"^\| `{law}` \|.*$", PAGE, re.MULTILINE)
        named = set(re.findall(r"`(\w+)`", row)) - {law}
        assert named <= keys_of(law)
        assert named | {"viscosity_kpa_s", "wave_speed_m_s", "youngs_modulus_kpa", "thickness_mm"} >= keys_of(law)
    assert set(re.findall(r"^\| `([\w-]+\.yaml)` \|", PAGE, re.MULTILINE)) == {f.name for f in SHIPPED.glob("*.yaml")}


def test_types_of_terminals_and_ranges_are_those_of_the_code():
    rows = PAGE.split("| `type` |")[1].split("## Edits")[0]
    kinds = {"resistance", "rcr", "by-area", "matched", "reflection", "pressure"}
    assert kinds <= set(re.findall(r"`([\w-]+)`", rows))
    more = {"resistance": {"resistance_mmhg_s_ml": 1}, "rcr": {"total_mmhg_s_ml": 9, "compliance_ml_mmhg": 1},
            "by-area": {"resistance_mmhg_s_ml": 1}, "reflection": {"part": 0.1}}  # fmt: skip
    segments = {"a": {"nodes": ["x", "y"], "length_mm": 9, "radius_mm": 1, "wave_speed_m_s": 5}}
    for kind in kinds:
        behind = {"y": {"type": kind, **more.get(kind, {})}}
        assert parse(Network, {"segments": segments, "inlets": {"x": {"flow_ml_s": 1}}, "terminals": behind}, kind)
    for quantity, words in (("radius", "radius {:g} to {:g} mm"), ("wave_speed", "wave speed {:g} to {:g} m/s")):
        assert words.format(RANGES[quantity].least, RANGES[quantity].largest) in " ".join(PAGE.split())
