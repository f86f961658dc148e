# SPDX-License-Identifier: Apache-2.0
"""Lattice-Boltzmann blood flow on node arrays: NumPy, Numba and h5py only; knows no patient, image or VTK."""
