# SPDX-License-Identifier: Apache-2.0
"""Settings of the input: where a case enters."""

import difflib
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from pipeline.case.settings.base import Section, existing, existing_file, shipped
from pipeline.case.shapes import Geometry
from solver.runtime.checksums import BY_CHECKSUM
from solver.runtime.sources import ROOT

ENTRIES = ("dicom", "volume", "mask", "surface", "phantom", "geometry", "network")
"""Keys of the input of which a case has exactly one."""
NETWORKS = Path("data/networks")
"""Where the project's own networks lie."""


def file_of_network(given: str | None) -> str | None:
    """The file of a network, for a validator; a name without an ending is that of a shipped one.

    Raises
    ------
    ValueError
        If there is no such file, or no network of this name.
    """
    if given is None or given.startswith(BY_CHECKSUM) or Path(given).suffix or "/" in given:
        return existing_file(given)
    known = sorted({each.stem for folder in (NETWORKS, ROOT / NETWORKS) for each in folder.glob("*.yaml")})
    if given not in known:
        near = difflib.get_close_matches(given[:60], known, n=1)
        other = f"did you mean {near[0]}?" if near else f"give one of {', '.join(known)}, or a file with .yaml"
        raise ValueError(f"no network of this name is shipped; {other}")
    return str(shipped(NETWORKS / f"{given}.yaml"))


class InputSettings(Section):
    """Where the case enters: exactly one of the keys. ``${NAME}`` in a path is an environment variable."""

    dicom: str | tuple[str, ...] | None = Field(
        None,
        description="DICOM series: a folder (at any depth), a DICOMDIR, a ZIP file, or a list of these and of files",
    )
    volume: str | None = Field(None, description="volume file: NRRD, NIfTI or MHA")
    mask: str | None = Field(
        None,
        description="mask of the lumen: NRRD, NIfTI or MHA, a DICOM segmentation, or the folder of a DICOM series whose"
        " images are the mask",
    )
    surface: str | None = Field(None, description="surface of the lumen: STL, VTP, OBJ or PLY")
    phantom: str | None = Field(None, description="parametric vessel (data/phantoms/*.yaml), made into a DICOM series")
    geometry: Geometry | None = Field(None, description="canonical geometry, chosen by its key shape")
    network: str | None = Field(
        None,
        description="one-dimensional network of arteries, alone: a name of one that the project has, such as adan56, or"
        " a YAML file",
    )
    mask_segment: int | str | tuple[int | str, ...] | None = Field(
        None,
        description="mask: number or label of the segment, or a list of those that are parts of one vessel; none: the"
        " only one that there is",
    )
    mask_fill: Literal["slices", "hollow", "outside", "largest"] | None = Field(
        None,
        description="mask: slices fills empty slices between drawn ones by the shape of those beside; hollow takes what"
        " a vessel's wall encloses, in place of the wall; outside takes what is not marked; largest leaves out parts"
        " that lie apart",
    )
    surface_unit: Literal["mm", "cm", "m", "um", "inch"] | None = Field(
        None, description="surface: unit of its coordinates, which its file does not tell; required"
    )
    surface_frame: Literal["LPS", "RAS"] | None = Field(
        None, description="surface: axes of its coordinates; none: what the file says of itself, or else LPS"
    )
    surface_face_array: str | None = Field(
        None,
        description="surface: array of face numbers whose flat faces are the openings (of an OBJ: GroupIds); none:"
        " ModelFaceID, CapID or opening where a VTP has one; ignore: none of these",
    )

    surface_union: bool | None = Field(
        None,
        description="surface: true takes all that its pieces enclose together, where tubes overlap or keep faces in",
    )

    @field_validator("dicom", "volume", "mask", "surface", "phantom")
    @classmethod
    def _expand(cls, given: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if given is None:
            return None
        if isinstance(given, str):
            return existing(given)
        if not given:
            raise ValueError("an empty list; name at least one file or folder")
        return tuple(existing(path) for path in given)

    _network_exists = field_validator("network")(file_of_network)

    @field_validator("mask_segment")
    @classmethod
    def _some(cls, given: int | str | tuple[int | str, ...] | None) -> int | str | tuple[int | str, ...] | None:
        if given == ():
            raise ValueError("an empty list; name at least one segment")
        return given

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [key for key in ENTRIES if getattr(self, key)]
        if len(given) != 1:
            raise ValueError(f"{len(given)} of {', '.join(ENTRIES)} given ({', '.join(given)}); give exactly one")
        if self.surface and not self.surface_unit:
            raise ValueError(
                "surface_unit is missing: a surface's file does not tell its unit; give mm, cm, m, um or inch"
            )
        for key in (
            "mask_segment",
            "mask_fill",
            "surface_unit",
            "surface_frame",
            "surface_face_array",
            "surface_union",
        ):
            entry = key.split("_")[0]
            if getattr(self, key) is not None and entry != given[0]:
                raise ValueError(f"{key} belongs to {entry}, but the case enters with {given[0]}; leave it out")
        return self

    @property
    def of_surface(self) -> dict[str, str | bool | None]:
        """What the file of a given surface does not tell, and how it is taken."""
        keys = {"unit": self.surface_unit, "frame": self.surface_frame, "face_array": self.surface_face_array}
        return {**keys, "union": bool(self.surface_union)}

    @property
    def entry(self) -> str:
        """The key of `ENTRIES` that is given."""
        return next(key for key in ENTRIES if getattr(self, key))
