"""`python -m wyrd.cli`."""

from wyrd.cli import main

main()
