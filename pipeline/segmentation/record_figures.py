# SPDX-License-Identifier: Apache-2.0
"""What the record of a mask says of it, for pages: a table of figures, and volume and radius against the threshold."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

LABELS = {
    "method": "method",
    "lower": "lower threshold",
    "upper": "upper threshold",
    "volume_ml": "volume (mL)",
    "voxels": "voxels",
    "spacing_mm": "voxel (mm)",
    "mean_radius_mm": "mean radius (mm)",
    "lumen_level": "level of the lumen",
    "surroundings_level": "level around it",
    "contrast": "contrast",
    "noise": "noise (deviation)",
    "contrast_to_noise": "contrast to noise",
    "lower_without_blur_bias": "threshold without bias from blur",
    "holes_filled": "holes filled",
    "thin_fraction_of_centre_line": "centre line thinner than 4 voxels",
}
"""Figures of the record that are shown, in this order, and their names."""

PER_PERCENT = {
    "volume_change_per_percent_of_contrast": "volume",
    "radius_change_per_percent_of_contrast": "mean radius",
}
"""Sensitivities: relative change where the threshold falls by 1 % of the contrast."""


def figures(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows of a table: name and value of what the record says of the mask."""
    rows = [(name, _text(key, record[key])) for key, name in LABELS.items() if record.get(key) is not None]
    for name, key in (("seeds", "seeds_are_automatic"), ("threshold", "lower_is_automatic")):
        if key in record:
            rows.append((name, "automatic" if record[key] else "given"))
    rows += [
        (f"{name} for 1 % of contrast less", f"{100 * record[key]:+.2g} %")
        for key, name in PER_PERCENT.items()
        if key in record
    ]
    contact = {face: part for face, part in record.get("border_contact", {}).items() if part}
    if "border_contact" in record:
        faces = ", ".join(f"{face} {100 * part:.2g} %" for face, part in contact.items())
        rows.append(("covers of the region's faces", faces or "none"))
    return rows


def _text(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{100 * value:.2g} %" if "fraction" in key else f"{value:.4g}" if isinstance(value, float) else str(value)


def threshold_curve(record: Mapping[str, Any]) -> Markup | None:
    """Volume and mean radius against the level that controls the method (the lower threshold) as an SVG.

    The table's second row is the level that was taken; it is marked.
    Colours are the properties --volume, --radius and --faint of the page that it stands in.
    """
    table = record.get("volume_by_threshold", [])
    if len(table) < 2:
        return None
    curves = [("volume (mL)", "volume", "volume_ml")]
    if all(row.get("mean_radius_mm") is not None for row in table):
        curves.append(("mean radius (mm)", "radius", "mean_radius_mm"))
    control = escape(record.get("controlled_by", "lower threshold").rstrip(","))
    width, height, left, right, top, bottom = 340, 190, 46, 46, 22, 34
    low, high = (extreme(row["lower"] for row in table) for extreme in (min, max))

    def across(threshold: float) -> float:
        return left + (threshold - low) / (high - low) * (width - left - right)

    parts = [
        f'<svg class="curve" viewBox="0 0 {width} {height}" role="img" font-size="11" fill="currentColor">'
        f"<title>Volume and mean radius against {control}</title>"
        f'<path d="M{left} {top}V{height - bottom}H{width - right}{"V" + str(top) if len(curves) > 1 else ""}"'
        ' fill="none" style="stroke:var(--faint)"/>'
    ]
    for name, colour, key in curves:
        most = max(row[key] for row in table)
        second = colour == "radius"
        side, anchor = (width - right + 5, "start") if second else (left - 5, "end")
        points = " ".join(
            f"{across(row['lower']):.1f},{height - bottom - row[key] / most * (height - bottom - top):.1f}"
            for row in table
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke-width="2" style="stroke:var(--{colour})"/>'
            f'<g style="fill:var(--{colour})" text-anchor="{anchor}"><text x="{side}" y="{top + 4}">{most:.3g}</text>'
            f'<text x="{side}" y="{height - bottom + 4}">0</text></g>'
            f'<text x="{width if second else 0}" y="11" style="fill:var(--{colour})"'
            f' text-anchor="{"end" if second else "start"}">{name}</text>'
        )
    chosen = table[1]["lower"]
    parts.append(
        f'<path d="M{across(chosen):.1f} {top}V{height - bottom}" fill="none" stroke-dasharray="3 3"'
        ' style="stroke:currentColor"/>'
        f'<text x="{across(chosen):.1f}" y="{height - bottom + 14}" text-anchor="middle">{chosen:.4g}</text>'
        f'<text x="{width - right}" y="{height - bottom + 14}" text-anchor="end">{high:.4g}</text>'
        f'<text x="{(left + width - right) / 2:.0f}" y="{height - 4}" text-anchor="middle">{control}</text></svg>'
    )
    return Markup("".join(parts))
