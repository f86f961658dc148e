# SPDX-License-Identifier: Apache-2.0
"""What if: pressures and flows of a case at another inflow or with other outlets, by its reduced model."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.case.settings.base import parse
from pipeline.command.cases import name_of
from pipeline.reduced.answer import Answer, What, answered
from pipeline.reduced.model import Behind, Held, Law, ReducedModel, Share
from pipeline.reduced.pulsatile_model import Pulse, pulsed
from pipeline.workflow.recovery import RESULTS
from solver.boundary.waveform import interpolated, read_samples
from solver.runtime.errors import StageError

KINDS: dict[str, tuple[type[Held | Behind | Share], str]] = {
    "pressure": (Held, "pressure_mmhg"),
    "resistance": (Behind, "distal_mmhg_s_ml"),
    "part": (Share, "part"),
}
"""What can hold at an outlet: its law and the law's key."""


def what_if(arguments: argparse.Namespace) -> int:
    """Print the answer; the exit status, 0 where the model holds, 3 where it says that it may not.

    Raises
    ------
    StageError
        If the case has no reduced model, or the question is outside of what it was fitted to.
    """
    case = name_of(arguments.case)
    path = RESULTS / case / "reduced.json"
    if not path.exists():
        raise StageError(
            f"{case}: has no reduced model; set reduced.flows: [0.5, 2] in its case file, and hemolattice run {case}"
        )
    model = ReducedModel.read(path)
    laws = dict(_law(each) for each in arguments.outlet)
    if arguments.waveform:
        time_s, flow = read_samples(Path(arguments.waveform), "flow_ml_s")
        pulse = pulsed(model, interpolated(time_s, flow, "spline"), laws)
        lines, values, reservations = _of_pulse(model, pulse), pulse.record(), pulse.reservations
    else:
        factor = arguments.flow if arguments.flow_ml_s is None else arguments.flow_ml_s / model.inflow_ml_s
        answer = answered(model, What(factor, laws))
        lines, values, reservations = _of_answer(model, answer), record_of(model, answer), answer.reservations
    for line in lines:
        print(line)
    for each in reservations:
        print(f"does not hold: {each}")
    if arguments.json:
        try:
            Path(arguments.json).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise StageError(f"--json {arguments.json}: cannot be written ({error.strerror})") from None
    return 3 if reservations else 0


def _law(text: str) -> tuple[str, Law]:
    """Name of an outlet, and what is to hold there."""
    name, _, law = text.partition("=")
    kind, _, value = law.partition(":")
    if kind not in KINDS or not value:
        raise StageError(
            f"--outlet {text}: write NAME=pressure:80 (mmHg), NAME=resistance:12 (mmHg s/mL), or NAME=part:0.4"
        )
    model, key = KINDS[kind]
    try:
        number = float(value)
    except ValueError:
        raise StageError(f"--outlet {text}: {value!r} is no number; correct it") from None
    return name, parse(model, {key: number}, f"--outlet {text}")


def record_of(model: ReducedModel, answer: Answer) -> dict[str, Any]:
    """An answer as values, by opening and branch."""
    inlets = [each.name for each in model.with_role("inlet")]
    inflow = sum(answer.opening_flow_ml_s[name] for name in inlets)
    return {
        "factor": answer.factor,
        "inflow_ml_s": inflow,
        "openings": {
            each.name: {
                "role": each.role,
                "flow_ml_s": answer.opening_flow_ml_s[each.name],
                "part": answer.opening_flow_ml_s[each.name] / inflow,
                "pressure_mmhg": answer.pressure_mmhg[each.name],
            }
            for each in model.openings
        },
        "drops": [
            {
                "inlet": inlet,
                "outlet": outlet.name,
                "drop_mmhg": answer.pressure_mmhg[inlet] - answer.pressure_mmhg[outlet.name],
                "pressure_ratio": answer.pressure_mmhg[outlet.name] / answer.pressure_mmhg[inlet]
                if answer.arterial
                else None,
            }
            for inlet in inlets
            for outlet in model.with_role("outlet")
        ],
        "branches": {
            branch.name: {
                "flow_ml_s": answer.flow_ml_s[branch.name],
                "total_drop_mmhg": branch.at(answer.flow_ml_s[branch.name]),
            }
            for branch in model.branches
        },
        "reservations": list(answer.reservations),
    }


def _of_answer(model: ReducedModel, answer: Answer) -> Sequence[str]:
    """Lines for the terminal."""
    values, usual = record_of(model, answer), answered(model, What())
    lines = [f"inflow {values['inflow_ml_s']:.4g} mL/s, {answer.factor:.4g} times that of the case"]
    lines.append(f"{'opening':20}{'flow (mL/s)':>14}{'part':>8}{'pressure (mmHg)':>18}{'in the case':>14}")
    for name, each in values["openings"].items():
        lines.append(
            f"{name:20}{each['flow_ml_s']:14.4g}{each['part']:8.1%}{each['pressure_mmhg']:18.4g}"
            f"{usual.pressure_mmhg[name]:14.4g}"
        )
    for each in values["drops"]:
        ratio = f", ratio {each['pressure_ratio']:.3f}" if each["pressure_ratio"] else ""
        before = usual.pressure_mmhg[each["inlet"]] - usual.pressure_mmhg[each["outlet"]]
        lines.append(
            f"drop {each['inlet']} to {each['outlet']}: {each['drop_mmhg']:.4g} mmHg{ratio}; in the case {before:.4g}"
        )
    return lines


def _of_pulse(model: ReducedModel, pulse: Pulse) -> Sequence[str]:
    """Lines for the terminal."""
    lines = [f"{'opening':20}{'mean flow (mL/s)':>18}{'pressure: mean':>16}{'least':>10}{'largest (mmHg)':>16}"]
    for each in model.openings:
        flow, pressure = pulse.flow_ml_s[each.name], pulse.pressure_mmhg[each.name]
        lines.append(
            f"{each.name:20}{flow.mean():18.4g}{pressure.mean():16.4g}{pressure.min():10.4g}{pressure.max():16.4g}"
        )
    return lines
