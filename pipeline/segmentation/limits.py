# SPDX-License-Identifier: Apache-2.0
"""Shares of a mask from which what was found in it is worth a reservation.

They stand apart from how it is found: later stages judge figures by them, and need to import nothing else.
"""

WRONG = 0.03
"""Change of the volume by the levels near each place. A threshold half way that a user gives makes a thin vessel 3 to
5 % too small by its blur."""

ELSEWHERE = 0.05
"""The same, above which the mask's wall is none of the image's, so that brightness beside it tells nothing. Half way,
blur alone makes a vessel of four voxels in radius up to 5 % too small; its wall is still that of the image."""

MOVED = 0.2
"""Change of the volume from one threshold to the levels near each place: of 312 drawn images (docs/validation/
first-try.md) two of the five that it was larger in were wrong, with nothing else to tell of it."""

OFF_THE_EDGE = 0.04
"""The same by one level of lumen and of tissue: of 87 drawn vessels of 47 kinds whose volume is right, none has more
(docs/validation/first-try.md). Near a vein or an organ of medium brightness the levels of the place mislead."""

LEFT_OPEN = 0.02
"""Part of a volume that the blur leaves open: with what noise and grid add, up to 0.7 %, `WRONG` is the rest."""

TOUCHED = 0.01
"""Calcium or metal at the wall: its blur takes in about twice as much."""

UNDECIDED = 0.06
"""What is as bright as the threshold, with no wall. In vessels without a false lumen, drawn at random, whose volume is
right, it was at most 0.05 but for one with a void, 0.09 (docs/validation/first-try.md)."""

BRIGHT_RIM = 0.15
"""Part of the middle of the vessel whose wall is brighter than that of a lumen can be. In vessels without a stent,
drawn at random, it was at most 0.12."""

DARK_RIM = 0.5
"""Part of the middle of the vessel at whose wall brightness falls by more than blur."""

DARK_WITHIN = 0.05
"""What the two layers within the wall lack together with those beyond it, in the contrast, more than by blur alone: in
drawn vessels with saturated blood at the wall 0.08 at least, in others 0.025 at most."""

CUT_OFF = 0.85
"""Part of the middle of the vessel at the image's brightest value, above which it is cut off: of normal noise,
so much is above a value that lies one standard deviation below the level of blood."""
