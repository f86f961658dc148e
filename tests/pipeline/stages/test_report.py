# SPDX-License-Identifier: Apache-2.0
"""The page: what it says first, that it escapes what it is given, and that it needs nothing but itself."""

import csv
import json
import re

import numpy as np
import pytest

from pipeline.reporting import quantities, render, report_page, tables
from pipeline.reporting.content import SURFACES
from pipeline.stages import report
from solver.run.units import words
from solver.runtime.errors import StageError
from tests.support.analytic_pipe import Pipe
from tests.support.reported import WAVEFORMS, leave, make


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return leave(tmp_path_factory.mktemp("case"))


@pytest.fixture(scope="module")
def made(results, tmp_path_factory):
    return make(results, tmp_path_factory.mktemp("report"))


def without_script(html):
    return re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


def test_page_carries_all_that_it_shows(made):
    html, _ = made
    body = without_script(html)
    sources = re.findall(r'src="([^"]*)', body)
    assert sources
    assert all(source.startswith("data:image/webp;base64,") for source in sources)
    links = [link for link in re.findall(r'href="([^"]*)', body) if not link.startswith("#")]
    assert links == ["data:,", "segmentation.html"]  # no icon; of the same case, to look further
    assert {link[1:] for link in re.findall(r'href="(#[^"]*)', body)} <= set(re.findall(r'id="([^"]*)', body))
    assert "@import" not in body
    assert "url(" not in body
    assert not re.findall(r"<script[^>]*src=", html)
    assert "Plotly.newPlot" in html
    assert len(html) < 10e6


def test_tables_say_what_their_numbers_are_worth(results):
    """As indices.json judges the figures: flows, speeds and pressures of openings, and all along the centreline."""
    state = {each["key"]: each["state"] for each in json.loads((results / "indices.json").read_text())["trust"]}
    with (results / "openings.csv").open(newline="") as stream:
        openings = list(csv.DictReader(stream))
    assert len(openings) == 2
    for row in openings:
        assert {key: row[f"{key}_trust"] for key in ("flow", "speed", "pressure")} == {
            key: state[key] for key in ("flow", "speed", "pressure")
        }
    with (results / "centreline_flow.csv").open(newline="") as stream:
        assert {row["trust"] for row in csv.DictReader(stream)} == {state["along"]}


def test_texts_are_escaped(made):
    body = without_script(made[0])
    assert "a &lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in body
    assert "tau &amp; &lt;tau&gt; are low" in body
    assert "font: 16px" in body
    assert '"Segoe UI"' in body  # the style sheet is not


def test_warnings_stand_before_the_numbers(made):
    body = without_script(made[0])
    assert 0 < body.index("Read this before the numbers") < body.index("are low") < body.index("At a glance")
    assert "All checks passed" not in body


def test_waveforms_are_plotted_with_their_figures(made):
    body, figures = without_script(made[0]), made[1]
    assert figures >= WAVEFORMS
    assert "the amplitudes of its harmonics. outlet: mean 100, from 80 to 120 in 0.8 s." in body
    assert "the amplitudes of its harmonics. inlet: mean" in body


def test_page_says_the_numbers_of_the_pipe(made):
    body, pipe = without_script(made[0]), Pipe(length_mm=14.0)
    drop = pipe.gradient_pa_mm * pipe.length_mm
    assert f"{drop:.2f}" in body
    assert f"<b>{pipe.shear_stress_pa:.3f} <small>Pa</small></b>" in body
    assert "<b>1.26 <small>mL/s</small></b>" in body
    assert "3.20 × 10⁻⁵" in body  # noqa: RUF001
    assert "64 × 64 × 56" in body  # noqa: RUF001
    assert "research" in body


def test_page_says_how_far_the_lumen_hangs_on_the_threshold(made):
    body = without_script(made[0])
    rows = dict(re.findall(r'<tr><th scope="row">([^<]*)</th><td>([^<]*)</td></tr>', body))
    assert rows["volume (mL)"] == "0.1761"
    assert rows["mean radius (mm)"] == "2.012"
    assert rows["volume for 1 % of contrast less"] == "+0.84 %"
    assert rows["mean radius for 1 % of contrast less"] == "+0.53 %"
    assert rows["iterations"] == "250"
    assert body.count("<polyline") == 2
    assert 0 < body.index("7 % of the centre line is thin") < body.index("At a glance")


def test_stages_are_listed_with_time_and_memory(made):
    assert re.search(r"<td>load</td><td class=\"n\">1\.25</td><td class=\"n\">100</td>", without_script(made[0]))


def test_page_says_what_the_branches_measure(made):
    body, pipe = without_script(made[0]), Pipe(length_mm=14.0)
    ((number, start, stop, length, tortuosity, *radii),) = re.findall(
        r"<tr><td>(1)</td><td>(\w+)</td><td>(\w+)</td>" + 5 * r'<td class="n">([\d.]+)</td>' + "</tr>", body
    )
    assert (number, start, stop) == ("1", "inlet", "outlet")
    assert float(length) == pytest.approx(14, rel=0.005)
    assert float(tortuosity) == pytest.approx(1, abs=0.005)
    np.testing.assert_allclose(np.array(radii, float), pipe.radius_mm, rtol=0.02)
    assert f"narrowest place through which blood passes: radius {radii[0][:3]}" in body.replace("\n", " ")
    counted = [re.findall(f"<td>{name}</td>" + 5 * r'<td class="n">([\d.]+)</td>', body) for name in SURFACES.values()]
    assert counted == [[("12345", "678", "9", "0.123", "51.5")], [("12345", "0", "9", "0.123", "51.5")]]


