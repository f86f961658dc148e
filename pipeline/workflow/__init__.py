"""What the Snakefile asks before and after the stages: shared runs, recovery, outcome."""
