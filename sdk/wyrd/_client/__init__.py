"""How the SDK talks to a server, written once for the sync and the async surface.

Here live requests, answers, retries and local refusals as flows that do no I/O themselves, and
the two transports that drive them. What applications touch (`WyrdClient`, `Run`, …) lives outside.
"""
