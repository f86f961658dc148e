# SPDX-License-Identifier: Apache-2.0
"""What a user states: case files, cohort tables, canonical shapes, phantoms, and what is plausible of a patient."""
