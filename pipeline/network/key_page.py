# SPDX-License-Identifier: Apache-2.0
"""The page of all keys of a network's file (docs/network-keys.md), made from its JSON schema.

``python -m pipeline.network.key_page config/network.schema.json`` prints it; ``make schema`` writes both.
"""

import json
import sys
from pathlib import Path

from pipeline.case.settings.reference import Schema, settings_page

HEAD = """# Keys of a network

All keys of the file of a one-dimensional network, section by section. `make schema` writes this page from the models;
do not edit it. [Networks](networks.md) says how to write and edit one. A key whose default is *required* must be given.
"""


def keys_page(schema: Schema) -> str:
    """The page, in Markdown."""
    return settings_page(schema, HEAD)


if __name__ == "__main__":
    print(keys_page(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), end="")
