# SPDX-License-Identifier: Apache-2.0
"""The physics of one node: velocity sets, moments, collision, rheology, storage. NumPy and Numba only."""
