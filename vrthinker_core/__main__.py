"""The entry point of `python -m vrthinker_core`; see `cli.py`."""

from vrthinker_core.cli import main

if __name__ == "__main__":
    main()
