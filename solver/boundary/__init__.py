"""Walls, inlets and outlets: links, profiles, waveforms, Windkessels."""
