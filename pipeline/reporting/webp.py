# SPDX-License-Identifier: Apache-2.0
"""Pictures of pages, smaller than as PNG."""

import io

from PIL import Image

WEBP_QUALITY = 88
"""Out of 100: lines and letters stay sharp."""
WEBP_EFFORT = 2
"""Out of 6: of figures of a report 4 takes twice the time for a file that is a twenty-fifth smaller."""


def to_webp(png: bytes, longest: int | None = None) -> bytes:
    """A PNG as WebP, its longer side scaled down to so many pixels where it is longer."""
    stream = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        shown = image.convert("RGB")
        if longest:
            shown.thumbnail((longest, longest))
        shown.save(stream, "webp", quality=WEBP_QUALITY, method=WEBP_EFFORT)
    return stream.getvalue()
