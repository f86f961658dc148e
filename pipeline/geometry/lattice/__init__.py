"""Nodes in a surface: spacing, places, crossings, links."""
