"""DICOM: files, headers, series, places of slices, pixels."""
