"""One module a resource, each with a `router`; `api.app` includes them all.

A route checks the caller's permission, calls one thing below, and answers a wire model.
No storage and no judgement here.
"""
