"""How the three processes of an extraction talk over one stream; see `zygote`."""

from __future__ import annotations

import struct

STARTED = b"S"
"""The child lives; from here on the file's own time runs."""

REQUEST_LENGTH = struct.Struct("!I")
ANSWER_LENGTH = struct.Struct("!Q")
STATUS = struct.Struct("!i")
"""Wait status of the child, as `os.waitpid` gives it."""
