# SPDX-License-Identifier: Apache-2.0
"""Triangles: the surface of a lumen, its mesh, cuts, distances to it."""
