"""VR-Thinker: compare two generated videos, and see why."""
