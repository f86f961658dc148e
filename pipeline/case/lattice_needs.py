# SPDX-License-Identifier: Apache-2.0
"""What the choice of the lattice's spacing takes of other sections of a case."""

from typing import Any

from pipeline.case.settings.flow import InletSettings, SolveSettings
from pipeline.case.settings.geometry import SurfaceSettings, VoxelizeSettings


def spacing_needs(voxelize: VoxelizeSettings, solve: SolveSettings, canonical: bool) -> dict[str, Any]:
    """What it takes of the section solve, where it depends on it and no more.

    Parameters
    ----------
    voxelize, solve : sections of the case.
    canonical : whether the case is a canonical geometry, which has no branches.
    """
    needs: dict[str, Any] = {}
    if voxelize.spacing_mm == "auto" and not voxelize.nodes_across:
        needs["flow"] = {"viscosity_m2_s": solve.thinnest_pa_s() / solve.density_kg_m3}
        if voxelize.most_updates:
            needs["solve"] = solve.model_dump(mode="json")
        if solve.peak_speed_m_s:
            needs["flow"]["peak_speed_m_s"] = solve.peak_speed_m_s
        else:
            entries = solve.inlets.items()
            needs["flow"]["inlets"] = {k: e.model_dump(include=_flow_keys(e)) for k, e in entries}
            needs["flow"]["outlets"] = {k: e.model_dump() for k, e in solve.outlets.items()}
            needs["flow"] |= {key: getattr(solve, key) for key in ("density_kg_m3", "murray_exponent")}
    if not canonical:
        needs["murray_exponent"] = solve.murray_exponent
    if voxelize.memory_gb:
        needs["precision"] = solve.precision
    return needs


def _flow_keys(inlet: InletSettings) -> set[str]:
    """Settings that the peak of an inlet's flow follows from."""
    curve = {"waveform", "interpolation", "harmonics", "profile"} if inlet.waveform else set()
    return {"flow_ml_s"} | curve


def lattice_needs(voxelize: VoxelizeSettings, solve: SolveSettings, surface: SurfaceSettings) -> dict[str, Any]:
    """What the surface takes of voxelize and solve: by what the spacing is chosen, where thin branches may go.

    Parameters
    ----------
    voxelize, solve, surface : sections of the case.
    """
    rest = solve.outlets.get("*")
    chosen = voxelize.spacing_mm == "auto" and not voxelize.nodes_across
    if not chosen or surface.side_branches.action != "auto" or (rest and isinstance(rest.flow_fraction, float)):
        return {}
    needs: dict[str, Any] = voxelize.model_dump(include={"left_out_share", "memory_gb", "most_nodes"})
    included = {"murray_exponent"} | ({"precision"} if voxelize.memory_gb else set())
    return {"lattice": needs | solve.model_dump(include=included)}
