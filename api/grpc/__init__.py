"""The gRPC door: `InsertBatch`, by which the published clients record rows into Bifrost.

Messages, statuses and the server that listens. What a batch means and whether it is taken is
Scribe's, as for the doors over HTTP.
"""
