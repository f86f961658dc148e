# SPDX-License-Identifier: Apache-2.0
"""Settings: the sections of a case."""
