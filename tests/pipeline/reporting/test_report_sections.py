# SPDX-License-Identifier: Apache-2.0
"""Sections of the report that other stages may fill: each is there with its file or key, and absent without."""

import json
import re

import numpy as np
import pytest

from pipeline.haemodynamics.streamlines import Grid
from pipeline.haemodynamics.trust import check
from pipeline.haemodynamics.wall_shear_stress import Wall
from pipeline.reporting import captions, cuts, figures, quantities, tables
from pipeline.reporting.centreline_figure import read_centreline_profile
from pipeline.reporting.content import _grid_rows, cut_off_rows
from pipeline.reporting.pictures import MAPPED
from pipeline.reporting.scene import caps as caps_of
from pipeline.reporting.scene import closed
from pipeline.reporting.trust_rows import by_state, check_shown, search_words
from pipeline.reporting.wording import Line, table_rows, tabled
from solver.domain.nodes import Opening
from solver.runtime.errors import StageError
from tests.support.analytic_pipe import Pipe
from tests.support.reported import BANDS, GRID, OPTIONAL, PROFILE, enrich, leave, make, wall_arrays


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return leave(tmp_path_factory.mktemp("case"))


@pytest.fixture(scope="module")
def rich(plain, tmp_path_factory):
    """Page and names of the figures of a folder with everything that later stages add; the figures are blank, a browser
    opens the page with them in test_pages_in_browser.
    """
    results = enrich(plain, tmp_path_factory.mktemp("rich"))
    html, files = make(results, tmp_path_factory.mktemp("report"), more=OPTIONAL, blank=True)
    return re.sub(r"<script(?! type=.application).*?</script>", "", html, flags=re.DOTALL), files


def rows(html):
    return dict(re.findall(r'<tr><th scope="row">([^<]*)</th><td>([^<]*)</td></tr>', html))


def test_the_page_has_what_the_flow_carries(rich, plain, tmp_path):
    html, files = rich
    assert "Age of blood and contrast" in html
    assert rows(html)["mean age at a place: in half of the vessel below"] == "0.250 s"
    assert "<td>sac</td>" in html
    assert "0.875" in html
    assert "the diffusivity is raised." in html
    assert "3 % of the bolus are still in the vessel" in html
    assert {"angiogram.png", "dilution.png"} <= {*files}
    without, _ = make(plain, tmp_path, still=False, blank=True)
    assert "Age of blood and contrast" not in without


def test_a_reason_that_all_figures_have_stands_once():
    lost, coarse = check("volume cut off beyond the ends", "%", 0.05, ""), check("nodes across", "", 5.0, "")
    groups = [("flow", "reservation", [lost]), ("speeds", "unusable", [lost, coarse])]
    trust = [{"figures": name, "state": state, "evidence": evidence} for name, state, evidence in groups]
    reservation, unusable = by_state(trust)
    assert reservation == (
        "reservation",
        "with reservation",
        ["all figures: volume cut off beyond the ends 5.00 % (good up to 2.00 %)", "flow"],
    )
    assert unusable == ("unusable", "not usable", ["speeds: nodes across 5 (good from 20)"])
    assert by_state(trust[:1])[0][2] == ["flow: volume cut off beyond the ends 5.00 % (good up to 2.00 %)"]
    assert by_state([]) == []


def test_figures_with_the_same_reasons_stand_together():
    coarse = check("nodes across", "", 15.0, "")
    groups = [
        ("flows", "good", []),
        ("stress", "reservation", [coarse]),
        ("speeds", "good", []),
        ("sac", "reservation", [coarse]),
    ]
    good, reservation = by_state(
        [{"figures": name, "state": state, "evidence": found} for name, state, found in groups]
    )
    assert good[2] == ["flows; speeds"]
    assert reservation[2] == ["stress; sac: nodes across 15 (good from 20)"]


def test_trust_stands_beside_each_key_figure(rich):
    tiles = re.findall(r'<div class="tile">(.*?)</div>', rich[0], re.DOTALL)
    assert len(tiles) == 6
    assert all('class="trust' in tile for tile in tiles)
    shear = next(tile for tile in tiles if "mean time-averaged wall shear stress" in tile)
    assert "grid convergence index 5.12 %" in shear
    assert re.search(r"with reservation</b>: nodes across 13.3 \(good from 20\)", shear)
    assert "1 to 7 Pa" in shear
    assert not any("grid convergence" in tile for tile in tiles if "peak speed" in tile)  # none was found for it


