# SPDX-License-Identifier: Apache-2.0
"""The report: pictures, plots, page."""
