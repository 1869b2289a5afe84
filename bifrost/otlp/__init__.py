"""OTLP: what an OpenTelemetry exporter sends, as rows of the three telemetry tables.

Requests in protobuf or JSON become one batch each. No HTTP here: `api.routes.otlp` is the door.
"""
