# SPDX-License-Identifier: Apache-2.0
"""``python -m hemolattice``: the command where its script is not on the path."""

from hemolattice import main

if __name__ == "__main__":
    main()
