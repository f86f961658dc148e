"""Triangles: the surface of a lumen, its mesh, cuts, distances to it."""