def test_what_is_good_is_folded_and_what_is_not_stands_open(rich):
    """Evidence of a good figure is in a closed fold, that of another is not; so are passed and failed checks."""
    html = rich[0]
    folds = re.findall(r"<details class=\"[^\"]*folded[^\"]*\"[^>]*>(.*?)</details>", html, re.DOTALL)
    assert not re.search(r"<details class=\"[^\"]*folded[^\"]*\" open", html)
    inflow = next(tile for tile in re.findall(r'<div class="tile">(.*?)</div>', html, re.DOTALL) if "inflow" in tile)
    assert re.search(r"<b>good</b> by \d+ checks</summary>converged; ", inflow)
    assert not any("with reservation" in fold or "failed" in fold for fold in folds)
    banner = html[html.index('id="trust"') : html.index("</header>")]
    count = int(re.search(r"(\d+) checks passed</summary>", banner)[1])
    (passed,) = (fold for fold in folds if "checks passed" in fold)
    assert passed.count('<li class="passed"') == count == banner.count('<li class="passed"') > 0
    assert banner.count('<li class="failed"') > 0


def test_study_of_the_grid_is_a_table_with_the_index_in_percent_and_its_warnings_stand_first(rich):
    html, _ = rich
    head, table = _grid_rows(GRID)
    assert head == [
        "quantity",
        "at 0.4 mm",
        "at 0.3 mm",
        "at 0.2 mm",
        "extrapolated",
        "order",
        "grid convergence index (%)",
        "behaviour",
    ]
    assert table[0] == ("shear mean (Pa)", "1.10", "1.21", "1.28", "1.33", "1.87", "5.12", "monotone")
    assert table[1][-4:] == (tables.DASH, tables.DASH, tables.DASH, "oscillating")
    assert html.index("the peak speed &lt;oscillates&gt;") < html.index("At a glance")
    assert "not studied for this case" not in html


def test_openings_tell_what_is_known_of_the_pulse(rich):
    html, _ = rich
    table_rows = {
        "Womersley number": "2.50",
        "share of the flow (%)": "100",
        "largest flow (mL/s)": "4.25",
        "Reynolds number at peak flow": "321",
        "lowest (Pa)": "\N{MINUS SIGN}3.0",
        "total pressure (Pa)": "12.2",
    }
    for head, value in table_rows.items():
        assert f">{head}</th>" in html
        assert f'<td class="n">{value}' in html
    assert ">outlet over inlet pressure</th>" in html
    assert '<td class="n">0.925</td>' in html
    assert "of mean pressures, at the flow that was assumed" in html


def test_narrow_places_sacs_energy_volume_and_residence_are_reported(rich):
    html, _ = rich
    said = rows(html)
    assert ">narrowing of the diameter (%)</th>" in html
    assert '<td class="n">52.5</td>' in html
    assert "<h3>sac 1</h3>" in html
    assert said["inflow, as a part of the flow beside it"] == "15.5 %"
    assert said["found by a neck plane, or by its radius beside the vessel&#39;s"] == "the neck&#39;s ring"
    assert said["not accounted for"] == "5.70 %"
    assert said["power that enters"] == "140 µW"
    assert said["mean shear rate"] == "311 1/s"
    assert said["blood not washed out by then"] == "2.50 %"
    assert '<td>outlet</td><td class="n">98.00 %</td><td class="n">97.00 %</td>' in html
    assert "data:image/gif;base64," in html


def test_figures_of_a_pulsating_wall(rich):
    html, files = rich
    drawn = {f"{key}.png" for key in MAPPED}
    assert "along.png" in files
    assert files >= drawn or "still pictures are missing" in html
    assert "time-averaged wall shear stress" in html


def test_bands_stand_beside_the_figures_and_say_what_they_are_due_to(rich):
    html, files = rich
    tile = next(each for each in re.findall(r'<div class="tile">(.*?)</div>', html, re.DOTALL) if "99th" in each)
    assert "90% band: 0.250 to 1.75" in tile
    assert "90% band: 0.250 to 1.75; 0.400 Pa lies within" in html
    section = html.partition('<section id="bands">')[2].partition("</section>")[0]
    assert "place of the wall 0.02 mm all together, and 0.06 mm alike over 0.5 mm; inflow 10%; waveform of" in section
    assert "waveform of the inflow 20%" in section
    assert "11 runs with these changed at random, the members, on a coarser lattice, tell it" in section
    assert "Not in these bands: how the flow divides did not vary." in section
    assert "mean wall shear stress: 0.400 Pa lies within its band" in section
    assert "5: the flow diverges" in section
    assert "".join(f'<td class="n">{part}%</td>' for part in (36, 64, 0, 0)) in section  # 0.3^2 and 0.4^2 of 0.25
    assert "Less sure: members had 8.2 nodes across the narrowest place" in section
    assert "bands.png" in files


