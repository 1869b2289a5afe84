"""What reacts to a verdict: which Operators, what each of them sends, and its delivery.

Requests are rendered once, when the dispatch is stored, and never hold a secret; destinations
are screened and credentials attached when an attempt is made. Connections are kept in `store`.
"""
