"""Volumes, masks, surfaces, tables: in memory, and their files."""