def test_a_reduced_model_is_shown_with_what_its_branches_lose(rich):
    """The trunk: 0.3 x 3 + 0.05 x 9 = 1.35 mmHg, a third of it square."""
    html, _ = rich
    section = html.partition('<section id="reduced">')[2].partition("</section>")[0]
    assert "at 0.500 to 2 times the flow of the case (1.50 to 6 mL/s)" in section
    assert "Does not hold: the flow fluctuates." in section
    assert '<td class="n">1.35</td><td class="n">33%</td>' in section


def test_a_page_without_bands_says_why(plain, tmp_path):
    given = enrich(plain, tmp_path / "given")
    why = "2 of 12 members ended, and 6 are wanted"
    (given / "uncertainty.json").write_text(json.dumps(BANDS | {"no_bands": why, "bands": [], "better": None}))
    html, files = make(given, tmp_path / "made", more={"bands": OPTIONAL["bands"]}, still=False, blank=True)
    assert f"No bands: {why}" in html
    assert "bands.png" not in files


def test_what_is_not_there_leaves_no_section(plain, tmp_path):
    html, files = make(plain, tmp_path, still=False, blank=True)
    for absent in (
        "90% band",
        'id="bands"',
        'id="reduced"',
        "Narrow places",
        'id="grid"',
        "Residence",
        "Womersley",
        "data:image/gif",
    ):
        assert absent not in html.partition("<script>")[0]
    assert "None found." in html
    assert "Elsewhere the wall reaches at most 1.00 radii" in html
    assert "not studied for this case" in html
    assert not {"along.png", "wall-osi.png"} & files


def test_way_accumulates_over_the_tree_whatever_the_order_of_the_branches(tmp_path):
    (tmp_path / "flow.csv").write_text(PROFILE)
    lines = {line.branch: line for line in read_centreline_profile(tmp_path / "flow.csv")}
    assert {branch: line.way_mm.tolist() for branch, line in lines.items()} == {
        "1": [0, 6],
        "2": [6, 10],
        "3": [6, 11],
    }
    np.testing.assert_array_equal(lines["1"].values["area_mm2"], [8, np.nan])
    np.testing.assert_array_equal(lines["2"].values["shear_mean_pa"], [1.5, np.nan])


def test_way_around_a_loop_ends(tmp_path):
    (tmp_path / "flow.csv").write_text("branch,from,to,way_mm,pressure_pa\n1,a,b,2,1\n2,b,a,3,1\n")
    assert [line.way_mm[0] for line in read_centreline_profile(tmp_path / "flow.csv")] == [5, 3]


@pytest.mark.parametrize("text", ["branch,from,to\n1,a,b\n", "branch,from,to,way_mm\n1,a,b,far\n"])
def test_a_table_along_the_centreline_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "flow.csv").write_text(text)
    with pytest.raises(StageError, match="run postprocess again"):
        read_centreline_profile(tmp_path / "flow.csv")


def test_every_scalar_of_the_wall_is_offered_with_a_range_and_only_signed_ones_diverge(tmp_path):
    wall = Wall.of(Pipe(length_mm=14.0).surface(0.4)).mesh
    arrays = wall_arrays(wall)
    wall.write(tmp_path / "wall.vtp", arrays)
    _, found = quantities.read_wall(tmp_path / "wall.vtp")
    assert [each.label for each in found] == [
        "time-averaged wall shear stress (Pa)",
        "peak wall shear stress (Pa)",
        "oscillatory shear index",
        "relative residence time (1/Pa)",
        "endothelial cell activation potential (1/Pa)",
        "transverse wall shear stress (Pa)",
        "gradient of the time-averaged wall shear stress (Pa/mm)",
        "pressure (Pa)",
        "sacs",
        "swirl (1/s)",
    ]
    assert [each.colours == quantities.DIVERGING for each in found] == [False] * 9 + [True]
    assert all(each.kind.note for each in found)
    assert found[2].limits == (0.0, 0.5)
    assert found[-1].limits[0] == -found[-1].limits[1]
    assert all(low < high for low, high in (each.limits for each in found))


