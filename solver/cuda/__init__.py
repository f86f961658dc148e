"""CUDA driver."""
