# SPDX-License-Identifier: Apache-2.0
"""What every command line shares: errors, log, progress, outputs that appear whole or not at all, provenance."""