def test_stress_over_powers_of_ten_has_logarithmic_colours_and_others_do_not():
    """By formula: uniform areas, so that percentiles are those of the values."""
    even, areas = np.linspace(0, 1, 1001), np.ones(1001)
    sac = quantities.quantity("TAWSS (Pa)", 0.01 * 10 ** (3 * even), areas)  # 0.01 to 10 Pa
    assert sac.log
    np.testing.assert_allclose(sac.limits, [0.01 * 10**0.03, 0.01 * 10**2.97], rtol=0.01)
    narrow = quantities.quantity("TAWSS (Pa)", 1 + 20 * even, areas)
    assert (narrow.log, narrow.limits[0]) == (False, 0.0)
    wider = quantities.quantity("RRT (1/Pa)", 1e-6 * 10 ** (9 * even), areas)
    assert wider.limits[1] == pytest.approx(1000 * wider.limits[0])
    assert not quantities.quantity("pressure (Pa)", 10 ** (3 * even), areas).log
    assert not quantities.quantity("TAWSS (Pa)", np.maximum(even - 0.5, 0), areas).log  # half of it at rest


def test_numbers_of_parts_have_names_and_colours_of_their_own():
    sacs = quantities.quantity("sac", np.array([0, 2, 1, 0, 7], np.int8), np.ones(5))
    numbers, names, colours = zip(*sacs.parts, strict=True)
    assert (numbers, names) == ((0, 1, 2, 7), ("vessel", "sac 1", "sac 2", "sac 7"))
    assert len(set(colours)) == 4
    assert quantities.quantity("OSI", np.zeros(3), np.ones(3)).parts == []


def test_a_wall_without_stress_is_refused(tmp_path):
    wall = Wall.of(Pipe().surface(0.5)).mesh
    wall.write(tmp_path / "wall.vtp", {"pressure (Pa)": wall.points_mm[:, 0]})
    with pytest.raises(StageError, match="no wall shear stress"):
        quantities.read_wall(tmp_path / "wall.vtp")


def test_a_cut_across_a_pipe_shows_its_disc_and_its_pressure_up_to_the_wall():
    """Pressure falls along the axis alone: constant in the cut; interpolation is exact where it is linear."""
    pipe = Pipe(axis=(2, 3, 6), length_mm=14.0)
    nodes = pipe.nodes(0.25)
    points, wall = nodes.points_mm(), Wall.of(pipe.surface(0.2)).mesh
    surface = closed(wall, caps_of(wall, pipe.openings()))
    places = cuts.places_across(pipe.openings(), None, [])
    assert [title.split("inside ")[1] for title, *_ in places] == ["inlet", "outlet"]
    for title, centre, along, radius in places:
        np.testing.assert_allclose(along, pipe.frame()[2], atol=1e-12)
        view = cuts.view_across(centre, along, radius)
        made = cuts.cut(
            title,
            nodes,
            Grid.of(nodes, pipe.velocity(points)),
            cuts.pressure_grid(nodes, pipe.pressure(points)),
            surface,
            view,
            centre,
        )
        (outline,) = made.section.outline_mm
        np.testing.assert_allclose(np.ptp(outline, axis=0), 2 * pipe.radius_mm, rtol=0.01)
        expected = pipe.pressure(centre[None])[0]
        step = pipe.gradient_pa_mm * nodes.spacing_mm
        inside = np.hypot(*np.meshgrid(made.section.right_mm, made.section.up_mm)) < pipe.radius_mm
        np.testing.assert_allclose(made.pressure_pa[inside], expected, atol=step)  # nodes of one side alone at the wall
        core = np.hypot(*np.meshgrid(made.section.right_mm, made.section.up_mm)) < pipe.radius_mm / 2
        np.testing.assert_allclose(made.pressure_pa[core], expected, atol=1e-3 * abs(expected) + 1e-4)


def test_the_narrowest_place_is_cut_across_its_line():
    line = np.column_stack((np.zeros(20), np.linspace(0, 19, 20), np.zeros(20), np.ones(20)))
    tree = {"narrowest_place_mm": [0.1, 7.0, 0.0], "narrowest_radius_mm": 0.8}
    (_, (title, centre, along, radius)) = cuts.places_across(Pipe().openings(), tree, [line])
    assert (title, radius) == ("narrowest place", 1.0)  # of the line's own point
    np.testing.assert_allclose(centre, [0, 7, 0])
    np.testing.assert_allclose(along, [0, 1, 0])


@pytest.mark.parametrize("name", ["along", "animation", "cross", *MAPPED])
def test_captions_tell_units_and_are_plain_text(name):
    text = captions.caption(name)
    assert text.endswith(".")
    assert "(" in text or name == "animation"
    assert not re.search(r"[*`|]|_\W", text)  # signs that Snakemake's report would read as markup


def test_a_picture_without_a_caption_is_an_error():
    with pytest.raises(KeyError, match="no caption"):
        captions.caption("nothing")


