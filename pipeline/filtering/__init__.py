# SPDX-License-Identifier: Apache-2.0
"""What the filter stage is made of: region of interest, smoothing, resampling."""
