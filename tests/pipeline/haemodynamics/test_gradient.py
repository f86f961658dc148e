# SPDX-License-Identifier: Apache-2.0
"""Gradient of the velocity and what follows from it, against flows whose gradient is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pipeline.haemodynamics.gradient import Gradient, lambda2, q_criterion
from tests.support.analytic_pipe import Pipe
from tests.support.geometries import periodic_box

LEVI_CIVITA = np.zeros((3, 3, 3))
LEVI_CIVITA[[0, 1, 2], [1, 2, 0], [2, 0, 1]], LEVI_CIVITA[[0, 1, 2], [2, 0, 1], [1, 2, 0]] = 1, -1

DIRECTIONS = [(0, 0, 1), (2, 3, 6), (0.3, -0.8, 0.5)]


def gradients(nodes, velocity):
    return np.concatenate([found for _, found in Gradient(nodes).of(velocity)])


def poiseuille_gradient(pipe, points):
    """u = 2 U (1 - r^2/R^2) along the axis: du_i/dx_j = -4 U axis_i r_j / R^2, 1/s."""
    axis = pipe.frame()[2]
    across = points - (points @ axis)[:, None] * axis
    slope = -4 * pipe.mean_speed_m_s / (pipe.radius_mm * 1e-3) ** 2
    return slope * axis[None, :, None] * across[:, None, :] * 1e-3


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_parabolas_have_exact_gradients_up_to_the_wall(direction):
    """Poiseuille's flow is a parabola along every lattice axis, and zero at the walls: only the float32 of the values
    is left, magnified by the shortest way that is divided by. Nodes beside the caps may have no second neighbour.
    """
    pipe = Pipe(axis=direction)
    nodes = pipe.nodes(0.2)
    points = nodes.points_mm()
    found, exact = gradients(nodes, pipe.velocity(points)), poiseuille_gradient(pipe, points)
    inner = np.abs(points @ pipe.frame()[2]) < pipe.length_mm / 2 - 3 * nodes.spacing_mm
    scale = np.abs(exact).max()
    np.testing.assert_allclose(found[inner], exact[inner], atol=2e-5 * scale)
    np.testing.assert_allclose(found, exact, atol=0.12 * scale)  # one-sided differences of first order at caps


def test_an_error_of_the_flow_is_not_magnified_at_the_wall():
    """A node close to the wall has an error that is not small beside its way to the wall. Noise of 0.1 % of the peak
    speed makes 0.7 % (one sigma) in central differences at 20 nodes across; the 0.1 % worst of all nodes and components
    must stay within six times that.
    """
    pipe = Pipe()
    nodes = pipe.nodes(0.2)
    points = nodes.points_mm()
    noise = np.random.default_rng(3).normal(scale=1e-3 * 2 * pipe.mean_speed_m_s, size=points.shape)
    found, exact = gradients(nodes, pipe.velocity(points) + noise), poiseuille_gradient(pipe, points)
    inner = np.abs(points @ pipe.frame()[2]) < pipe.length_mm / 2 - 3 * nodes.spacing_mm
    error = np.abs(found - exact)[inner].max(axis=(1, 2))
    assert np.percentile(error, 99.9) < 0.042 * np.abs(exact).max()


def swirl(points_mm):
    """A flow that no parabola holds, without divergence, zero nowhere in particular; its gradient too."""
    x, y, z = np.asarray(points_mm).T
    velocity = np.column_stack([np.sin(z) + np.cos(y), np.sin(x) + np.cos(z), np.sin(y) + np.cos(x)])
    rows = np.zeros((len(x), 3, 3))
    rows[:, 0, 1], rows[:, 0, 2] = -np.sin(y), np.cos(z)
    rows[:, 1, 0], rows[:, 1, 2] = np.cos(x), -np.sin(z)
    rows[:, 2, 0], rows[:, 2, 1] = -np.sin(x), np.cos(y)
    return velocity, rows * 1e3


def test_gradient_converges_at_second_order_and_the_curl_of_abc_flow_is_that_flow():
    """The flow of Arnold, Beltrami and Childress is its own curl (per mm here)."""
    pipe, errors = Pipe(), []
    for spacing in (0.4, 0.2):
        nodes = pipe.nodes(spacing)
        velocity, exact = swirl(nodes.points_mm())
        found = gradients(nodes, velocity)
        along = nodes.points_mm() @ pipe.frame()[2]
        radius = np.linalg.norm(nodes.points_mm() - along[:, None] * pipe.frame()[2], axis=1)
        inner = (radius < pipe.radius_mm - 0.5) & (np.abs(along) < pipe.length_mm / 2 - 0.5)
        errors.append(np.sqrt(np.mean((found - exact)[inner] ** 2)))
        curl = Gradient(nodes).curl(velocity)
        np.testing.assert_allclose(curl, np.einsum("ijk,nkj->ni", LEVI_CIVITA, found), atol=1e-3)  # of 1e3, float32
        np.testing.assert_allclose(curl[inner], 1e3 * velocity[inner], atol=1e3 * spacing**2 / 3)  # sinc of h
    assert np.log2(errors[0] / errors[1]) > 1.9


def test_a_lattice_that_repeats_has_neighbours_across_its_border():
    """Central differences of a wave with n nodes in a period: its slope times sin(2 pi/n)/(2 pi/n), at every node."""
    nodes = periodic_box((8, 6, 5))
    x = nodes.position[:, 0]
    count = np.ptp(x) + 1
    velocity = np.zeros((nodes.count, 3))
    velocity[:, 1] = np.sin(2 * np.pi * x / count)
    expected = np.zeros((nodes.count, 3, 3))
    expected[:, 1, 0] = np.cos(2 * np.pi * x / count) * np.sin(2 * np.pi / count) / (nodes.spacing_mm * 1e-3)
    np.testing.assert_allclose(gradients(nodes, velocity), expected, atol=1e-6 * expected.max())


finite = st.floats(-100, 100, width=32)


@settings(deadline=None)  # compilation
@given(arrays(np.float64, (5, 3, 3), elements=finite))
def test_lambda2_is_the_middle_eigenvalue(gradient):
    free = gradient - np.trace(gradient, axis1=1, axis2=2)[:, None, None] / 3 * np.eye(3)
    even, odd = (free + free.transpose(0, 2, 1)) / 2, (free - free.transpose(0, 2, 1)) / 2
    expected = np.linalg.eigvalsh(even @ even + odd @ odd)[:, 1]
    scale = max(1.0, np.abs(gradient).max()) ** 2  # a closed form loses half of the digits where eigenvalues meet
    np.testing.assert_allclose(lambda2(gradient), expected, atol=1e-6 * scale)
    q = ((odd**2).sum(axis=(1, 2)) - (even**2).sum(axis=(1, 2))) / 2
    np.testing.assert_allclose(q_criterion(gradient), q, atol=1e-12 * scale)


def test_what_rotates_and_what_shears():
    """A solid rotation is a vortex, a strain is none, and in a simple shear neither prevails: Q = lambda2 = 0."""
    rotation = np.array([[[0.0, -2, 0], [2, 0, 0], [0, 0, 0]]])
    strain = np.array([[[1.0, 0, 0], [0, -1, 0], [0, 0, 0]]])
    shear = np.array([[[0.0, 3, 0], [0, 0, 0], [0, 0, 0]]])
    np.testing.assert_allclose([q_criterion(each)[0] for each in (rotation, strain, shear)], [4, -1, 0], atol=1e-12)
    np.testing.assert_allclose([lambda2(each)[0] for each in (rotation, strain, shear)], [-4, 1, 0], atol=1e-12)
