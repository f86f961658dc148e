# SPDX-License-Identifier: Apache-2.0
"""The physics of one node: velocity sets, moments, collision, rheology, storage. NumPy and Numba only.

Makers (``make_...``, and the collision models by name) return functions of one node, or in `solver.backends` loops over
nodes, compiled for what they are given. Their parameters mean the same everywhere:

- `collision`: name of a collision model, one of :data:`solver.kernels.collision.COLLISIONS`;
- `storage`: how populations are stored, one of ``NATIVE``, ``FP16_BITS`` and ``FP16`` of :mod:`solver.kernels.storage`;
- `real`: NumPy type that is computed with, single or double precision;
- `equilibrium`: its name, one of :data:`solver.kernels.node_physics.EQUILIBRIA`;
- `rheology` or `model`: name of a viscosity model, one of `solver.run.blood.MODELS`; none where it does not vary;
- `varying`: whether the viscosity varies;
- `blended`: whether tau is blended towards 1 at some nodes, :attr:`solver.kernels.rheology.Rheology.blend`;
- `two_terms`: of the walls, :attr:`solver.boundary.walls.WallLinks.two_terms`;
- `q`: populations of a node, 19 or 27.
"""
