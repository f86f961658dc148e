"""Settings: the sections of a case."""
