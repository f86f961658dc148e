"""What the filter stage is made of: region of interest, smoothing, resampling."""
