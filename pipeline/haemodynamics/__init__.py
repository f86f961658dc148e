# SPDX-License-Identifier: Apache-2.0
"""Haemodynamics: the wall, sums over times, key figures."""
