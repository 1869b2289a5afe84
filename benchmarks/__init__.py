"""Speed, measured against floors in the same run: `python -m benchmarks` prints a table, writes JSON."""
