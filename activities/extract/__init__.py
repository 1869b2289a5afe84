"""What a file of evidence says: its extraction output, the places in it, and whether it is what it claims.

Every parser runs here, and runs only in a process that lives for one file and can be killed.
Where files come from, and what is judged about them, live elsewhere.
"""

from activities.extract.files import (
    EXTRACTION_VERSIONS,
    ExtractedFile,
    check_format,
    extract_file,
    inspect_file,
)

__all__ = ["EXTRACTION_VERSIONS", "ExtractedFile", "check_format", "extract_file", "inspect_file"]
