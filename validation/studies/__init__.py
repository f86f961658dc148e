# SPDX-License-Identifier: Apache-2.0
"""The published studies: what each measures of its runs."""
