# SPDX-License-Identifier: Apache-2.0
"""One-dimensional arterial networks: their files, what is read from files of others, and edits."""
