"""Made-up results of the benchmarks, and what the README says of each."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.attacks import ATTACKS


def turns_of(*ratios: float) -> dict[str, Any]:
    return {"times_as_fast": dict(zip(("total", "vision+prefill", "last turn, video+vision+prefill"), ratios, strict=True))}


BURST = {"visitors": {"clients": 200, "lost": 2, "busy_max": 0.5}, "programs": {"clients": 200, "lost": 1, "busy_max": None}}
STAGE_ROWS = (
    ("nano", 190), ("first frames only", 70), ("random frames", 110), ("twelve frames evenly", 60), ("memory window 1", 189),
    ("memory window 2", 190), ("sides swapped", 188), ("video files (H.264, 224 px)", 187),
)  # fmt: skip
"""What the study measures of the built-in judge alone."""

RESULTS: list[tuple[str, dict[str, Any], str]] = [
    (
        "server",
        {
            "pairs": 60,
            "equal": 59,
            "in_flight": 16,
            "times_as_fast": 3.25,
            "pictures_sent_twice": 0,
            "kilobytes_by_turn": {"1": 1728.9, "2": 4165.3},
        },
        "the same replies for 59 of 60 pairs; 16 in flight 3.25 times as fast as one at a time; requests of the first turn "
        "1,729 kB, of the second 4,165 kB, in which 0 pictures are sent again",
    ),
    (
        "turns",
        {"pairs_per_call": {"4": turns_of(1.5, 2.25, 3.125), "12": turns_of(2, 3, 14.5)}},
        "12 pairs a call: six turns 2.00 times as fast, vision and prefill 3.00 times, "
        "video, vision and prefill of the last turn 14.50 times; "
        "4 pairs a call: six turns 1.50 times as fast, vision and prefill 2.25 times, "
        "video, vision and prefill of the last turn 3.12 times",
    ),
    (
        "video",
        {"size": [1920, 1080], "times_less_than_published": {"first": 1.5, "run": 21}},
        "21.00 times less processor time than the published way for a whole run over 5 s of 1080p, "
        "1.50 times less for the first four frames alone",
    ),
    (
        "files",
        {"files": 120, "slots": 128, "exact": 100, "named": 20, "wrong": 0},
        "120 files read both ways: 100 exact in all of 128 slots, 20 named by a sentence, 0 wrong",
    ),
    (
        "views",
        {"pairs": 40, "right": {"even": 38, "frozen": 20, "jumping": 35, "jittering": 30}},
        "motion quality right, of 40 pairs each: even 38, frozen 20, jumping 35, jittering 30",
    ),
    (
        "batch",
        {"comparisons": 16, "times_as_fast": 3.5, "whole_comparisons": {"times_as_fast": 3.5}, "replies": {"times_as_fast": 9}},
        "16 comparisons from files to verdicts at once: 3.50 times as fast as one at a time",
    ),
    (
        "batch",
        {"comparisons": 16, "times_as_fast": 9.25, "replies": {"times_as_fast": 9.25}},
        "16 replies over decoded frames at once: 9.25 times as fast as one at a time",
    ),
    ("decode", {"times_as_fast": 1.25}, "1.25 times as fast as stock `generate()`"),
    (
        "decode",
        {"times_as_fast": 1.25, "floor_ms": 4.5, "times_the_floor": 1.75},
        "1.25 times as fast as stock `generate()`; a token takes 1.75 times as long as reading all weights once",
    ),
    (
        "nano",
        {
            "pairs": 60,
            "all_four_right": 30,
            "right": {"TA": 57, "MQ": 40, "VQ": 50, "OA": 45},
            "right_by_chance": {"each": 20.0, "all_four": 0.7},
        },
        "all four labels right for 30 of 60 pairs (by chance 0.7); each alone: TA for 57, MQ for 40, VQ for 50, OA for 45 "
        "(by chance 20.0)",
    ),
    (
        "real_damage",
        {
            "pairs": 60,
            "clips": 16,
            "shares": {
                "VQ": {"share": 0.7, "of": 30, "interval": (0.52, 0.83)},
                "MQ": {"share": 0.5, "of": 24, "interval": (0.31, 0.69)},
                "swapped the same": {"share": 0.9, "of": 30, "interval": (0.74, 0.97)},
            },
        },
        "60 pairs of 16 real clips: VQ right for 0.7 of 30 with damage to the picture, MQ for 0.5 of 24 with damage to the "
        "motion; verdicts stay the same for 0.9 of 30 when the sides are swapped",
    ),
    (
        "ranking",
        {"pairs": 50, "prompts": 5, "in_order": 4, "neighbours": 4, "apart": 3, "ends": 3, "cycle": True},
        "50 pairs of 5 prompts: 4 of 4 neighbours in order, no overlap of intervals for 3 of 3 generators 3 or more ranks "
        "apart; the planted cycle found",
    ),
    (
        "page",
        {
            "open_seconds": 0.5,
            "open_bytes": 12_345,
            "loaded_seconds": 1.25,
            "stream_bytes": 98_765,
            "streamed_pairs": 64,
            "sent_per_frame": 1,
            "fetched_at_most": 1,
        },
        "opens in 0.50 s from 12,345 bytes, all pictures loaded in 1.25 s; a live run of 64 pairs streams 98,765 bytes of updates "
        "(mentions of a frame: 1.00, fetches of a picture: at most 1)",
    ),
    (
        "load",
        {
            "crowd": {"visitors": 40, "lost": 0, "mixed": 1, "first_p95": 2.5},
            "burst": BURST,
            "endurance": {"runs": 300, "grown_mb": 12.5, "files": 0, "processes": 0},
        },
        "40 visitors at once: 0 lost, 1 mixed, first update after 2.50 s (p95); "
        "200 visitors at once, then as many programs: 3 lost, the last refusal after 0.50 s; "
        "300 runs in a row: 12.5 MB more memory, 0 files and 0 processes left",
    ),
    (
        "kills",
        {"writers": {"kills": 1000, "halves": 612, "torn": 0, "left": 0}, "servers": {"kills": 10, "left": 0, "lost": 0}},
        "1,000 kills of a process that writes traces, 612 of them within a file: 0 torn, 0 files left after the next start; "
        "10 kills of a server: 0 files of it left, 0 of another one lost",
    ),
    (
        "attacks",
        {"attacks": {name: {"longest_s": 0.75, "grown_mb": 120.4, "refused": 1} for name in ATTACKS}},
        "The longest wait of an honest visitor, and memory above idle: visitors: 0.75 s, 120 MB; traces: 0.75 s, 120 MB; "
        "bodies: 0.75 s, 120 MB; calls: 0.75 s, 120 MB; disk: 0.75 s, 120 MB; 5 of them refused",
    ),
    (
        "stages",
        {"pairs": 200, "rows": [{"name": "cold-start", "all_four": {"count": 70}}, {"name": "grpo", "all_four": {"count": 90}}]},
        "all four labels right of 200 unseen drawn pairs: cold-start 70, grpo 90",
    ),
    (
        "stages",
        {"pairs": 200, "rows": [{"name": name, "all_four": {"count": count}} for name, count in STAGE_ROWS]},
        "all four labels right of 200 unseen drawn pairs: nano 190, first frames only 70, random frames 110, "
        "twelve frames evenly 60, memory window 1 189, memory window 2 190, sides swapped 188, video files (H.264, 224 px) 187",
    ),
    (
        "grpo_step",
        {"rollouts": 8, "seconds_a_step": 12.4, "playing_s": 8.0},
        "a step of 8 rollouts of a judge of 3.5 million weights: 12.4 s (8.0 s of them playing)",
    ),
    (
        "grpo_step",
        {"rollouts": 8, "tokens": 11_000, "seconds_a_step": 61.25, "playing_s": 22.0, "peak_gib": 61.5, "estimated_gib": 55.5},
        "a step of 8 rollouts with adapters of rank 64: 61.2 s (22.0 s of them playing), 61.5 GiB at most where 55.5 were "
        "estimated",
    ),
    (
        "evaluate",
        {
            "rows": {"rows": 26_500, "seconds": 12.25, "processor_seconds": 8.5, "peak_mb": 340},
            "clips": {"pairs": 200, "pairs_a_second": 7.5},
        },
        "26,500 rows in 12.2 s (8.5 s of one processor) and 340 MB without their videos; with small clips 7.5 pairs a second",
    ),
]
