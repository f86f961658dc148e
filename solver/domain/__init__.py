# SPDX-License-Identifier: Apache-2.0
"""The node arrays: their invariants, file, subdomains and cross-sections."""
