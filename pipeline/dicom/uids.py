# SPDX-License-Identifier: Apache-2.0
"""How a series is called where its UID, which can be traced, must not stand.

Apart from the headers, so that who only asks for this does not import what reads DICOM.
"""

import hashlib


def short_hash(uid: str) -> str:
    """The first 8 hexadecimal digits of the SHA-256 of a UID."""
    return hashlib.sha256(uid.encode()).hexdigest()[:8]
