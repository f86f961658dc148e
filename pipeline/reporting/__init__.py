"""The report: pictures, plots, page."""
