"""Benchmarks: measured in ratios within one run, since machines are noisy and differ."""
