"""Cell addresses, and a shared formula as each of its cells would write it.

A spreadsheet stores a formula that repeats over a range once, for its first cell; the others mean
the same text with every relative reference moved by their distance.
"""

from __future__ import annotations

import re

MAX_COLUMN = 16_384
MAX_ROW = 1_048_576

_ADDRESS = re.compile(r"([A-Z]{1,3})([1-9][0-9]{0,6})")
_PIECE = re.compile(
    r"""
      (?P<string>"(?:[^"]|"")*")                      # "text"
    | (?P<sheet>'(?:[^']|'')*'!?)                     # 'My sheet'!
    | (?P<bracket>\[(?:[^\[\]]|\[[^\]]*\])*\])        # Table[[Column]], [1]external
    | (?P<rows>\$?[0-9]{1,7}:\$?[0-9]{1,7}(?![\w.(]))
    | (?P<columns>\$?[A-Za-z]{1,3}:\$?[A-Za-z]{1,3}(?![\w.(!]))
    | (?P<cell>\$?[A-Za-z]{1,3}\$?[0-9]{1,7}(?![\w.(!]))
    | (?P<word>[^\W\d][\w.]*|[0-9][\w.]*|.)           # names, functions, numbers, anything else
    """,
    re.VERBOSE | re.DOTALL,
)
_CELL = re.compile(r"(\$?)([A-Za-z]{1,3})(\$?)([0-9]{1,7})")
_OUTSIDE = "#REF!"


def split_address(address: str) -> tuple[int, int] | None:
    """(column, row) of an address such as B12, both from 1; None if it is none."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return None
    column, row = column_number(match[1]), int(match[2])
    return (column, row) if column <= MAX_COLUMN and row <= MAX_ROW else None


def column_number(letters: str) -> int:
    """1 for A, 27 for AA."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number


def column_letters(number: int) -> str:
    """A for 1, AA for 27."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def shift_formula(formula: str, columns: int, rows: int) -> str:
    """The formula moved by so many columns and rows: relative references move, `$` ones stay.

    A reference that leaves the sheet becomes `#REF!`. Text in quotes, sheet names, table columns,
    function names and numbers are not references.
    """
    return "".join(_shifted(match, columns, rows) for match in _PIECE.finditer(formula))


def _shifted(match: re.Match[str], columns: int, rows: int) -> str:
    text = match[0]
    if match.lastgroup == "cell":
        parts = _CELL.fullmatch(text)
        if parts is None or column_number(parts[2]) > MAX_COLUMN or int(parts[4]) > MAX_ROW:
            return text
        column = _column(parts[1], parts[2], columns)
        row = _row(parts[3], parts[4], rows)
        return _OUTSIDE if column is None or row is None else column + row
    if match.lastgroup == "columns":
        ends = [_column("$" * end.startswith("$"), end.lstrip("$"), columns) for end in text.split(":")]
    elif match.lastgroup == "rows":
        ends = [_row("$" * end.startswith("$"), end.lstrip("$"), rows) for end in text.split(":")]
    else:
        return text
    return _OUTSIDE if None in ends else ":".join(end for end in ends if end is not None)


def _column(fixed: str, letters: str, by: int) -> str | None:
    if fixed:
        return f"${letters}"
    number = column_number(letters) + by
    return column_letters(number) if 1 <= number <= MAX_COLUMN else None


def _row(fixed: str, digits: str, by: int) -> str | None:
    if fixed:
        return f"${digits}"
    number = int(digits) + by
    return str(number) if 1 <= number <= MAX_ROW else None
