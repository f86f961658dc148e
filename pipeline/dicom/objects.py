# SPDX-License-Identifier: Apache-2.0
"""Objects: what goes back to an archive, a structured report of measurements and a PDF, in the study of the images.

The report of measurements follows TID 1500 (DICOM PS3.16); the PDF is an Encapsulated PDF (PS3.3, A.45.1). Patient and
study are copied from the images; all other texts are of this project. Both are unverified: nobody has signed them.
"""

import datetime
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import highdicom as hd
from highdicom.coding_schemes import CodingSchemeIdentificationItem
from highdicom.sr import CodedConcept
from pydicom.dataset import Dataset
from pydicom.sr.codedict import codes
from pydicom.uid import UID, EncapsulatedPDFStorage, ExplicitVRLittleEndian

from pipeline.dicom.dataset import quiet
from pipeline.dicom.source import Source
from solver.runtime.errors import StageError

NAME = "HemoLattice"
SCHEME = "99HEMOLATTICE"
"""Of concepts that no public scheme has."""
METHOD = CodedConcept("simulated", SCHEME, "Lattice-Boltzmann simulation of an assumed flow")
WORTH = CodedConcept("worth", SCHEME, "What the figures of this group are worth")
NUMBERS = {"SR": 9901, "DOC": 9902}
"""Of the two series, beyond those that scanners give."""
DERIVATIONS = {"mean": codes.SCT.Mean, "least": codes.SCT.Minimum, "largest": codes.SCT.Maximum}


@dataclass(frozen=True)
class Concept:
    """A coded word: of SNOMED CT (``SCT``), LOINC (``LN``), UCUM, or the project's own `SCHEME`."""

    value: str
    meaning: str
    scheme: str = SCHEME

    def coded(self) -> CodedConcept:
        """As DICOM has it."""
        return CodedConcept(self.value, self.scheme, self.meaning)


@dataclass(frozen=True)
class Measured:
    """A figure: what it is, its value, its unit in UCUM, and how it is derived from many, of `DERIVATIONS`."""

    concept: Concept
    value: float
    unit: str
    derivation: str = ""


@dataclass(frozen=True)
class Group:
    """Figures of one thing that are worth the same.

    Attributes
    ----------
    name : of the thing.
    finding : what kind of thing it is.
    worth : what the figures are worth; none where that is not judged.
    figures : of it.
    """

    name: str
    finding: Concept
    worth: Concept | None
    figures: list[Measured]


def write_objects(source: Source, groups: Sequence[Group], pdf: bytes, version: str, files: Sequence[Path]) -> None:
    """Write both objects.

    Parameters
    ----------
    source : images that they refer to.
    groups : figures; at least one.
    pdf : the printed report.
    version : of the project that computed the figures.
    files : of the report of measurements, and of the PDF.

    Raises
    ------
    StageError
        If the headers of the images break the rules, so that no object of their study can be made.
    """
    makers: list[Callable[[], Dataset]] = [
        lambda: measurement_report(source, groups, version),
        lambda: encapsulated_pdf(source, pdf, version),
    ]
    for make, file in zip(makers, files, strict=True):
        with quiet():
            try:
                made = make()
                made.save_as(file, enforce_file_format=True)
            except OSError as error:
                raise StageError(f"{file}: cannot be written ({error.strerror})") from None
            except Exception as error:  # of any kind, with values of the header in its text
                raise StageError(
                    f"--dicom: patient or study in the header of the images breaks the rules of DICOM"
                    f" ({type(error).__name__}); repair the images, or export them again"
                ) from None


def measurement_report(source: Source, groups: Sequence[Group], version: str) -> hd.sr.Comprehensive3DSR:
    """A Comprehensive 3D SR by TID 1500 that refers to all images.

    Parameters
    ----------
    source : images.
    groups : figures; at least one.
    version : of the project that computed them.
    """
    context = hd.sr.ObservationContext(
        observer_device_context=hd.sr.ObserverContext(
            observer_type=codes.DCM.Device,
            observer_identifying_attributes=hd.sr.DeviceObserverIdentifyingAttributes(
                uid=_device(version), name=NAME, manufacturer_name=NAME, model_name=f"{NAME} {version}"
            ),
        )
    )
    # The first group names the images; repeated for each, hundreds of them would make the object large.
    images = [hd.sr.SourceImageForMeasurementGroup(image.SOPClassUID, image.SOPInstanceUID) for image in source.images]
    content = hd.sr.MeasurementReport(
        observation_context=context,
        procedure_reported=codes.SCT.Angiography,
        imaging_measurements=[_group(each, version, images if k == 0 else None) for k, each in enumerate(groups)],
    )
    return hd.sr.Comprehensive3DSR(
        evidence=[source.first, *source.images],
        content=content,
        series_instance_uid=hd.UID(),
        series_number=NUMBERS["SR"],
        sop_instance_uid=hd.UID(),
        instance_number=1,
        is_complete=True,
        series_description=f"{NAME}: measurements",
        coding_schemes=[CodingSchemeIdentificationItem(SCHEME, name=NAME, responsible_organization=NAME)],
        **_equipment(version),
    )


