# SPDX-License-Identifier: Apache-2.0
"""Words: free text of a header reduced to what cannot tell who the patient is.

Radiological and anatomical words stay, and numbers that have a unit, a single digit, or a leading zero; everything else
becomes "…". No date, no number of a patient and no name that is not itself a word of the field can pass.
"""

import re

_WORDS = """
3d 4d ct cta ctv ctp mr mra mrv mri xa dsa
abdomen abdominal aorta aortic arch arm arms artery arteries ascending basilar bifurcation body bone brain calf
cardiac carotid carotids cerebral cervical chest circle coronary coronaries cow cranial descending extremity eye
face femoral foot hand head heart hepatic hip iliac inferior internal external jugular kidney knee leg legs liver
lower lumbar lung lungs neck orbit pelvis peripheral portal pulmonary renal runoff shoulder sinus spine subclavian
superior supraaortic temporal thigh thoracic thorax thoracoabdominal trunk upper vein veins venous vertebral vessel
vessels willis
angio angiography arterial bolus contrast delay delayed dynamic early enhanced gad gadolinium gd iv late mask
native nonenhanced oral perfusion plain post pre routine sub subtracted subtraction test timing tracker tracking
unenhanced with without
adc asl bold breath breathhold bssfp ciss diffusion dixon dwi dti echo epi fat fatsat fast ffe fiesta flair flash
fse gated gating ge gradient gre haste hold inphase inversion magnitude map mdixon medic mprage mono monoenergetic
opp out outphase pc pca pd phase phases proton recon respiratory rephased sat sequence spair spgr spin spoiled ssfp
stir survey swi t1 t1w t2 t2w tfe thrive tirm tof trigger triggered trufi trufisp tse twist tricks turbo velocity
venc vibe water
3plane ap axial cor coronal curved frontal lateral left loc localizer localiser mip minip mpr multiplanar oblique
plane planes reformat reformatted reformats right sag sagittal scout surview thick thin topogram tra trans
transversal transverse
acquisition average bestdiast bestsyst diast diastole diastolic helical high iterative kernel low medium protocol
quality raw resolution scan sequential series sharp slice slices smooth soft spiral standard std syst systole
systolic tissue total volume vrt whole window
and at for from in no of on or per plus the to
"""
KNOWN = frozenset(_WORDS.split())
"""Words of protocols and of anatomy."""

HIDDEN = "…"

_UNITS = "mm|cm|ms|s|sec|min|hu|kv|kvp|mas|kev|deg|ml|%"
_TOKEN = re.compile(r"\d+[.,]\d+(?:[^\W\d_]+|%)?|\d+%|[^\W_]+|[%+]")
_MEASURE = re.compile(rf"\d{{1,4}}(?:[.,]\d{{1,2}})?(?:{_UNITS})")
_SMALL = re.compile(r"\d|0[.,]\d{1,2}")


def plain_words(text: str) -> str:
    """A text with everything that is not known to be harmless replaced by "…".

    Parameters
    ----------
    text : free text of a header, such as SeriesDescription.

    Returns
    -------
    Known words in small letters and plain numbers, in their order; neighbouring "…" are one.
    """
    tokens = _TOKEN.findall(text[:256].lower())
    shown: list[str] = []
    for before, token, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        word = token if _harmless(before, token, after) else HIDDEN
        if word != HIDDEN or shown[-1:] != [HIDDEN]:
            shown.append(word)
    return " ".join(shown)


def _harmless(before: str, token: str, after: str) -> bool:
    if token in KNOWN or token == "+" or re.fullmatch(_UNITS, token):
        return True
    if _MEASURE.fullmatch(token) or (_MEASURE.fullmatch(token + after) and not after[:1].isdigit()):
        return True
    beside_numbers = before[:1].isdigit() or after[:1].isdigit()  # as in a date
    return bool(_SMALL.fullmatch(token)) and not beside_numbers
