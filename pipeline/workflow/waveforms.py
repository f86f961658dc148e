# SPDX-License-Identifier: Apache-2.0
"""Waveforms that the network of a case reads."""

from pathlib import Path

from pipeline.case.case_file import Case


def waveforms_of_network(name: str, case: Case) -> list[str]:
    """Waveforms that the network of a case reads; it is checked with its edits before anything runs."""
    from pipeline.network.case_network import network_of_case, waveform_files  # only where there is one
    from pipeline.network.reading import edited_network
    from pipeline.network.vessel_piece import require_segments

    if case.coupling:
        network, _ = edited_network(Path(case.coupling.network), case.coupling.edits, f"{name}: coupling")
        require_segments(network, case.coupling, f"{name}: coupling")
    else:
        network, _ = network_of_case(Path(str(case.input.network)), case.tree, f"{name}: tree")
    return waveform_files(network)
