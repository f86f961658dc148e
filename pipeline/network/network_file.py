# SPDX-License-Identifier: Apache-2.0
"""Network: the validated file of a one-dimensional arterial network (``data/networks/*.yaml``), read and written.

What is given for each key stands in docs/networks.md. A file is read, its edits are applied, and what comes of it is
checked as a whole (:mod:`pipeline.network.checks`); :mod:`pipeline.network.for_solver` makes of it what the solver
takes.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from pipeline.case.settings.base import Finite, Name, Positive, Section, parse, shipped
from pipeline.case.settings.entry import NETWORKS
from pipeline.case.settings.network_edits import Edit
from pipeline.case.settings.yaml_file import read_yaml
from pipeline.network.arterial_ranges import Quantity
from pipeline.network.network_ends import Inlet, Terminal
from pipeline.network.walls import WallKeys, with_defaults
from solver.runtime.errors import StageError


def _as_name(node: Any) -> Any:
    """Numbers may be names of nodes, too, though not in front of a colon."""
    return str(node) if isinstance(node, int) and not isinstance(node, bool) else node


Node = Annotated[Name, BeforeValidator(_as_name)]
Radii = Annotated[tuple[Positive, ...], Field(min_length=2, max_length=1000)]


class Blood(Section):
    """Blood as a Newtonian fluid."""

    density_kg_m3: Positive = 1060.0
    viscosity_pa_s: Positive = 4e-3


class StenosisKeys(Section):
    """Loss of a segment that is a stenosis, in place of its friction (Young and Tsai 1973,
    doi:10.1016/0021-9290(73)90099-7). The narrow radius is the least of the segment.
    """

    normal_radius_mm: Positive = Field(description="of the vessel beside it")
    turbulent: Annotated[float, Field(ge=0, le=10)] = Field(1.52, description="K_t, of the loss behind it")


class LossKeys(Section):
    """Loss R Q + K Q|Q| of total pressure along a segment, in place of its friction, as a reduced model of a vessel has
    it.
    """

    resistance_mmhg_s_ml: Finite = Field(description="R")
    square_mmhg_s2_ml2: Finite = Field(description="K; below 0 where a fork gives energy")

    def part(self, part: float) -> "LossKeys":
        """Of a part of the length."""
        return LossKeys(
            resistance_mmhg_s_ml=part * self.resistance_mmhg_s_ml, square_mmhg_s2_ml2=part * self.square_mmhg_s2_ml2
        )


class Segment(WallKeys):
    """A vessel between two nodes; flow counts from the first to the second. The defaults may say of its wall."""

    nodes: tuple[Node, Node] = Field(description="names of the proximal and of the distal node")
    length_mm: Positive = Field(description="of the centreline")
    radius_mm: Positive | Radii = Field(
        description="of the lumen at the external pressure: one, or [proximal, distal], or more, evenly spaced"
    )
    stenosis: StenosisKeys | None = Field(None, description="none: the segment has friction alone")
    loss: LossKeys | None = Field(None, description="in place of friction; not together with stenosis")

    @model_validator(mode="after")
    def _one_loss(self) -> Self:
        if self.stenosis and self.loss:
            raise ValueError("stenosis and loss: both given; give one of them")
        return self

    @property
    def radii_mm(self) -> tuple[float, ...]:
        """Radii from the proximal to the distal end, one where all are the same."""
        return self.radius_mm if isinstance(self.radius_mm, tuple) else (self.radius_mm,)

    def end_radius_mm(self, node: str) -> float:
        """Radius at one of its two nodes."""
        return self.radii_mm[0] if node == self.nodes[0] else self.radii_mm[-1]


class Network(Section):
    """A one-dimensional network of arteries."""

    description: str = Field("", max_length=5000, description="what this network is; write no name of a patient")
    sources: dict[Name, str] = Field(
        default_factory=dict, description="where the figures come from, by what they are of"
    )
    blood: Blood = Blood()
    period_s: Positive | None = Field(
        None,
        description="of a cycle; none: that of the waveforms or the heart, which it must be, or 1 s of steady flow",
    )
    junctions: Literal["total", "static"] = Field(
        "total", description="pressure that vessels have alike where they meet"
    )
    initial_pressure_mmhg: float | None = Field(
        None, description="pressure everywhere to begin with; none: where each lumen has its radius"
    )
    accept: tuple[Quantity, ...] = Field(
        (), description="quantities that may have values which no artery has; without it they are refused"
    )
    defaults: WallKeys = Field(WallKeys(), description="keys of the wall of all segments that have not their own")
    segments: dict[Name, Segment] = Field(description="by name", min_length=1, max_length=5000)
    inlets: dict[Node, Inlet] = Field(description="by name of the node, where one segment begins", min_length=1)
    terminals: dict[str, Terminal] = Field(
        default_factory=dict,
        description="by name of the node, where one segment ends; * stands for all ends that are not named",
    )
    groups: dict[Name, tuple[str, ...]] = Field(
        default_factory=dict, description="names of segments, or patterns with * and ?, for edits and reports"
    )
    edits: tuple[Edit, ...] = Field((), description="changes of what stands above, one after another")

    def walled(self, name: str) -> Segment:
        """A segment with all keys of its wall, its own and those of the defaults."""
        own = self.segments[name]
        rest = own.model_dump(include=set(Segment.model_fields) - set(WallKeys.model_fields), exclude_unset=True)
        return Segment.model_validate(rest | with_defaults(own, self.defaults))

    def ends(self) -> dict[str, list[str]]:
        """Names of the segments that meet at each node, a segment twice where both its ends do."""
        found: dict[str, list[str]] = {}
        for name, segment in self.segments.items():
            for node in segment.nodes:
                found.setdefault(node, []).append(name)
        return found

    def behind(self) -> dict[str, Terminal]:
        """The terminals of all nodes where one segment ends and that are no inlets: their own, or that of ``*``."""
        ends = [node for node, names in self.ends().items() if len(names) == 1 and node not in self.inlets]
        given = {node: self.terminals.get(node, self.terminals.get("*")) for node in ends}
        return {node: terminal for node, terminal in given.items() if terminal}

    def changed(self, **sections: Any) -> "Network":
        """The network with other sections."""
        return self.model_copy(update=sections)


def find(name: str) -> Path:
    """The file of a network: a path, or the name of one that the project has."""
    path = Path(name)
    return path if path.suffix in (".yaml", ".yml") else shipped(NETWORKS / f"{name}.yaml")


def read_network(path: Path) -> Network:
    """A network as its file states it, with the paths of waveforms made whole; neither edited nor checked as a whole.

    Raises
    ------
    StageError
        One line a mistake, each with file, key, value and remedy.
    """
    network = parse(Network, read_yaml(path), str(path))
    inlets = {node: _placed(inlet, path, f"inlets.{node}") for node, inlet in network.inlets.items()}
    terminals = {node: _placed(terminal, path, f"terminals.{node}") for node, terminal in network.terminals.items()}
    return network.changed(inlets=inlets, terminals=terminals)


def _placed(opening: Any, file: Path, place: str) -> Any:
    """An opening of a network's file whose waveform is found: beside the file, or else from the working directory."""
    found = {}
    for key in ("flow_waveform", "pressure_waveform"):
        if name := getattr(opening, key, None):
            paths = [each for each in (file.parent / name, shipped(Path(name))) if _is_file(each)]
            if not paths:
                raise StageError(
                    f"{file}: {place}.{key} = {name[:200]!r}: no such file, neither beside the network's file nor at"
                    " this path; correct it"
                )
            found[key] = str(paths[0])
    return opening.model_copy(update=found)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def schema() -> str:
    """The JSON schema of a network's file, as kept in ``config/network.schema.json``."""
    return json.dumps(Network.model_json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(schema(), end="")
