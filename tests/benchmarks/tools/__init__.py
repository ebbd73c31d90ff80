"""What the benchmarks share: their command line, clips, models, loops, clients, and how things are measured."""

from __future__ import annotations

import argparse


def benchmark_parser(docstring: str | None, quick: str, gpu: str = "") -> argparse.ArgumentParser:
    """Options `--quick` and, where `gpu` says what it does, `--gpu`; a benchmark adds its own."""
    parser = argparse.ArgumentParser(
        description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=quick)
    if gpu:
        parser.add_argument("--gpu", action="store_true", help=gpu)
    return parser
