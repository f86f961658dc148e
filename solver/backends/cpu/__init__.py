"""CPU driver."""
