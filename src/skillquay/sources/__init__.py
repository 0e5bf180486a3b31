"""Where published skills come from."""
