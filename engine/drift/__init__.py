"""Drift: whether a window of samples still looks like its baseline, by PSI, SPC or a custom metric.

`fitting` turns baseline data into a baseline document once; `judging` compares a window with it.
Numbers and report are those of the specification, independent of row order, host and run.
"""
