# SPDX-License-Identifier: Apache-2.0
"""What the Snakefile asks before and after the stages: shared runs, recovery, outcome."""
