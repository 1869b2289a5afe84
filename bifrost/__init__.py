"""The data plane: tables, the Scribe that records into them, the Oracle that queries them, OTLP.

Rows are durable in the outbox first, then published to Iceberg tables, and readable in both
states. No judgement, no HTTP and no Temporal here.
"""
