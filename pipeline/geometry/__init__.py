"""Geometry: the surface, the vessel's branches, the lattice's nodes in it."""
