"""Drift's effects: reading a baseline's files, reading a window's samples, judging one against the other.

The arithmetic is `engine.drift`; what is here fetches and stores for it.
"""
