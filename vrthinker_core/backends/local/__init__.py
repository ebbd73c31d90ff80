"""The parts of `TransformersBackend`.

`checkpoint_files.py` and `marker.py` import no torch, because a served judge needs them, too.
"""
