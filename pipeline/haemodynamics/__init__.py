"""Haemodynamics: the wall, sums over times, key figures."""
