"""Blocks and effects: extraction, model calls, the sandbox, judging with evidence, recording results.

Both drivers of the engine call what is here: the API in the request, Temporal as activities.
What a value means for a verdict is the engine's; how HTTP asks for it is the API's.
"""
