# SPDX-License-Identifier: Apache-2.0
"""The pages of this folder as a site, by Sphinx: `make site`. A link that leads nowhere is an error there."""

from sphinx.application import Sphinx

project = "HemoLattice"
extensions = ["myst_parser"]
exclude_patterns = ["api", "evidence", "site", "studies"]
suppress_warnings = ["misc.highlighting_failure"]  # blocks of CSV have no colours
html_theme = "furo"
html_title = project
html_show_copyright = False
myst_enable_extensions = ["html_image"]
myst_heading_anchors = 5
nitpicky = True


def setup(app: Sphinx) -> None:
    """CONTRIBUTING.md lies outside of this folder; on the site it is the page that includes it."""
    app.connect("source-read", _link_contributing)


def _link_contributing(app: Sphinx, page: str, text: list[str]) -> None:
    text[0] = text[0].replace("](../CONTRIBUTING.md", "](contributing.md")
