# SPDX-License-Identifier: Apache-2.0
"""The state of a lattice that is divided, in the order of the whole: any division goes on from that of any other.

Between pairs of steps slot (i, n) holds what arrives at node n, so that halos hold nothing that is needed: the
populations of all own slots, and what is kept of nodes and links, are all of a state. Padding rows hold fluid at rest.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.lattice import Lattice
from solver.backends.splitting import Subdomain

ROWS = "rows"
PLACES = {
    "populations": ROWS,
    "omega": ROWS,
    "before": ROWS,
    "momentum": ROWS,
    "slip": "wall_links",
    "inlet_flux": "inlet_links",
    "outlet_flux": "outlet_links",
}
"""What of a state is of nodes or links, and which attribute of a subdomain says where these stand in the whole domain.
All else, but for means, all subdomains have alike."""

Arrays = Mapping[str, NDArray[Any]]
Join = Callable[[NDArray[Any], str, Subdomain, NDArray[Any]], None]


class WholeState:
    """Between the state of a whole lattice and those of its parts.

    Parameters
    ----------
    whole : the lattice.
    """

    def __init__(self, whole: Lattice) -> None:
        self._q, self._stride, self._count, self._omega = whole.q, whole.stride, whole.count, whole.rates[0]
        self._counts = {
            ROWS: whole.count,
            "wall_links": len(whole.walls.slot) if whole.walls.moving else 0,
            "inlet_links": len(whole.inlets.slot),
            "outlet_links": len(whole.outlets.slot),
        }

    def take(self, state: dict[str, NDArray[Any]], part: Subdomain, of_part: Arrays, join: Join) -> None:
        """Take the state of a part into that of the whole.

        Parameters
        ----------
        state : of the whole, which begins empty.
        part, of_part : a subdomain, and the state of its driver.
        join : puts numbers of a subdomain where they stand; of all subdomains at once where processes have one each.
        """
        for name, array in of_part.items():
            places = _places(name)
            if places is None or (places == ROWS and not array.size) or not self._counts[places]:
                state[name] = array
                continue
            if name not in state:
                state[name] = self._room(name, array, self._counts[places])
            into, values = self._nodes(name, state[name], self._stride, self._count), array
            if places == ROWS:
                values = self._nodes(name, array, part.lattice.stride, part.lattice.count)
            elif values.size != len(getattr(part, places)):  # of walls that do not move
                values = np.zeros(len(getattr(part, places)), array.dtype)
            join(into, places, part, values)

    def of_part(self, state: Arrays, part: Subdomain, held: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """The state of a part's driver.

        Parameters
        ----------
        state : of the whole.
        part : a subdomain.
        held : arrays of its driver.
        """
        found, lattice = dict(state), part.lattice
        for name, array in state.items():
            places = _places(name)
            if places is None or not array.size:
                continue
            if name in held and not held[name].size:
                found[name] = array[:0]
                continue
            values = self._nodes(name, array, self._stride, self._count)[..., getattr(part, places)]
            found[name] = values
            if name in ("populations", "omega"):
                size = lattice.slots if name == "populations" else lattice.stride
                found[name] = np.full(size, self._at_rest(name), array.dtype)
                self._nodes(name, found[name], lattice.stride, lattice.count)[:] = values
        return found

    def _at_rest(self, name: str) -> Any:
        return self._omega if name == "omega" else 0

    def _room(self, name: str, like: NDArray[Any], count: int) -> NDArray[Any]:
        """An array of the whole, where padding is at rest."""
        shape = {"populations": (self._q * self._stride,), "omega": (self._stride,)}
        return np.full(shape.get(name, (*like.shape[:-1], count)), self._at_rest(name), like.dtype)

    def _nodes(self, name: str, array: NDArray[Any], stride: int, count: int) -> NDArray[Any]:
        """A view of what an array holds of nodes, without padding and halo; of links it is the array."""
        if name == "populations":
            return array[: self._q * stride].reshape(self._q, stride)[:, :count]
        return array[:count] if name == "omega" else array


def _places(name: str) -> str | None:
    """Attribute of a subdomain that says where such numbers stand; none of what all subdomains have alike."""
    if name.startswith("mean-"):
        return None if name.endswith("/count") else ROWS
    return PLACES.get(name)
