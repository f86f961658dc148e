"""Volume file: an NRRD, NIfTI or MHA file, read with the care that a DICOM series gets.

Nothing names the file, whose name may hold a patient's.
"""

from pathlib import Path

import numpy as np
import SimpleITK as sitk

from pipeline.dicom.stack import MIN_SLICES, ORTHONORMAL_TOLERANCE, Check, orthonormal_error
from pipeline.volume import Volume
from solver.stage import StageError

SUFFIXES = (".nrrd", ".nhdr", ".nii", ".nii.gz", ".mha", ".mhd")


def read_volume_file(path: Path) -> tuple[Volume, list[Check]]:
    """Read a three-dimensional image whose geometry and intensities can be trusted.

    Parameters
    ----------
    path : an NRRD, NIfTI or MHA file.

    Returns
    -------
    The volume, and what was checked.

    Raises
    ------
    StageError
        If it is no such file, or anything about it is doubtful.
    """
    if not path.name.lower().endswith(SUFFIXES):
        raise StageError(f"the source is no folder and no file of the kinds {', '.join(SUFFIXES)}; give one of these")
    volume = _read_silently(path)
    checks = _checks(volume)
    for check in checks:
        if not (check.value >= check.limit if check.name == "smallest extent" else check.value <= check.limit):
            raise StageError(
                f"volume file: {check.name}: {check.value:g} {check.unit} (limit {check.limit:g}); correct the file"
            )
    return volume, checks


def _read_silently(path: Path) -> Volume:
    """Read a volume file; a refusal does not name the file, whose name may hold a patient's."""
    shown = sitk.ProcessObject.GetGlobalWarningDisplay()
    sitk.ProcessObject.SetGlobalWarningDisplay(False)
    try:
        return Volume.read(path)
    except StageError as error:
        raise StageError(str(error).replace(str(path), "volume file")) from None
    finally:
        sitk.ProcessObject.SetGlobalWarningDisplay(shown)


def _checks(volume: Volume) -> list[Check]:
    infinite = sum(int((~np.isfinite(plane)).sum()) for plane in volume.voxels)
    return [
        Check("smallest extent", min(volume.voxels.shape), MIN_SLICES, "voxels"),
        Check("intensities that are not finite", infinite, 0, "voxels"),
        Check("orthonormal direction: error", orthonormal_error(volume.direction), ORTHONORMAL_TOLERANCE, "1"),
        Check("spacings that are not positive", sum(not value > 0 for value in volume.spacing_mm), 0, "axes"),
    ]
