# SPDX-License-Identifier: Apache-2.0
"""Networks drawn at random: trees whose figures arteries can have, with each law of the wall and each kind of end."""

from typing import Any

from hypothesis import strategies as st

LAWS = ("elastic", "kelvin-voigt", "olufsen", "elastin-collagen")


def figures(least: float, largest: float) -> st.SearchStrategy[float]:
    """Numbers as people write them: at most six significant digits, and no nine noughts behind the point."""
    return st.floats(least, largest).map(lambda value: float(f"{round(value, 9):.6g}"))


def ends_of(values: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    return values | st.tuples(values, values).map(list)


@st.composite
def walls(draw: st.DrawFn, radius: float) -> dict[str, Any]:
    """Keys of a wall that suits a radius: waves run with 2 to 30 m/s."""
    law = draw(st.sampled_from(LAWS))
    wall: dict[str, Any] = {"wall": law, "external_pressure_kpa": draw(figures(-1, 15))}
    if law == "olufsen":
        return wall | {
            "olufsen_k1_kpa": draw(figures(100, 3000)),
            "olufsen_k2_1_mm": -draw(figures(0.5, 3)),
            "olufsen_k3_kpa": draw(figures(30, 200)),
        }
    thickness = draw(st.just("empirical-law") | ends_of(figures(0.06 * radius, 0.25 * radius)))
    if law == "elastin-collagen":
        return wall | {
            "thickness_mm": thickness,
            "youngs_modulus_kpa": draw(figures(300, 1000)),
            "collagen_modulus_kpa": draw(figures(1000, 5000)),
            "collagen_strain": draw(figures(0.2, 0.6)),
            "collagen_strain_range": draw(figures(0.02, 0.04)),
        }
    if law == "kelvin-voigt":
        wall["viscosity_kpa_s"] = draw(ends_of(figures(0, 10)))
    if draw(st.booleans()):
        return wall | {"thickness_mm": thickness, "youngs_modulus_kpa": draw(figures(300, 1000))}
    speed = {"wave_speed_m_s": draw(ends_of(figures(3, 15)))}
    return wall | speed | ({"thickness_mm": thickness} if law == "kelvin-voigt" else {})


def terminals() -> st.SearchStrategy[dict[str, Any]]:
    back = figures(-5, 10)
    resistance = st.fixed_dictionaries(
        {"type": st.just("resistance"), "resistance_mmhg_s_ml": figures(1, 100), "distal_pressure_mmhg": back}
    )
    rcr = st.fixed_dictionaries(
        {
            "type": st.just("rcr"),
            "proximal_mmhg_s_ml": figures(0, 10) | st.just("matched"),
            "distal_mmhg_s_ml": figures(1, 100),
            "compliance_ml_mmhg": figures(1e-4, 1),
        }
    )
    total = st.fixed_dictionaries(
        {"type": st.just("rcr"), "total_mmhg_s_ml": figures(1000, 5000), "compliance_ml_mmhg": figures(1e-4, 1)}
    )
    waves = st.fixed_dictionaries({"type": st.just("reflection"), "part": figures(-0.9, 0.9)})
    return resistance | rcr | total | waves


@st.composite
def networks(draw: st.DrawFn) -> dict[str, Any]:
    """Sections of a network's file: a tree of 1 to 12 segments, with a resistance behind its first end."""
    parents = [draw(st.integers(0, max(0, n - 1))) for n in range(draw(st.integers(1, 12)))]
    segments, inner = {}, {0}
    for number, parent in enumerate(parents, 1):
        start = 0 if number == 1 else max(1, parent)  # one segment at the root
        inner.add(start)
        radius = draw(figures(0.8, 12))
        shape = draw(st.sampled_from(["one", "two", "more"]))
        cone = [radius, draw(figures(0.5 * radius, 1.2 * radius))]
        radii = {"one": radius, "two": cone}.get(shape) or [radius, radius + 0.5, radius]
        smallest = min(radii) if isinstance(radii, list) else radii
        segments[f"artery_{number}"] = {
            "nodes": [f"n{start}", f"n{number}"],
            "length_mm": draw(figures(3, 400)),
            "radius_mm": radii,
            "profile_exponent": draw(figures(2, 9)),
            **draw(st.sampled_from([{}, {"momentum_correction": "profile"}, {"momentum_correction": 1.1}])),
            **draw(walls(smallest)),
        }
    ends = [f"n{number}" for number in range(1, len(parents) + 1) if number not in inner]
    behind = {node: draw(terminals()) for node in ends}
    behind[ends[0]] = {"type": "resistance", "resistance_mmhg_s_ml": draw(figures(1, 100))}
    return {
        "blood": {"density_kg_m3": draw(figures(1000, 1110)), "viscosity_pa_s": draw(figures(1e-3, 0.02))},
        "segments": segments,
        "inlets": {"n0": {"flow_ml_s": draw(figures(0.1, 100))}},
        "terminals": behind,
    }
