# SPDX-License-Identifier: Apache-2.0
"""The state of a lattice that is divided, in the order of the whole: any division goes on from that of any other.

Between pairs of steps slot (i, n) holds what arrives at node n, so that halos hold nothing that is needed: the
populations of all own slots, and what is kept of nodes and links, are all of a state. Padding rows hold fluid at rest.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.backends.communicator import Communicator
from solver.backends.lattice import Lattice
from solver.backends.part_rows import PartRows
from solver.backends.share import Shared
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


class WholeState:
    """Between the state of a whole lattice and those of its parts.

    Parameters
    ----------
    whole : the lattice.
    moving_links : number of its wall links, where walls move.
    """

    def __init__(self, whole: Lattice, moving_links: int) -> None:
        self._q, self._stride, self._count, self._omega = whole.q, whole.stride, whole.count, whole.rates[0]
        self._counts = {
            ROWS: whole.count,
            "wall_links": moving_links,
            "inlet_links": len(whole.inlets.slot),
            "outlet_links": len(whole.outlets.slot),
        }

    def take(self, state: dict[str, NDArray[Any]], part: Subdomain, of_part: Arrays) -> None:
        """Take the state of a part into that of the whole.

        Parameters
        ----------
        state : of the whole, which begins empty.
        part, of_part : a subdomain, and the state of its driver.
        """
        for name, array in of_part.items():
            places = self._places(name, array)
            if places is None:
                state[name] = array
                continue
            if name not in state:
                state[name] = np.full(self._shape(name, array), self._at_rest(name), array.dtype)
            whole = state[name].reshape(self._split(name, state[name].shape))
            whole[..., getattr(part, places)] = self._values(name, array, places, part)

    def shared(self, part: Subdomain, of_part: Arrays, ranks: Communicator) -> dict[str, Any]:
        """The state of the whole where each rank has a part: its own, and what all have alike.

        Parameters
        ----------
        part, of_part : the subdomain of this rank, and the state of its driver.
        ranks : all of them.
        """
        state: dict[str, Any] = {}
        own = PartRows(part.rows, part.lattice.ranges)
        for name, array in of_part.items():
            places = self._places(name, array)
            if places is None:
                state[name] = array
                continue
            shape, values, where = self._shape(name, array), self._values(name, array, places, part), own
            if places != ROWS:
                where, order = PartRows.sorted(getattr(part, places))
                values = values[..., order]
            split, fill = self._split(name, shape), self._at_rest(name)
            state[name] = Shared(shape, array.dtype, split, fill, where, values, ranks)
        return state

    def of_part(self, state: Mapping[str, Any], part: Subdomain, held: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """The state of a part's driver.

        Parameters
        ----------
        state : of the whole: arrays, or what gives numbers at given places of one.
        part : a subdomain.
        held : arrays of its driver.
        """
        found, lattice = {}, part.lattice
        for name, array in state.items():
            places = _places(name)
            if places is None or not np.prod(array.shape):
                found[name] = np.asarray(array)
                continue
            where, split = getattr(part, places), self._split(name, array.shape)
            if name in held and not held[name].size:
                found[name] = _picked(array, where, split)[..., :0]  # for which all ranks read
            elif name in ("populations", "omega"):
                size = lattice.slots if name == "populations" else lattice.stride
                found[name] = own = np.full(size, self._at_rest(name), array.dtype)
                _picked(array, where, split, self._nodes(name, own, lattice.stride, lattice.count))
            else:
                found[name] = _picked(array, where, split)
        return found

    def _places(self, name: str, array: NDArray[Any]) -> str | None:
        """Attribute of a subdomain that says where numbers of a part's array stand; none where all have it alike."""
        places = _places(name)
        if places is None or (places == ROWS and not array.size) or not self._counts[places]:
            return None
        return places

    def _values(self, name: str, array: NDArray[Any], places: str, part: Subdomain) -> NDArray[Any]:
        """What an array of a part has of its nodes or links, (..., K)."""
        if places == ROWS:
            return self._nodes(name, array, part.lattice.stride, part.lattice.count)
        if array.size != len(getattr(part, places)):  # of walls that do not move
            return np.zeros(len(getattr(part, places)), array.dtype)
        return array

    def _shape(self, name: str, of_part: NDArray[Any]) -> tuple[int, ...]:
        """Shape of an array of the whole, as one driver of it holds it."""
        places = _places(name)
        assert places is not None
        of_rows = {"populations": (self._q * self._stride,), "omega": (self._stride,)}
        return of_rows.get(name, (*of_part.shape[:-1], self._counts[places]))

    def _split(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The same with nodes or links along the last axis."""
        return (self._q, self._stride) if name == "populations" else shape

    def _at_rest(self, name: str) -> Any:
        return self._omega if name == "omega" else 0

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


def _picked(
    array: Any, where: NDArray[np.signedinteger], split: tuple[int, ...], into: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Numbers at some places of an array, or of what gives them, put where they are to stand, if that is there."""
    if not isinstance(array, np.ndarray):
        picked: NDArray[Any] = array.pick(where, split, into)
        return picked
    if into is None:
        return array.reshape(split)[..., where]
    into[...] = array.reshape(split)[..., where]
    return into
