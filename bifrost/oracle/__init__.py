"""The Oracle: one SELECT over a tenant's tables, answered as Arrow batches.

`bifrost.oracle.answers` is what the service uses; `worker` is the other process, where SQL is parsed
and run. No SQL is ever parsed in the service's own process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bifrost.oracle.answers import Answer, Oracle
    from bifrost.oracle.question import Question

__all__ = ["Answer", "Oracle", "Question"]


def __getattr__(name: str) -> Any:
    # The query's process is inside this package too, and has no use for the service's libraries.
    if name not in __all__:
        raise AttributeError(name)
    from bifrost.oracle import answers

    return getattr(answers, name)
