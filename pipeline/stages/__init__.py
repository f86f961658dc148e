# SPDX-License-Identifier: Apache-2.0
"""One module for each rule of the workflow: a pure function, and the command line over it."""
