"""The page of the report: one HTML file that carries its pictures, its style and its script."""

import base64
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

STYLE = """
:root { --ink: #1b2733; --faint: #5d6975; --line: #dfe4ea; --soft: #f5f7f9; --accent: #0b5394;
  --good: #1d7a46; --good-soft: #e9f5ee; --bad: #a33a00; --bad-soft: #fdf0e7;
  --volume: #b35900; --radius: #0b5394; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; color: var(--ink); background: white;
  font: 16px/1.55 -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", sans-serif; }
main, header, footer { max-width: 1080px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 40px; }
a { color: var(--accent); }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; margin: 52px 0 10px; padding-top: 14px; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 26px 0 6px; }
p { margin: 6px 0 12px; max-width: 75ch; }
.kind { color: var(--accent); font-weight: 600; font-size: 0.85rem; margin: 0 0 6px; }
.lead { color: var(--faint); font-size: 1.05rem; }
.note, figcaption, .unit { color: var(--faint); font-size: 0.875rem; }
.banner { border-radius: 8px; padding: 16px 20px; margin: 24px 0 0; border-left: 5px solid; }
.banner.good { background: var(--good-soft); border-color: var(--good); }
.banner.bad { background: var(--bad-soft); border-color: var(--bad); }
.banner h2 { border: 0; margin: 0 0 4px; padding: 0; font-size: 1.1rem; }
.banner .warnings { margin: 8px 0; padding-left: 20px; }
.checks { display: flex; flex-wrap: wrap; gap: 6px 8px; margin: 12px 0 0; padding: 0; list-style: none; }
.checks li { background: white; border: 1px solid var(--line); border-radius: 6px; padding: 3px 10px;
  font-size: 0.875rem; }
.checks .bad { border-color: var(--bad); color: var(--bad); }
.checks b { font-variant-numeric: tabular-nums; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 20px 0; }
.tile { background: var(--soft); border-radius: 8px; padding: 12px 16px; }
.tile b { display: block; font-size: 1.55rem; line-height: 1.25; font-weight: 600; }
.tile b small { font-size: 0.95rem; font-weight: 500; color: var(--faint); }
.tile span { color: var(--faint); font-size: 0.875rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 380px), 1fr)); gap: 24px;
  align-items: start; }
@media (min-width: 800px) { .pair.uneven { grid-template-columns: 1.65fr 1fr; } }
figure { margin: 14px 0; }
figure img { display: block; max-width: 100%; max-height: 720px; width: auto; height: auto; margin: 0 auto; }
figure.wide img { width: 100%; max-height: none; }
figcaption { margin-top: 6px; }
.scroll { overflow-x: auto; margin: 8px 0 14px; }
table { border-collapse: collapse; font-size: 0.925rem; font-variant-numeric: tabular-nums; min-width: 50%; }
th, td { text-align: left; padding: 6px 18px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { font-weight: 600; font-size: 0.85rem; color: var(--faint); vertical-align: bottom; }
tbody th { font-weight: 500; }
.curve { width: 100%; max-width: 460px; }
td.n, th.n { text-align: right; }
td.n, tbody th { white-space: nowrap; }
.dot { display: inline-block; width: 0.7em; height: 0.7em; border-radius: 50%; margin-right: 0.5em; }
details { margin: 10px 0; }
summary { cursor: pointer; font-weight: 500; }
pre { background: var(--soft); border-radius: 6px; padding: 12px; overflow-x: auto; font-size: 0.8rem; }
footer { margin-top: 60px; padding-top: 16px; padding-bottom: 40px; border-top: 1px solid var(--line); }
@media (max-width: 600px) {
  body { font-size: 15px; } main, header, footer { padding-left: 14px; padding-right: 14px; }
  header { padding-top: 24px; } h1 { font-size: 1.6rem; } h2 { margin-top: 38px; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 8px; } .tile { padding: 10px 12px; } .tile b { font-size: 1.3rem; }
  th, td { padding-right: 12px; } }
@media print {
  @page { margin: 16mm; } body { font-size: 10.5pt; } .interactive { display: none; }
  h2 { break-after: avoid; } figure, .tile, table, .banner { break-inside: avoid; } figure img { max-height: 140mm; } }
"""

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="HemoLattice">
<title>{{ title }} · blood flow</title>
<style>{{ style }}</style>
</head>
<body>
{%- macro figure(key, wide=false) %}
{%- if key in figures %}
<figure{% if wide %} class="wide"{% endif %}>
<img src="{{ figures[key].source }}" alt="{{ figures[key].title }}">
<figcaption>{{ figures[key].caption }}</figcaption>
</figure>
{%- endif %}
{%- endmacro %}
{%- macro facts(rows) %}
<div class="scroll"><table><tbody>
{%- for name, value in rows %}
<tr><th scope="row">{{ name }}</th><td>{{ value }}</td></tr>
{%- endfor %}
</tbody></table></div>
{%- endmacro %}
{%- macro table(head, rows, words=1) %}
<div class="scroll"><table><thead><tr>
{%- for name in head %}<th scope="col"{% if loop.index0 >= words %} class="n"{% endif %}>{{ name }}</th>{% endfor -%}
</tr></thead><tbody>
{%- for row in rows %}
<tr>{% for value in row %}<td{% if loop.index0 >= words %} class="n"{% endif %}>{{ value }}</td>{% endfor %}</tr>
{%- endfor %}
</tbody></table></div>
{%- endmacro %}
<header>
<p class="kind">HemoLattice · blood flow from angiography</p>
<h1>{{ title }}</h1>
{% if description %}<p class="lead">{{ description }}</p>{% endif %}
<section class="banner {{ 'good' if trusted else 'bad' }}">
<h2>{{ 'All checks passed' if trusted else 'Read this before the numbers' }}</h2>
{% if warnings %}<ul class="warnings">{% for warning in warnings %}<li>{{ warning }}</li>{% endfor %}</ul>
{% else %}<p>The flow settled, what flows in flows out, and the vessel is resolved finely enough for its wall shear
stress.</p>{% endif %}
<ul class="checks">
{%- for check in checks %}
<li{% if not check.passed %} class="bad"{% endif %}>{{ '✓' if check.passed else '✗' }} {{ check.name }}
 <b>{{ check.value }}</b>{% if check.limit %} <span class="unit">{{ check.limit }}</span>{% endif %}</li>
{%- endfor %}
</ul>
</section>
</header>
<main>
<section>
<h2>At a glance</h2>
<div class="tiles">
{%- for tile in tiles %}
<div class="tile"><b>{{ tile.value }} <small>{{ tile.unit }}</small></b><span>{{ tile.name }}</span></div>
{%- endfor %}
</div>
{% if remedy %}<p class="banner bad">The three-dimensional still pictures are missing: VTK found no library to draw with
on the machine that made this page. To get them, {{ remedy }}, and make the report again. The view to turn, the slice
and the plots below do not need it.</p>{% endif %}
{% if given %}<p class="note">{{ given }}</p>{% endif %}
<div class="pair uneven">{{ figure('segmentation') }}{{ figure('geometry') }}</div>
</section>
{% if segmented %}
<section>
<h2>Segmentation</h2>
<p>The lumen decides on everything that follows. <a href="segmentation.html">The page segmentation.html</a> beside this
one shows it slice by slice{{ '' if given else ' in the image' }}.
{% if curve %}The curve tells how far it hangs on the threshold: in a narrow vessel,
resistance goes with the fourth power of the radius, so that 1 % of radius is 4 % of pressure drop.{% endif %}</p>
<div class="pair">{{ curve or '' }}{{ facts(mask) }}</div>
</section>
{% endif %}
{% if branches or triangles %}
<section>
<h2>Geometry</h2>
{% if branches %}
<p>Lines through the middle of the vessel, from the centre of one opening to that of another. A radius is that of the
largest ball that fits in, a branch's own between bifurcations. Tortuosity is length over straight distance. The
narrowest place through which blood passes: {{ narrowest }}.</p>
{% for doubt in doubts %}<p class="banner bad">{{ doubt }}</p>{% endfor %}
{{ figure('centreline') }}
{{ table(('branch', 'from', 'to', 'length (mm)', 'tortuosity', 'smallest radius (mm)', 'mean radius (mm)',
'largest radius (mm)'), branches, 3) }}
{% if forks %}
<h3>Bifurcations</h3>
{{ table(('bifurcation', 'place, LPS (mm)', 'angles between branches', 'radius (mm)'), forks, 3) }}
{% endif %}
{% endif %}
{% if triangles %}
<h3>Triangles of the surface</h3>
<p>Needles have an angle below 10°; tiny ones have an area far below that of the triangles around them. Equilateral
triangles have three angles of 60°.</p>
<div class="pair">{{ figure('triangles') }}
{{ table(('surface', 'triangles', 'needles', 'tiny', 'smallest angle (°)', 'median of the smallest (°)'), triangles) }}
</div>
{% endif %}
</section>
{% endif %}
{%- if openings %}
<section>
<h2>Openings</h2>
<p>Where blood enters and leaves. Flow, speed and pressure are read off the computed velocity field just inside each
opening, so that they check the conditions that were imposed there. The Reynolds number compares inertia with friction:
flow in arteries is laminar well below 2000.</p>
<div class="scroll"><table><thead><tr><th>opening</th><th>role</th><th class="n">radius (mm)</th>
<th class="n">flow (mL/s)</th><th class="n">imposed (mL/s)</th><th class="n">mean speed (m/s)</th>
<th class="n">peak speed (m/s)</th><th class="n">pressure (Pa)</th><th class="n">pressure (mmHg)</th>
<th class="n">Reynolds number</th>
</tr></thead><tbody>
{%- for row in openings %}
<tr><th scope="row"><span class="dot" style="background:{{ row.colour }}"></span>{{ row.name }}</th>
<td>{{ row.role }}</td>
{%- for value in row.numbers %}<td class="n">{{ value }}</td>{% endfor %}</tr>
{%- endfor %}
</tbody></table></div>
<h3>Pressure drop</h3>
<p>Static pressure at the inlet less that at the outlet: what friction and the change of speed cost between the two. It
is computed in a rigid vessel from the flow that was assumed, and outlet pressures are set, not measured; so it is
neither the patient's blood pressure nor a catheter gradient, and it does not hold for another flow rate.</p>
{{ table(('from', 'to', 'drop (Pa)', 'drop (mmHg)'), drops, 2) }}
</section>
{%- endif %}
<section>
<h2>Velocity</h2>
<p>{{ moment }} Streamlines follow the flow{% if openings %} from the inlet; where none from the inlet arrive, some
start inside{% endif %}.</p>
<div class="pair">{{ figure('streamlines') }}{{ figure('slice') }}</div>
</section>
<section>
<h2>Wall shear stress</h2>
<p>The force per area with which flowing blood drags the wall along. Low values (below about 0.4 Pa) go with plaque
formation, high ones with a strained wall. Computed from the stress in the fluid and the normals of the smooth surface;
statistics leave out the rims at the openings, where the flow still bears the mark of the imposed condition.</p>
{{ figure('wall', true) }}
{{ facts(wall) }}
</section>
<section class="interactive">
<h2>View to turn</h2>
<p class="note">Drag to turn, scroll or pinch to zoom. R, L: the patient's right and left; A, P: front and back; H, F:
head and foot.</p>
{{ interactive }}
</section>
<section>
<h2>How the solution settled</h2>
<p>The run is over when the velocity no longer changes (or repeats from beat to beat). Flow in and out must meet, and
pressures must level out or repeat.</p>
{{ figure('waveform-flow', true) }}
{{ figure('waveform-pressure', true) }}
{{ figure('cycle', true) }}
{{ figure('convergence', true) }}
{{ figure('records', true) }}
</section>
<section>
<h2>How it was computed</h2>
{% if notes %}<ul class="notes">{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>{% endif %}
<div class="pair">
<div><h3>Before the run</h3>{{ facts(expected) }}
<h3>Outcome</h3>{{ facts(outcome) }}</div>
<div><h3>Models</h3>{{ facts(models) }}
{% if image %}<h3>Image</h3>{{ facts(image) }}{% endif %}
{% if segmentation %}<h3>Segmentation</h3>{{ facts(segmentation) }}{% endif %}
{% if geometry %}<h3>Surface</h3>{{ facts(geometry) }}{% endif %}</div>
</div>
<h3>Stages</h3>
{{ table(('stage', 'seconds', 'memory (MB)'), stages, 1) }}
{% if versions %}<details><summary>Versions</summary>{{ facts(versions) }}</details>{% endif %}
{% if settings %}<details><summary>Settings</summary>
{%- for stage, text in settings %}<h3>{{ stage }}</h3><pre>{{ text }}</pre>{% endfor %}</details>{% endif %}
</section>
</main>
<footer><p class="note">For research; not a medical device, and not for decisions about a patient. Blood is modelled
as a fluid of constant viscosity in a rigid vessel. Letters on the pictures are the patient's directions: R right, L
left, A front, P back, H head, F foot.</p></footer>
</body>
</html>
"""


def embed(png: bytes) -> str:
    """A PNG as the address of an image."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def fill(context: Mapping[str, Any]) -> str:
    """The page; every text is escaped but those marked as markup.

    Raises
    ------
    jinja2.UndefinedError
        If the context lacks a part.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(TEMPLATE).render({**context, "style": Markup(STYLE)})