def _group(
    group: Group, version: str, images: list[hd.sr.SourceImageForMeasurementGroup] | None
) -> hd.sr.MeasurementsAndQualitativeEvaluations:
    worth = [hd.sr.QualitativeEvaluation(WORTH, group.worth.coded())] if group.worth else None
    return hd.sr.MeasurementsAndQualitativeEvaluations(
        tracking_identifier=hd.sr.TrackingIdentifier(uid=hd.UID(), identifier=group.name),
        finding_type=group.finding.coded(),
        method=METHOD,
        algorithm_id=hd.sr.AlgorithmIdentification(name=NAME, version=version),
        measurements=[_measurement(each) for each in group.figures],
        qualitative_evaluations=worth,
        source_images=images,
    )


def _measurement(measured: Measured) -> hd.sr.Measurement:
    return hd.sr.Measurement(
        name=measured.concept.coded(),
        value=float(measured.value),
        unit=CodedConcept(measured.unit, "UCUM", "no units" if measured.unit == "1" else measured.unit),
        derivation=DERIVATIONS[measured.derivation] if measured.derivation else None,
    )


def encapsulated_pdf(source: Source, pdf: bytes, version: str) -> hd.base.SOPClass:
    """An Encapsulated PDF that refers to all images.

    Parameters
    ----------
    source : images.
    pdf : the document, without anything of the patient.
    version : of the project that made it.
    """
    of, now = source.first, datetime.datetime.now()
    made = hd.base.SOPClass(
        study_instance_uid=of.StudyInstanceUID,
        series_instance_uid=hd.UID(),
        series_number=NUMBERS["DOC"],
        sop_instance_uid=hd.UID(),
        sop_class_uid=EncapsulatedPDFStorage,
        instance_number=1,
        modality="DOC",
        transfer_syntax_uid=ExplicitVRLittleEndian,
        patient_id=of.PatientID,
        patient_name=of.PatientName,
        patient_birth_date=of.PatientBirthDate,
        patient_sex=of.PatientSex,
        accession_number=of.AccessionNumber,
        study_id=of.StudyID,
        study_date=of.StudyDate or None,
        study_time=of.StudyTime or None,
        referring_physician_name=of.ReferringPhysicianName,
        series_description=f"{NAME}: report",
        specific_character_set=of.get("SpecificCharacterSet"),
        content_date=now.date(),
        content_time=now.time(),
        **_equipment(version),
    )
    made.copy_patient_and_study_information(of)
    made.ConversionType = "WSD"
    made.AcquisitionDateTime = of.get("AcquisitionDateTime")
    made.BurnedInAnnotation = "NO"
    made.SourceInstanceSequence = [_reference(image) for image in source.images]
    made.DocumentTitle = "Blood flow computed from angiography"
    made.ConceptNameCodeSequence = []
    made.VerificationFlag = "UNVERIFIED"
    made.MIMETypeOfEncapsulatedDocument = "application/pdf"
    made.EncapsulatedDocumentLength = len(pdf)
    made.EncapsulatedDocument = pdf + b"\0" * (len(pdf) % 2)
    return made


def _reference(image: Dataset) -> Dataset:
    item = Dataset()
    item.ReferencedSOPClassUID = image.SOPClassUID
    item.ReferencedSOPInstanceUID = image.SOPInstanceUID
    return item


def _equipment(version: str) -> dict[str, Any]:
    return {"manufacturer": NAME, "manufacturer_model_name": NAME, "software_versions": version}


def _device(version: str) -> UID:
    """UID of the program, the same for all that one version made (PS3.5, B.2)."""
    return UID(f"2.25.{uuid.uuid5(uuid.NAMESPACE_URL, f'urn:hemolattice:{version}').int}")
