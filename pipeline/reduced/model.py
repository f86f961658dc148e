# SPDX-License-Identifier: Apache-2.0
"""ReducedModel: the reduced model of a vessel, as its file holds it.

Between two joints of the vessel's tree the total pressure P = p + rho u^2/2 falls by R Q + K Q|Q| + L dQ/dt, with the
flow Q of the branch; behind a fork by D (Q - s Q_a)|Q_a| more, Q_a being what arrives there and s the branch's part of
it in the case. At an opening the static pressure is P less h Q + k Q^2. All in mmHg, mL and s.
"""

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pipeline.case.settings.base import Finite, NonNegative, Positive, Section, parse
from pipeline.files.json_file import read_json
from solver.runtime.errors import StageError

FORMAT: Literal["hemolattice reduced 1"] = "hemolattice reduced 1"


class Held(Section):
    """An outlet at which a pressure is held."""

    type: Literal["pressure"] = "pressure"
    pressure_mmhg: Finite


class Behind(Section):
    """Vessels behind an outlet: resistances with a compliance between them; none is a resistance alone."""

    type: Literal["resistance"] = "resistance"
    proximal_mmhg_s_ml: NonNegative = 0.0
    distal_mmhg_s_ml: NonNegative
    compliance_ml_mmhg: NonNegative = 0.0
    distal_pressure_mmhg: Finite = 0.0

    @property
    def total_mmhg_s_ml(self) -> float:
        """Both resistances together."""
        return self.proximal_mmhg_s_ml + self.distal_mmhg_s_ml


class Share(Section):
    """An outlet through which a part of the inflow leaves."""

    type: Literal["share"] = "share"
    part: Annotated[float, Field(gt=0, lt=1)]


Law = Annotated[Held | Behind | Share, Field(discriminator="type")]
"""What holds at an outlet."""


class Loss(Section):
    """A drop of pressure R Q + K Q|Q|."""

    resistance_mmhg_s_ml: Finite
    square_mmhg_s2_ml2: Finite

    def at(self, flow_ml_s: float) -> float:
        """The drop, mmHg."""
        return (self.resistance_mmhg_s_ml + self.square_mmhg_s2_ml2 * abs(flow_ml_s)) * flow_ml_s

    def slope(self, flow_ml_s: float) -> float:
        """Its derivative by the flow."""
        return self.resistance_mmhg_s_ml + 2 * self.square_mmhg_s2_ml2 * abs(flow_ml_s)


class ReducedBranch(Loss):
    """A branch between two joints; its flow counts from the first to the second."""

    name: str
    start: str
    stop: str
    inertance_mmhg_s2_ml: NonNegative = Field(description="rho times the integral of ds/A")
    compliance_ml_mmhg: NonNegative = Field(0.0, description="0: rigid walls")
    poiseuille_mmhg_s_ml: NonNegative = Field(description="8 pi mu times the integral of ds/A^2")
    length_mm: NonNegative
    least_area_mm2: Positive
    flow_ml_s: Finite = Field(description="in the run of the case")
    fitted_ml_s: tuple[Finite, Finite] = Field(description="least and largest flow of the runs")
    misfit: NonNegative = Field(description="largest difference from them, of the whole drop at the same flow")
    part: Finite = Field(1.0, description="s: of the flow that arrives at its start, in the run of the case")
    division_mmhg_s2_ml2: Finite = Field(
        0.0,
        description="D of the loss D (Q - s Q_a)|Q_a| more, Q_a being what arrives: of another division of the flow",
    )
    divided: NonNegative = Field(0.0, description="by how much of Q_a its part differed where D was found; 0: nowhere")
    lowest: Loss | None = Field(
        None, description="total pressure at the start less the least static pressure; none: no sections"
    )


class Opening(Section):
    """An end of the vessel."""

    name: str
    role: Literal["inlet", "outlet"]
    area_mm2: Positive
    head: Loss = Field(description="total less static pressure, by the size of the flow")
    flow_ml_s: Finite = Field(description="of the case, into an inlet or out of an outlet")
    pressure_mmhg: Finite = Field(description="static, in the case's run")
    law: Law | None = Field(None, description="of an outlet")


class Point(Section):
    """The drop between an inlet and an outlet in a run, and what the model says of it."""

    inlet: str
    outlet: str
    factor: Positive = Field(description="of the flow, by that of the case")
    lattice: Literal["case", "coarse"]
    drop_mmhg: Finite
    total_drop_mmhg: Finite
    reduced_mmhg: Finite
    reduced_total_mmhg: Finite


class ReducedModel(Section):
    """A reduced model.

    What is fitted holds between the factors, and with the limits that `reservations` tells.
    """

    format: Literal["hemolattice reduced 1"] = FORMAT
    density_kg_m3: Positive
    viscosity_pa_s: Positive
    factors: tuple[Positive, Positive] = Field(description="least and largest flow of the runs, by that of the case")
    branches: tuple[ReducedBranch, ...] = Field(min_length=1)
    openings: tuple[Opening, ...] = Field(min_length=2)
    spacing_ratio: Positive = Field(description="spacing of the runs at other flows over that of the case")
    coarse_error: Finite = Field(description="whole loss on that lattice over that on the case's, less 1, at its flow")
    reservations: tuple[str, ...] = Field((), description="where it does not hold, beside the range of flows")
    points: tuple[Point, ...] = Field((), description="what the runs gave beside what the model says")

    @property
    def inflow_ml_s(self) -> float:
        """Of all inlets, in the case's run."""
        return sum(each.flow_ml_s for each in self.openings if each.role == "inlet")

    def with_role(self, role: str) -> tuple[Opening, ...]:
        """Its inlets or its outlets."""
        return tuple(each for each in self.openings if each.role == role)

    def write(self, path: Path) -> None:
        """Write the file."""
        path.write_text(json.dumps(self.model_dump(mode="json"), indent=2) + "\n", encoding="utf-8")

    @staticmethod
    def read(path: Path) -> "ReducedModel":
        """Read a file of :meth:`write`.

        Raises
        ------
        StageError
            If it is of another kind, or says what cannot be.
        """
        values = read_json(path)
        if values.get("format") != FORMAT:
            raise StageError(f"{path}: not the file of a reduced model; run the stage reduced again")
        return parse(ReducedModel, values, str(path))
