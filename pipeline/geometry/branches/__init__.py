# SPDX-License-Identifier: Apache-2.0
"""The vessel's branches: skeleton, centrelines, ends, side branches."""
