# SPDX-License-Identifier: Apache-2.0
"""Studies, evidence and reference solvers that check the product, which imports nothing of this."""
