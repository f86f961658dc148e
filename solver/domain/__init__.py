"""The node arrays: their invariants, file, subdomains and cross-sections."""
