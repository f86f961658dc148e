# SPDX-License-Identifier: Apache-2.0
"""Indices of the wall shear stress (WSS) at each vertex: TAWSS, OSI, RRT, ECAP, transverse WSS and gradients.

With the stress tau over evenly spaced times of one period and its mean over them:

- TAWSS, the time-averaged WSS: mean |tau|;
- OSI, the oscillatory shear index: (1 - |mean tau| / TAWSS) / 2, from 0 (one direction) to 0.5 (to and fro);
- RRT, the relative residence time: 1 / ((1 - 2 OSI) TAWSS), which is 1 / |mean tau|;
- ECAP, the endothelial cell activation potential: OSI / TAWSS;
- transverse WSS: mean of |tau . (n x mean tau)| / |mean tau|, the stress across its mean direction, with the normal n.

Where nothing moves, RRT, ECAP and transverse WSS are 0. The gradient is the length of that of (TA)WSS along the wall.

Sources: He and Ku (1996), doi:10.1115/1.2795948; Himburg et al. (2004), doi:10.1152/ajpheart.00897.2003; Di Achille et
al. (2014), doi:10.1098/rspa.2014.0163; Peiffer, Sherwin and Weinberg (2013), doi:10.1093/cvr/cvt044.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.haemodynamics.accumulator import WallAccumulator
from pipeline.haemodynamics.wall_shear_stress import Wall, surface_gradient


def wall_arrays(accumulator: WallAccumulator, wall: Wall) -> dict[str, NDArray[np.float32]]:
    """Point arrays of the wall.

    Parameters
    ----------
    accumulator : sums over the times of a flow, at least one.
    wall : the wall that they belong to, with V vertices.

    Returns
    -------
    Name with unit -> (V,) or (V, 3). A single time has WSS and its gradient; several have the indices of this module.
    """
    times = accumulator.times
    mean, magnitude = accumulator.shear / times, accumulator.shear_magnitude / times
    steepness = np.linalg.norm(surface_gradient(wall, magnitude), axis=1)
    arrays = {"WSS (Pa)": mean, "pressure (Pa)": accumulator.pressure / times}
    if times == 1:
        arrays |= {"WSS magnitude (Pa)": magnitude, "WSS gradient (Pa mm-1)": steepness}
    else:
        net, osi = np.linalg.norm(mean, axis=1), oscillatory_shear_index(accumulator)
        arrays |= {
            "TAWSS (Pa)": magnitude,
            "TAWSS gradient (Pa mm-1)": steepness,
            "peak WSS (Pa)": accumulator.shear_peak,
            "OSI": osi,
            "RRT (1/Pa)": _ratio(np.ones_like(net), net, 0.0),
            "ECAP (1/Pa)": _ratio(osi, magnitude, 0.0),
            "transverse WSS (Pa)": transverse_wss_pa(wall.normals, accumulator.shear, accumulator.shear_over_time),
        }
    return {name: values.astype(np.float32) for name, values in arrays.items()}


def oscillatory_shear_index(accumulator: WallAccumulator) -> NDArray[np.float64]:
    """OSI of each vertex, (V,)."""
    net = np.linalg.norm(accumulator.shear, axis=1)
    return np.clip((1 - _ratio(net, accumulator.shear_magnitude, 1.0)) / 2, 0, 0.5)


def transverse_wss_pa(
    normals: NDArray[np.float64], shear_sum: NDArray[np.float64], shear_over_time: Sequence[NDArray[np.floating]]
) -> NDArray[np.float64]:
    """Transverse WSS of each vertex.

    Parameters
    ----------
    normals : (V, 3), unit vectors.
    shear_sum : (V, 3), sum of the stress over the times, Pa.
    shear_over_time : (V, 3) for each time, Pa.

    Returns
    -------
    (V,), Pa.
    """
    net = np.linalg.norm(shear_sum, axis=1)
    across = np.cross(normals, shear_sum)
    found = sum(np.abs(np.einsum("ij,ij->i", shear, across)) for shear in shear_over_time) / len(shear_over_time)
    return _ratio(found, net, 0.0)


def _ratio(over: NDArray[np.float64], under: NDArray[np.float64], otherwise: float) -> NDArray[np.float64]:
    return np.divide(over, under, out=np.full_like(under, otherwise), where=under > 1e-12)
