"""What every command line shares: errors, log, progress, outputs that appear whole or not at all, provenance."""
