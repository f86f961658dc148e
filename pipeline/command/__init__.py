# SPDX-License-Identifier: Apache-2.0
"""The command `hemolattice`: from a new case to its report, in any folder, with the workflow beneath."""
