# SPDX-License-Identifier: Apache-2.0
"""Reduced models: a vessel as resistances, square losses and inertances of its branches, found from its runs."""
