"""`python -m tribunal`."""

from . import main

main()
