"""`python -m onestride`."""

from onestride.cli import main

main()
