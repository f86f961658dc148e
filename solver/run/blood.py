# SPDX-License-Identifier: Apache-2.0
"""Blood: how its viscosity depends on the shear rate, in SI, and published parameters. Plain data and NumPy.

The shear rate is g = sqrt(2 S:S), with S the symmetric part of the velocity's gradient. What the solver computes with
stands in :mod:`solver.kernels.rheology`; here is what settings name, what units are chosen by, and what tests compare
with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.runtime.errors import StageError

Rates = NDArray[np.float64]


@dataclass(frozen=True)
class Published:
    """Parameters of a model as they were published.

    Attributes
    ----------
    values : in SI, by name, in the order of the model's parameters.
    source : author, year, DOI.
    """

    values: dict[str, float]
    source: str


@dataclass(frozen=True)
class Model:
    """A model of viscosity.

    Attributes
    ----------
    parameters : their names, with the unit at the end; ``_pa_s_n`` is Pa s^n.
    viscosity : function of the shear rate, 1/s, and of the parameters by name, to Pa s.
    sets : published parameters by name; the first is taken where none is named.
    """

    parameters: tuple[str, ...]
    viscosity: Callable[..., Rates]
    sets: dict[str, Published]


def newtonian(rate: Rates, mu_pa_s: float) -> Rates:
    """mu, whatever the shear rate."""
    return np.full_like(rate, mu_pa_s)


def carreau_yasuda(rate: Rates, mu_0_pa_s: float, mu_inf_pa_s: float, lambda_s: float, a: float, n: float) -> Rates:
    """mu_inf + (mu_0 - mu_inf) [1 + (lambda g)^a]^((n - 1)/a); Carreau's model where a = 2.

    Parameters
    ----------
    rate : g, shear rate, 1/s.
    mu_0_pa_s, mu_inf_pa_s : viscosity at rest and at large shear rates.
    lambda_s : time constant.
    a, n : exponents.
    """
    return mu_inf_pa_s + (mu_0_pa_s - mu_inf_pa_s) * (1 + (lambda_s * rate) ** a) ** ((n - 1) / a)


def casson(rate: Rates, yield_stress_pa: float, mu_c_pa_s: float, mu_max_pa_s: float) -> Rates:
    """(sqrt(tau_y/g) + sqrt(mu_c))^2, at most mu_max.

    Parameters
    ----------
    rate : g, shear rate, 1/s.
    yield_stress_pa : tau_y.
    mu_c_pa_s, mu_max_pa_s : Casson's viscosity, and the largest.
    """
    with np.errstate(divide="ignore"):
        return np.minimum((np.sqrt(yield_stress_pa / rate) + np.sqrt(mu_c_pa_s)) ** 2, mu_max_pa_s)


def power_law(rate: Rates, k_pa_s_n: float, n: float) -> Rates:
    """Power of the shear rate, k g^(n - 1).

    Parameters
    ----------
    rate : g, shear rate, 1/s.
    k_pa_s_n : consistency, Pa s^n.
    n : exponent.
    """
    with np.errstate(divide="ignore"):
        return k_pa_s_n * rate ** (n - 1)


def bingham(rate: Rates, yield_stress_pa: float, mu_p_pa_s: float) -> Rates:
    """mu_p + tau_y/g; infinite where nothing is sheared.

    Parameters
    ----------
    rate : g, shear rate, 1/s.
    yield_stress_pa : tau_y.
    mu_p_pa_s : plastic viscosity.
    """
    with np.errstate(divide="ignore"):
        return mu_p_pa_s + yield_stress_pa / rate


def herschel_bulkley(rate: Rates, yield_stress_pa: float, k_pa_s_n: float, n: float, m_s: float) -> Rates:
    """With a yield stress, k g^(n - 1) + tau_y (1 - exp(-m g))/g (Papanastasiou 1987, doi:10.1122/1.549926).

    Parameters
    ----------
    rate : g, shear rate, 1/s.
    yield_stress_pa : tau_y.
    k_pa_s_n : consistency, Pa s^n.
    n : exponent.
    m_s : Papanastasiou's m; the larger, the sharper the fluid yields.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        plastic = np.where(rate > 0, -np.expm1(-m_s * rate) / rate, m_s)
    return power_law(rate, k_pa_s_n, n) + yield_stress_pa * plastic


