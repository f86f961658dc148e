# SPDX-License-Identifier: Apache-2.0
"""DICOM: files, headers, series, places of slices, pixels."""
