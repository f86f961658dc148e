"""Geometry: smooth surface, centreline, openings, cuts, crossings."""
