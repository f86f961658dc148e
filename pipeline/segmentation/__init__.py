"""Segmentation of the lumen: masks, methods, guards, pictures."""
