"""The MCP door: tools by which agents read Cards, tables, rows and verifications.

A tool is a second way to ask what a route of the API answers: the same functions, permissions and
errors. Nothing is decided here, and nothing is kept between two calls.
"""
