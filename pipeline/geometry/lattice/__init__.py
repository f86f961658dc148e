# SPDX-License-Identifier: Apache-2.0
"""Nodes in a surface: spacing, places, crossings, links."""
