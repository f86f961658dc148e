# SPDX-License-Identifier: Apache-2.0
"""Files of the stage postprocess by their roles, as the workflow names them."""

INPUTS = {
    "nodes": "nodes.h5",
    "flow": "flow.vtkhdf",
    "surface": "surface.vtp",
    "openings": "openings.json",
    "monitor": "monitor.csv",
    "summary": "solve.json",
}
OUTPUTS = {
    "wall": "wall.vtp",
    "wall-over-time": "wall_over_time.vtkhdf",
    "statistics": "flow_statistics.vtkhdf",
    "indices": "indices.json",
    "indices-table": "indices.csv",
    "openings-table": "openings.csv",
    "along": "centreline_flow.vtp",
    "along-table": "centreline_flow.csv",
}
