# SPDX-License-Identifier: Apache-2.0
"""Segmentation of the lumen: masks, methods, guards, pictures."""
