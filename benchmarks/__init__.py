"""Benchmarks: speed and memory as ratios within one run, and how well models do beside others on data in a folder."""
