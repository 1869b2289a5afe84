"""Deterministic Temporal code only: what runs when, and what crosses the Temporal boundary.

No I/O, no clock, no random, no library that does any of it; contents of Cards and evidence
never come here, only ids, numbers and letters.
"""
