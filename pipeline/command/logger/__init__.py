# SPDX-License-Identifier: Apache-2.0
"""Folder that the command puts on Snakemake's path, which finds plugins by the names of packages there."""
