"""The words and sentences of "What if" and of the strip of origin and branches."""

WHAT_IF = "What if…"
LATER = "A run is going on. Begin a branch when it has ended, or stop it."
NO_RUN = "There is no run to go on from. Compare two videos first."
NO_VIDEOS = "The videos of this run are not here. Add them to go on from it."
CHANGED = "The players hold other videos than this run compared. Put those back to go on from it."
NO_JUDGE = "{} judged this run and cannot be asked here. Choose another judge, and turn 1."
BAD_TURN = "The turn must be a whole number."
BAD_FRAMES = "Frames are whole numbers with commas between, as in 4, 9."
LONG_PROMPT = "The prompt is too long: at most {:,} characters are read."
ORIGIN = "Origin"
STARTING = "begins"
GOING_ON = "going on"
NO_VERDICT = "no verdict"

FORM = {
    "open": WHAT_IF,
    "turn": "From turn",
    "turnHelp": "The turns before it are taken over as they were.",
    "frames": "Frames to show in it",
    "framesHelp": "By the judge's numbers, as in 4, 9. Empty: those that were asked for.",
    "framesFirst": "Turn 1 shows the protocol's first frames.",
    "take": "Take from the rail",
    "taking": "Click moments on the rail, or press Enter on it: each is added.",
    "noTool": "Without the tool: ask for the answer in that turn",
    "window": "Memory window",
    "judge": "Judge",
    "same": "As it was",
    "prompt": "Prompt",
    "promptLater": "Another prompt can only begin at turn 1.",
    "start": "Start the branch",
    "close": "Close",
    "strip": "Origin and branches",
    "compare": "Compare with another judge",
    "differs": "differs",
    "dimension": "Dimension",
}
"""What the form and the strip are labelled with, by the names that the script knows."""
