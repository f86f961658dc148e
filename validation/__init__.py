"""Studies, evidence and reference solvers that check the product, which imports nothing of this."""
