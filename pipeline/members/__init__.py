# SPDX-License-Identifier: Apache-2.0
"""Runs of a case from its surface to its figures within one process: members from which bands follow."""
