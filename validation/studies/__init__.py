"""The published studies: what each measures of its runs."""
