"""The work of the commands; `cli.py` reads their arguments."""