def test_a_vessel_without_a_centreline_and_without_counts_has_no_empty_section(results, tmp_path):
    original = (results / "openings.json").read_text()
    try:
        (results / "openings.json").write_text(json.dumps({"openings": json.loads(original)["openings"]}))
        html, files = make(results, tmp_path, ("centreline", "branches"), still=False, blank=True)
    finally:
        (results / "openings.json").write_text(original)
    assert "<h2>Geometry</h2>" not in html
    assert not {"centreline.png", "triangles.png"} & files


@pytest.mark.parametrize("entry", [pytest.param("mask", marks=pytest.mark.slow), "surface"])
def test_a_case_that_enters_later_says_so_and_has_no_empty_heading(results, tmp_path, entry):
    without = ("series",) if entry == "mask" else ("series", "segmentation", "picture")
    html, files = make(results, tmp_path, without, still=False, blank=True)
    body = without_script(html)
    assert f"enters with a given {entry}" in body
    assert ("<h2>Segmentation</h2>" in body) == (entry == "mask")
    assert ("segmentation.html" in body) == (entry == "mask")
    assert ("segmentation.png" in files) == (entry == "mask")
    assert "<h3>Image</h3>" not in body
    assert ("<td>given surface</td>" in body) == (entry == "surface")
    assert not re.findall(r"</h[23]>\s*(</section>|</div>|<h[23]>|<div class=\"pair\">\s*</div>)", body)
    assert not re.findall(r"<tbody>\s*</tbody>", body)


def test_figures_are_written_and_shown(made):
    html, files = made
    always = {
        "segmentation.png",
        "slice.png",
        "cross.png",
        "convergence.png",
        "records.png",
        "triangles.png",
        *WAVEFORMS,
    }
    drawn = {"geometry.png", "streamlines.png", "wall.png", "wall-pressure.png", "centreline.png"}
    assert files == (always | drawn if render.window_class() else always)
    assert html.count("<figure") == len(files)


def test_without_anything_to_draw_with_the_page_is_made_and_says_so(results, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "window_class", lambda: None)
    monkeypatch.setattr(render, "window_class", lambda: None)
    html, files = make(results, tmp_path, blank=True)
    body = without_script(html)
    assert "still pictures are missing" in body
    assert "libegl1" in body
    plotted = {"segmentation.png", "slice.png", "cross.png", "convergence.png", "records.png", "triangles.png"}
    assert files == plotted | WAVEFORMS
    assert "Plotly.newPlot" in html


def test_unknown_setting_and_foreign_openings_are_refused(results, tmp_path):
    with pytest.raises(StageError, match="did you mean"):
        make(results, tmp_path, streamline=3)
    original = (results / "openings.json").read_text()
    try:
        (results / "openings.json").write_text(original.replace('"outlet"', '"inlet"', 1))
        with pytest.raises(StageError):
            make(results, tmp_path)
    finally:
        (results / "openings.json").write_text(original)


def test_pictures_show_the_time_of_largest_inflow():
    times = np.array([1.0, 1.2, 1.4])
    monitor = {"time_s": np.linspace(0, 1.4, 15), "flow_ml_s:inlet": np.sin(np.linspace(0, 1.4, 15) * np.pi / 2.4)}
    assert report.shown_step(times, monitor, Pipe().openings()) == 1


def test_colours_end_at_the_99th_percentile_of_the_area(results):
    _, (shear, *_) = quantities.read_wall(results / "wall.vtp")
    assert shear.label == "wall shear stress (Pa)"
    assert shear.limits == (0.0, pytest.approx(Pipe().shear_stress_pa, rel=1e-3))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (20.0, "20"), (0.12345, "0.123"), (1234.5, "1234"), (3.2e-5, "3.20 × 10⁻⁵"), (-0.5, "−0.500")],  # noqa: RUF001
)
def test_numbers_are_for_reading(value, text):
    assert tables.number(value) == text


def test_columns_share_their_decimals_and_know_no_negative_zero():
    assert tables.column([16.49, -0.0007, None]) == ["16.5", "0.0", "\N{EN DASH}"]
    assert tables.column([0.0, None]) == ["0", "\N{EN DASH}"]
    assert tables.column([1250.0, 3.0]) == ["1250", "3"]


def test_keys_become_words_with_units():
    assert words("time_step_s") == "time step (s)"
    assert words("viscosity_m2_s") == "viscosity (m²/s)"
    assert words("volume_mm3") == "volume (mm³)"
    rows = tables.facts({"lossy": False, "size_mm": [0.4, 0.4], "nested": {"a": 1}, "none": None, "far": [[1]]})
    assert rows == [("lossy", "no"), ("size (mm)", "0.4 × 0.4")]  # noqa: RUF001


def test_a_missing_part_of_the_page_is_an_error_not_a_gap():
    with pytest.raises(Exception, match="undefined"):
        report_page.report_page({"title": "x"})
