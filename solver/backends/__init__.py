# SPDX-License-Identifier: Apache-2.0
"""Drivers that run the kernels over a lattice, on CPU and CUDA, whole or in subdomains."""
