# SPDX-License-Identifier: Apache-2.0
"""Geometry: the surface, the vessel's branches, the lattice's nodes in it."""
