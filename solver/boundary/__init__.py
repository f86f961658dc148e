# SPDX-License-Identifier: Apache-2.0
"""Walls, inlets and outlets: links, profiles, waveforms, Windkessels."""
