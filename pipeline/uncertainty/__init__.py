# SPDX-License-Identifier: Apache-2.0
"""How sure a case's figures are: what is uncertain, members drawn from it, and the bands that follow from them."""
