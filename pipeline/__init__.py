# SPDX-License-Identifier: Apache-2.0
"""From images to node arrays, and from flow to haemodynamic quantities: one module a stage; knows no GPU."""
