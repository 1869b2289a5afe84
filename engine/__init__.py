"""Judgement: plans, the interpreter, operators, decide, citations, evidence values.

Everything that decides a verdict is pure Python over plain models, the same for `verify` and
`submit`. No I/O, no clock, no framework lives here; blocks run through a `Runner` others supply.
"""
