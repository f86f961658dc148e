# SPDX-License-Identifier: Apache-2.0
"""A run: units, plan, forecast, time loop, monitor, convergence, checkpoints, files of a flow."""
