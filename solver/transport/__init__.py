# SPDX-License-Identifier: Apache-2.0
"""A passive scalar that a flow carries: its velocity, units and limits, and runs of it."""
