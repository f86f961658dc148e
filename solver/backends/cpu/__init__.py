# SPDX-License-Identifier: Apache-2.0
"""CPU driver."""
