# SPDX-License-Identifier: Apache-2.0
"""Check a network's file and tell what it amounts to, with its edits.

    python -m pipeline.network.show NETWORK [--out EDITED.yaml]

NETWORK is a file, or the name of a network that the project has, such as adan56. EDITED.yaml gets the network with its
edits applied.
"""

import argparse
import sys
from pathlib import Path

from pipeline.network.network_file import find
from pipeline.network.reading import sound_network
from pipeline.network.summary import Summary, summary
from pipeline.network.writing import commented, network_text
from solver.runtime.errors import StageError
from solver.runtime.log import open_log
from solver.runtime.outputs import appearing_whole


def in_words(found: Summary) -> str:
    """Figures of a network, a line each."""
    resistance = found.terminal_resistance_mmhg_s_ml
    lines = {
        "segments": f"{found.segments}, between {found.nodes} nodes",
        "terminals": f"{found.terminals}",
        "length": f"{found.length_mm:.0f} mm",
        "volume": f"{found.volume_ml:.4g} mL at the external pressure",
        "compliance of walls": f"{found.wall_compliance_ml_mmhg:.4g} mL/mmHg",
        "compliance of terminals": f"{found.terminal_compliance_ml_mmhg:.4g} mL/mmHg",
        "resistance of terminals": "not of all" if resistance is None else f"{resistance:.4g} mmHg s/mL",
        "wave speed": "{:.3g} to {:.3g} m/s".format(*found.wave_speed_m_s),
        "cycle": f"{found.period_s:g} s",
    }
    return "\n".join(f"{what:<24} {value}" for what, value in lines.items())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.network.show",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("network", metavar="NETWORK")
    parser.add_argument("--out", type=Path, metavar="EDITED.yaml", help="where to write the network with its edits")
    given = parser.parse_args()
    log = open_log("pipeline.network")
    try:
        path = find(given.network)
        network = sound_network(path)
        print(in_words(summary(network)))
        if given.out:
            with appearing_whole({"network": given.out}) as partial:
                text = network_text(network, commented(f"{path.name} with its edits applied."))
                partial["network"].write_text(text, encoding="utf-8")
    except StageError as error:
        log.error("error: %s", error)
        sys.exit(1)
    except OSError as error:
        log.error("error: %s: %s", error.filename or given.out, error.strerror)
        sys.exit(1)


if __name__ == "__main__":
    main()
