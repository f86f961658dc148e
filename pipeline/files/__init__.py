# SPDX-License-Identifier: Apache-2.0
"""Volumes, masks, surfaces, tables: in memory, and their files."""