def test_places_taken_for_no_sac_are_all_listed_the_widest_first():
    refused = [
        {"place_mm": [1.0, 2.0, 3.0], "wideness_radii": 1.4, "reason": "it rises only 0.40 mm above its neck"},
        {"place_mm": [4.0, 5.0, 6.0], "wideness_radii": 2.5, "reason": "no plane parts it from the parent"},
    ]
    search = {"searched": True, "rule": "Sacs were looked for.", "refused": refused, "widest": 2.5}
    words = search_words({"sac_search": search, "sacs": []})
    assert words["refused"] == [
        ("4.0, 5.0, 6.0", "2.50", "no plane parts it from the parent"),
        ("1.0, 2.0, 3.0", "1.40", "it rises only 0.40 mm above its neck"),
    ]
    assert words["nearest"] is None


def test_directions_are_reported_in_words():
    assert figures.direction_words(np.array([0.7, -0.7, 0.0])) == "left front"
    assert figures.direction_words(np.array([0.0, 0.1, -1.0])) == "feet"


def test_tables_of_objects_share_decimals_and_mark_what_is_missing():
    lines = (Line("name", "name"), Line("n", "sections"), Line("deep.share", "share", "%", 100), Line("none", "none"))
    objects = [{"name": "a", "n": 7, "deep": {"share": 0.5}}, {"name": "b", "n": 12, "deep": None}]
    head, body = tabled(objects, lines)
    assert head == ["name", "sections", "share (%)"]
    assert body == [("a", "7", "50.0"), ("b", "12", tables.DASH)]
    assert tabled([], lines) == ([], [])
    assert table_rows(objects[0], lines) == [("name", "a"), ("sections", "7"), ("share", "50 %")]


def test_a_steady_flow_has_no_range_over_time(plain, tmp_path):
    html, _ = make(plain, tmp_path, still=False, blank=True)
    for absent in ("least flow", "largest flow", "at peak flow", "lowest (Pa)", "highest (Pa)"):
        assert absent not in html


def test_a_lower_limit_is_reported_as_one():
    assert check_shown(check("nodes across the narrowest place", "", 12.6, ""))["limit"] == "at least 20"


def test_cuts_follow_the_line_of_a_vessel_that_bends_and_keep_off_the_caps():
    """A quarter of a circle of 10 mm: 4 mm along it, not straight ahead of the opening; narrow only at its outlet."""
    angle = np.linspace(0, np.pi / 2, 200)
    line = np.column_stack([10 * np.sin(angle), 10 * (1 - np.cos(angle)), 0 * angle, 2 - 0.2 * angle])
    area = 4 * np.pi
    inlet = Opening(1, "inlet", "inlet", (0, 0, 0), (-1, 0, 0), area, 2.0)
    outlet = Opening(2, "outlet", "outlet", (10, 10, 0), (0, 1, 0), area, 2.0)
    tree = {"narrowest_place_mm": [10, 10, 0], "narrowest_radius_mm": 1.7}
    for given in (line, line[::-1]):
        (_, place, along, _), (_, narrow, _, radius) = cuts.places_across((inlet, outlet), tree, [given])
        np.testing.assert_allclose(place, [10 * np.sin(0.4), 10 * (1 - np.cos(0.4)), 0], atol=0.1)
        np.testing.assert_allclose(along, [np.cos(0.4), np.sin(0.4), 0], atol=0.01)
        assert 2 <= np.linalg.norm(narrow - outlet.centre_mm) < 2.2
        assert radius == pytest.approx(2 - 0.2 * (np.pi / 2 - 0.2), abs=0.01)


def test_what_cuts_took_off_is_listed_with_thin_tails_and_what_was_asked_for():
    kept = {"place_mm": [1.0, 2.0, 3.0], "radius_mm": 2.0, "volume_mm3": 0.5, "asked_mm3": 0.0}
    tail = kept | {"volume_mm3": 52.0, "thin_mm3": 48.0, "thin_mm": 16.0, "thin_radius_mm": 0.6}
    wanted = kept | {"volume_mm3": 20.0, "asked_mm3": 20.0}
    rows = cut_off_rows({"mask_volume_mm3": 1000.0, "cut_ends": [kept, tail, wanted]})
    assert rows == [
        ("1.0, 2.0, 3.0", "2", "0.0520", "5.20 %", "0.0480", "16", "0.600", "no"),
        ("1.0, 2.0, 3.0", "2", "0.0200", "2.00 %", "0", "", "", "yes"),
    ]
    assert cut_off_rows({}) == []  # of a shape by a few numbers