MODELS: dict[str, Model] = {
    "newtonian": Model(("mu_pa_s",), newtonian, {}),
    "carreau-yasuda": Model(
        ("mu_0_pa_s", "mu_inf_pa_s", "lambda_s", "a", "n"),
        carreau_yasuda,
        {
            "abraham-2005": Published(
                {"mu_0_pa_s": 0.16, "mu_inf_pa_s": 3.5e-3, "lambda_s": 8.2, "a": 0.64, "n": 0.2128},
                "human blood; Abraham, Behr and Heinkenschloss 2005, doi:10.1080/10255840500180799, as Boyd, Buick and "
                "Green 2007, doi:10.1063/1.2772250, use it",
            ),
            "cho-kensey-1991": Published(
                {"mu_0_pa_s": 0.056, "mu_inf_pa_s": 3.45e-3, "lambda_s": 3.313, "a": 2.0, "n": 0.3568},
                "human blood, Carreau's model; Cho and Kensey 1991, doi:10.3233/BIR-1991-283-415",
            ),
            "bernabeu-2014-mouse": Published(
                {"mu_0_pa_s": 14.49e-3, "mu_inf_pa_s": 3.265e-3, "lambda_s": 0.1829, "a": 2.707, "n": 0.4136},
                "blood of the mouse; Bernabeu et al. 2014, doi:10.1098/rsif.2014.0543",
            ),
        },
    ),
    "casson": Model(
        ("yield_stress_pa", "mu_c_pa_s", "mu_max_pa_s"),
        casson,
        {
            "boyd-2007": Published(
                {"yield_stress_pa": 0.1937**2, "mu_c_pa_s": 0.055**2, "mu_max_pa_s": 0.16},
                "human blood; Boyd, Buick and Green 2007, doi:10.1063/1.2772250, limited to the viscosity at rest of "
                "their Carreau-Yasuda model",
            ),
        },
    ),
    "power-law": Model(
        ("k_pa_s_n", "n"),
        power_law,
        {
            "shibeshi-collins-2005": Published(
                {"k_pa_s_n": 0.017, "n": 0.708},
                "human blood; Shibeshi and Collins 2005, doi:10.3933/ApplRheol-15-398",
            ),
        },
    ),
    "bingham": Model(
        ("yield_stress_pa", "mu_p_pa_s"),
        bingham,
        {
            "merrill-1969": Published(
                {"yield_stress_pa": 4e-3, "mu_p_pa_s": 3.5e-3},
                "yield stress of human blood at a haematocrit of 40 %: Merrill 1969, doi:10.1152/physrev.1969.49.4.863;"
                " above it the viscosity that blood has at high shear rates",
            ),
        },
    ),
    "herschel-bulkley": Model(
        ("yield_stress_pa", "k_pa_s_n", "n", "m_s"),
        herschel_bulkley,
        {
            "kim-2009": Published(
                {"yield_stress_pa": 0.0175, "k_pa_s_n": 8.9721e-3, "n": 0.8601, "m_s": 10.0},
                "human blood; Kim et al. 2009, doi:10.1007/s12206-009-0420-5; m makes it yield above 1/m = 0.1 1/s",
            ),
        },
    ),
}
"""Models by name."""


@dataclass(frozen=True)
class Blood:
    """A model with its parameters.

    Attributes
    ----------
    model : name of one of `MODELS`.
    parameters : in SI, by name, in the model's order.
    source : where they come from.
    """

    model: str
    parameters: dict[str, float]
    source: str

    def viscosity_pa_s(self, shear_rate_1_s: Any) -> NDArray[np.float64]:
        """Dynamic viscosity at shear rates, of the same shape."""
        rate = np.asarray(shear_rate_1_s, np.float64)
        return MODELS[self.model].viscosity(rate, **self.parameters)

    def shear_rate_1_s(self, stress_pa: float) -> float:
        """Shear rate at a shear stress, by bisection between 1e-6 and 1e6 1/s; 0 where the stress does not suffice."""
        low, high = -6.0, 6.0
        for _ in range(60):
            middle = (low + high) / 2
            reached = float(self.viscosity_pa_s(10**middle)) * 10**middle < stress_pa
            low, high = (middle, high) if reached else (low, middle)
        return 10**low if low > -6 else 0.0

    def scaled(self, stress_pa: float, dt_s: float) -> tuple[float, ...]:
        """The parameters in lattice units, for one lattice unit of stress and of time, in the model's order."""
        exponent = self.parameters.get("n", 1.0)
        units = {"_pa_s_n": stress_pa * dt_s**exponent, "_pa_s": stress_pa * dt_s, "_pa": stress_pa, "_s": dt_s}
        return tuple(
            value / next((unit for end, unit in units.items() if name.endswith(end)), 1.0)
            for name, value in self.parameters.items()
        )


def choose_blood(model: str, set_name: str | None, parameters: dict[str, float], viscosity_pa_s: float) -> Blood:
    """The blood that settings name: a model's published parameters, or given ones in their place.

    Parameters
    ----------
    model, set_name : names of one of `MODELS` and of one of its sets; the first set if none is named.
    parameters : in SI, by name, in place of those of the set.
    viscosity_pa_s : of the Newtonian model.

    Raises
    ------
    StageError
        If a name is unknown, or a value not above zero.
    """
    if model not in MODELS:
        raise StageError(f"solve.blood.model {model!r}: unknown; known are {', '.join(MODELS)}")
    chosen = MODELS[model]
    if model == "newtonian" and (set_name or parameters):
        raise StageError(
            f"solve.blood.{'set' if set_name else 'parameters'}: newtonian blood has none; set solve.viscosity_pa_s, or"
            " choose another solve.blood.model"
        )
    if set_name and set_name not in chosen.sets:
        raise StageError(f"solve.blood.set {set_name!r}: {model} has no such set; known are {', '.join(chosen.sets)}")
    if unknown := sorted(parameters.keys() - {*chosen.parameters}):
        raise StageError(
            f"solve.blood.parameters: {model} has no {', '.join(unknown)}; known are {', '.join(chosen.parameters)}"
        )
    if bad := {name: value for name, value in parameters.items() if not 0 < value < np.inf}:
        name, value = next(iter(bad.items()))
        raise StageError(f"solve.blood.parameters.{name} {value:g}: must be above zero; correct it")
    if model == "newtonian":
        return Blood(model, {"mu_pa_s": viscosity_pa_s}, "settings")
    published = chosen.sets[set_name or next(iter(chosen.sets))]
    source = published.source + (f"; but for {', '.join(sorted(parameters))}" if parameters else "")
    if {*parameters} == {*chosen.parameters}:
        source = "settings"
    return Blood(model, published.values | parameters, source)
