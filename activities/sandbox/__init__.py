"""Runs code that nobody trusts: Python of code checks and of `code.run`, one call at a time a worker.

Here live the walls (bubblewrap, or WebAssembly where user namespaces are off), the workers behind them and
the self-test that decides whether any code runs at all. What a verdict is, and where evidence comes from,
lives elsewhere.
"""

from activities.sandbox.call import CodeCall, CodeReply
from activities.sandbox.pool import Engine, Sandbox

__all__ = ["CodeCall", "CodeReply", "Engine", "Sandbox"]
