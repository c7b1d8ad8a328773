"""Classes and numbers of time series."""
