"""`RunView`: what page, API, report and lists show of one run: text, never markup."""

import hashlib
import math
import re
import shutil
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from vrthinker_core.drawn.notes import COUNTED_FACTS, outside_words, prompt_reason, read_frame_facts
from vrthinker_core.errors import JudgeError, fault_names
from vrthinker_core.protocols import parser
from vrthinker_core.protocols.factory import protocol_of
from vrthinker_core.traces import finite, jpeg_size, seek_time, timeline_position
from vrthinker_core.types import (
    ClipInfo,
    Dimension,
    FrameRef,
    FrameSelection,
    Reply,
    Side,
    Thumbnail,
    Verdict,
    wording,
)
from vrthinker_core.types.events import Called, Finished, OpenTurn, Pace, Run, Trace, Turn
from vrthinker_core.types.messages import LabelProbabilities
from vrthinker_core.types.order import order_of, swap_run
from vrthinker_core.ui import words
from vrthinker_core.ui.run import BackgroundRun, Replay, cut_turn
from vrthinker_core.words import count, duration, ended_after, reading

Json = dict[str, Any]
HALF_TAG = re.compile(r"</?[a-z_ ]{0,20}$", re.IGNORECASE)  # of a tag that is being written
Clips = tuple[ClipInfo | None, ClipInfo | None]
Probabilities = Mapping[Dimension, LabelProbabilities]  # As far as they are known

# What the demo judge weighs overall
OVERALL_TOPICS = "prompt", "picture", "motion"
AS_IT_CAME = "Reply as it came"
# After which another judge, or its key once more, is the way on
JUDGE_FAULTS = fault_names(JudgeError)
SILENT_SECONDS = 20.0  # after which it is told that the judge says nothing
MAX_NAMED = 4  # frames that stand under a dimension

# What says nothing of the verdict. Anything else is left out, also what a page is given one day.
UNTELLING = (
    *("run", "over", "address", "kept", "changed", "stills", "prompt", "judge", "notes", "health"),
    *("fps", "grid", "ending", "choose"),
)
WORDLESS: Json = {"confidence": [], "labels": [], "parts": [], "aside": [], "facts": None}
UNTELLING_OF_TURN = "number", "foot", "live", "taken"


class Picture(NamedTuple):
    """A thumbnail as the page shows it."""

    src: str  # its address: a URL or data URI
    ratio: float  # of its width to its height


Pictures = Callable[[Thumbnail], Picture]


def picture(src: str, jpeg: bytes) -> Picture:
    """Return the picture at this address; no JPEG counts one pixel."""
    width, height = jpeg_size(jpeg)
    return Picture(src, round(max(width, 1) / max(height, 1), 3))


def inline_image(frame: Thumbnail) -> Picture:
    """Return the thumbnail itself, as a data URI."""
    return picture(f"data:image/jpeg;base64,{b64encode(frame.jpeg).decode()}", frame.jpeg)


class ThumbnailFiles:
    """Thumbnails of one run in `folder`, served under the relative `url`."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self._pictures: dict[bytes, Picture] = {}
        self._lock = threading.Lock()
        self._removed = False

    def __call__(self, frame: Thumbnail) -> Picture:
        """Return the picture; its address is "" on a full disk or after removal."""
        if frame.jpeg not in self._pictures:
            self._pictures[frame.jpeg] = picture(self.add(frame.jpeg, ".jpg"), frame.jpeg)
        return self._pictures[frame.jpeg]

    def remove(self) -> None:
        """Remove the folder; what a thread adds later is not written."""
        with self._lock:
            self._removed = True
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, data: bytes, suffix: str) -> str:
        """Write a picture; return its address, "" if it could not be written."""
        path = self._folder / f"{hashlib.blake2b(data, digest_size=10).hexdigest()}{suffix}"
        with self._lock:
            if self._removed:
                return ""
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                return f"{self._url}/{path.name}"
            path.unlink(missing_ok=True)
        return ""

    def discard(self, src: str) -> None:
        """Remove the picture at that address, as `add` gave it."""
        (self._folder / Path(src).name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Tile:
    """One slot of one turn. `halves` holds the sides that were sent, one or both."""

    halves: Mapping[Side, Thumbnail]

    @property
    def label(self) -> str:
        """The number that the judge saw; both if counted apart."""
        numbers = (f"#{half.number}" for _, half in sorted(self.halves.items()))
        return " · ".join(dict.fromkeys(numbers))

    def to_json(self, clips: Clips, in_view: Set[FrameRef], pictures: Pictures) -> Json:
        """Return label, slot and halves; a half is None if the judge did not see that video."""

        def half(side: Side, clip: ClipInfo | None) -> Json | None:
            if (frame := self.halves.get(side)) is None:
                return None
            shown = {
                **pictures(frame)._asdict(),
                "time": finite(frame.seconds),  # when the frame appears
                "at": seek_time(frame),
                "place": timeline_position(frame, clip),
            }
            return shown if frame.ref in in_view else {**shown, "gone": True}

        slot = min(half.ref.slot for half in self.halves.values())  # the same of both
        return {"label": self.label, "slot": slot, "halves": list(map(half, Side, clips))}


def group_tiles(frames: Iterable[Thumbnail]) -> list[Tile]:
    """Return frames grouped by slot, in the order of first appearance."""
    slots: dict[int, dict[Side, Thumbnail]] = {}
    for frame in frames:
        slots.setdefault(frame.ref.slot, {}).setdefault(frame.ref.side, frame)
    return [Tile(halves) for halves in slots.values()]


class RunView:
    """One run so far, live or saved."""

    def __init__(
        self,
        run: Run | None,
        *,
        ended: Finished | None = None,
        checking: bool = False,
        swapped: bool = False,
    ) -> None:
        """Look at a run, or None before it begins.

        `ended` is the end of a run that never began. `checking`: its order is being checked, and
        `ended` is of that check. `swapped`: it is a second run in the sides of the first.
        """
        self.run, self._ended_early, self._checking, self._swapped = run, ended, checking, swapped
        self.started = run.started if run else None
        self.finished = run.finished if run else ended
        self.vote = run.vote if isinstance(run, Trace) else None
        self.protocol = protocol_of(run.started) if run else None
        self.order = order_of(run.runs) if isinstance(run, Trace) else None
        self.flips = self.order.flips if self.order else ()  # no label counts there
        # None before the end, without an answer and outside the judge's scope
        self.verdict = self.finished.verdict if self.finished else None
        # Whether the judge cannot judge such a pair: no label counts
        self.outside_scope = self.finished is not None and self.finished.outside_scope
        # Whether a person wrote the replies as an example: no winner is named
        self.scripted = self.finished is not None and self.finished.scripted
        # Whether its frames were drawn: no ordinary verdict of its judge
        self.is_control = self.started is not None and self.started.settings.frames == "random"
        self.name = wording.branch_name(self.started) if self.started else ""  # of a branch, or ""
        # The outcome in one line; "" before the end
        self.headline = (
            words.headline(self.started, self.finished, self.order) if self.finished else ""
        )
        self.ended = run.turns if run else ()  # The turns that have ended

    @classmethod
    def of(cls, run: BackgroundRun | Replay) -> "RunView":
        """Return the view of a run on the page."""
        return cls(run.trace, ended=run.ended, checking=run.is_check)

    @cached_property
    def second(self) -> "RunView | None":
        """The second run in the sides of the first; None if there is none."""
        second = self.run.swapped if isinstance(self.run, Trace) else None
        if second is None and not self._checking:
            return None
        return RunView(second and swap_run(second), ended=self._ended_early, swapped=True)

    @property
    def runs(self) -> "tuple[RunView, ...]":
        """The run and, once its order is checked, the second one."""
        return (self, self.second) if self.second else (self,)

    @cached_property
    def _open(self) -> OpenTurn:
        """The turn that goes on, if one does."""
        return (self.run and self.run.open) or OpenTurn()

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The turns; the reply of one that goes on is read as far as it is written."""
        goes_on, called = self._open, self._open.called
        cut = cut_turn(self.run, HALF_TAG.sub("", goes_on.text)) if self.run else None
        if cut is None:
            return self.ended
        reply = cut.reply if goes_on.text else Reply("")
        wants = FrameSelection(called.asked) if called else None
        return *self.ended, replace(cut, reply=replace(reply, wants=wants))

    @cached_property
    def _in_view(self) -> frozenset[FrameRef]:
        """The frames in view after the last turn, or sent since."""
        last = self.turns[-1]
        return frozenset(last.in_view).union(frame.ref for frame in last.frames)

    @cached_property
    def probabilities(self) -> Probabilities:
        """How likely each label of the verdict was, as far as known."""
        return parser.verdict_probabilities(self.ended, self.verdict)

    @property
    def labels(self) -> list[Json]:
        """The verdict's labels as both orders leave them, the overall one first."""
        return label_rows(self.verdict, flips=self.flips)

    def deciding_pair(self) -> dict[Side, Thumbnail]:
        """Return the frames that decided it: overall, else in one dimension, else the last."""
        turns = [group_tiles(turn.frames) for turn in self.turns]
        named = [tile for _, tiles in self._reasons.values() for tile in tiles]
        shown = named or (turns and turns[-1]) or [tile for tiles in turns for tile in tiles]
        best = max(shown, key=lambda tile: len(tile.halves), default=None)
        return dict(best.halves) if best else {}

    def page(self, pictures: Pictures) -> Json:
        """Return the run for the page's scripts; before it begins only `turns` and `ending`."""
        started, finished = self.started, self.finished
        ending = words.end_notice(finished) if finished else ""
        choose = words.CHOOSE_JUDGE if finished and finished.fault in JUDGE_FAULTS else ""
        if started is None:
            ending = ending if finished and finished.error else ""
            return {"turns": [], "ending": ending, "choose": choose}
        notes, branch = [wording.BRANCH.format(self.name)] if self.name else [], started.branch
        if branch and self.name == f"judge {started.judge}":
            notes = [words.JUDGED_BEFORE.format(words.judge_name(branch.origin.judge))]
        notes += words.visitors_notes(started.notes)
        return {
            "prompt": started.prompt,
            "judge": words.judge_name(started.judge),
            "notes": [*notes, *(finished.notes if finished else ())],
            "health": words.clip_notes(started.clips),  # of the two files
            "fps": [clip.fps if clip else 0 for clip in started.clips],  # 0 if unknown
            "grid": self._grid(),
            "verdict": self.answer(),
            "order": self._order(pictures),
            # Why its order can never be checked
            "no_check": words.CHECK_BRANCH if started.is_taken_over(1) else "",
            "vote": self._vote(),
            "ending": ending,  # what a person must know; "" after an ordinary answer
            "choose": choose,
            "turns": [self._turn(turn, pictures) for turn in self.turns],
            "coming": self._coming(pictures),
        }

    def answer(self) -> Json | None:
        """Return headline, who says it, note (of its order), caveats and chips; None before the end."""
        if self.finished is None:
            return None
        told: Json = {"headline": self.headline, "says": "", "note": "", "caveats": [], "chips": []}
        if self.started and not self.scripted:
            verb = "says" if self.verdict else "asked"
            verb = "by" if Dimension.OA in self.flips else verb
            told["says"] = words.judge_line(self.started.judge, self.started.notes, verb)
        if self.outside_scope:
            told["outside"] = self._outside()
        if self.verdict is not None:
            checked = words.ORDER_LINES[self.order.overall if self.order else None]
            told["note"] = wording.SCRIPTED_HELP if self.scripted else checked
            control = [wording.CONTROL] if self.is_control else []
            told["caveats"] = [*control, *words.verdict_caveats(self.finished)]
            rows = zip(words.DIMENSION_HELP, self.labels, strict=True)
            told["chips"] = [self._chip(each, row) for each, row in rows]
        return told

    def _outside(self) -> Json:
        """What a run without a verdict showed, the ways on, and what the judge wrote, put away."""
        assert self.started is not None
        turns = self.ended
        first = [frame for turn in self.turns[:1] for frame in turn.frames]
        is_paired = self.started.dialect != "concat"
        looked = count(len(group_tiles(first)), "pair") if is_paired else count(len(first), "frame")
        asked = sum(len(turn.reply.wants.indices) for turn in turns if turn.reply.wants)
        wrote = [
            [f"Turn {turn.number} · {heading}", text]
            for turn in turns
            for heading, text in _parts(turn, True)
            if heading != AS_IT_CAME or not (turn.reply.snapshot or turn.reply.think)
        ]
        more = f", asked for {asked:,} more," if asked else ""
        told = f"You saw how the loop works: it looked at {looked}{more} and stopped."
        told = f"{told} {outside_words(self.started)[1]}"
        return {"told": told, "ways": words.OUTSIDE_WAYS, "wrote": [words.DEMO_WROTE, wrote]}

    def _chip(self, dimension: Dimension, row: Json) -> Json:
        """One label, with the judge's own sentence and the labels of the tiles that it names."""
        label = dict(self.verdict or ()).get(dimension)
        likely = words.probability_words(label, self.probabilities.get(dimension))[1:]
        sentence, named = self._reasons[dimension]
        meaning = words.LABEL_HELP[label]
        if dimension in self.flips:
            meaning, sentence = words.FLIPPED_HELP, sentence and f"Before the swap: {sentence}"
        return {
            "name": row["name"],
            "label": row["label"],
            "value": row["value"],
            "help": " ".join([words.DIMENSION_HELP[dimension], meaning, *likely]),
            "order": words.both_labels(self.order, dimension) if self.order else "",
            "reason": sentence,
            "frames": [tile.label for tile in named[:MAX_NAMED]],
        }

    def messages(self) -> list[list[list[str]]]:
        """Return [heading, text] of what was sent and came back, for each turn."""
        system = self.started.system if self.started else ""
        turns = list[list[list[str]]]()
        for turn in self.turns:
            shown = f", with {count(len(turn.frames), 'picture')}" if turn.frames else ""
            passages = [["System prompt", system]] if system and not turns else []
            passages.append([f"Sent{shown}", turn.told])
            if aside := turn.completion.reasoning:
                passages.append(["Received beside the reply", aside])
            if text := turn.completion.text:
                passages.append(["Received", text])
            turns.append(passages)
        return turns

    def status(
        self, seconds: float, pace: Pace = Pace(), opening: tuple[float, float] | None = None
    ) -> str:
        """Return the run's state in one line, `seconds` after it began.

        `opening` is the share of each video that was read, before the run has started.
        """
        if self.second and self.second.finished is None:
            return words.IN_SWAPPED.format(self.second.status(seconds, pace, opening))
        if self.finished is not None:
            return self._outcome()
        started, turns = self.started, self.turns
        if started is None or not turns:
            return f"{reading(opening)} · {duration(seconds)}" if opening else words.OPENING
        turn, most = turns[-1], started.settings.max_turns
        new = f"looking at {wording.looked_at([turn])}" if turn.frames else "thinking"
        left, silent = pace.seconds_left(seconds, most), seconds - pace.latest
        coming = f"at most {duration(math.ceil(left), whole=True)} left" if left else ""
        if silent >= SILENT_SECONDS:  # then no estimate holds
            coming = f"no word for {duration(math.floor(silent), whole=True)}"
        if again := pace.retrying:
            why = "the server is busy" if again.busy else "no answer from the server"
            coming = f"{why}, try {again.attempt} of {again.attempts}"
        known = [
            f"Turn {turn.number}{f' of {most}' if most else ''}",
            "writing" if turn.completion.text else new,
            duration(seconds),
            coming,
        ]
        return " · ".join(filter(None, known))

    def status_of(self, run: BackgroundRun | Replay) -> str:
        """Return the same line for this run on the page, live or saved."""
        if not run.is_replay:
            return self.status(run.seconds, run.pace, run.opening)
        turns, how = [turn for run in self.runs for turn in run.turns], words.ended(self.finished)
        # An ordinary answer goes without saying
        how = how if how == wording.DEMO_RUN else how.removeprefix("Finished").lower()
        kind = wording.SCRIPTED if self.scripted else "Recorded run"
        told = kind, how, count(len(turns), "turn"), wording.looked_at(turns)
        return " · ".join(filter(None, told))

    def _outcome(self) -> str:
        """How the run, or both, ended, and what they took."""
        turns = [turn for run in self.runs for turn in run.turns]
        ends = [run.finished for run in self.runs if run.finished]
        ended, *other = map(words.ended, ends)
        if other == [ended]:
            ended = f"{ended} in both orders"
        elif other:
            ended = f"{ended} as given, {other[0].lower()} with the sides swapped,"
        after = ended_after(len(turns), sum(end.seconds for end in ends))
        took = wording.totals([turn for run in self.runs for turn in run.ended], tokens=False)
        return " · ".join(filter(None, [f"{ended} {after}", took]))

    @cached_property
    def _named(self) -> frozenset[str]:
        """The numbers of the frames that the reasoning for the verdict names."""
        turns = self.ended if self.verdict else ()
        told = [turn.reply.think[-20_000:] for turn in turns if turn.reply.verdict][-1:]
        told += [sentence for sentence, _ in self._reasons.values()] if told else []
        shown = {frame.number for turn in turns for frame in turn.frames}
        named = (number for text in told for number in parser.frame_numbers(text, shown))
        return frozenset(map(str, named))

    def _marks(self, turn: Turn, tile: Tile) -> list[str]:
        """Return how a pair came, and "named" if the reasoning for the verdict names it.

        Every run starts with "given" pairs, the judge's call before asked for "requested" ones, and a
        person chose "chosen" ones for a branch.
        """
        numbers, asked = {half.number for half in tile.halves.values()}, self._asked(turn)
        is_branch = bool(self.started and self.started.branch)
        came = "chosen" if is_branch and numbers.isdisjoint(map(str, asked)) else "requested"
        named = ["named"] if numbers & self._named else []
        return ["given" if turn.number == 1 else came, *named]

    @cached_property
    def _reasons(self) -> dict[Dimension, tuple[str, list[Tile]]]:
        """The judge's sentence about each dimension, and the tiles it names.

        The demo judge only counts wrong facts there: the fact that decided stands in its notes.
        """
        turns, found = self.turns, {}
        thoughts = [turn.reply.think for turn in reversed(self.ended)]
        tiles = [tile for turn in turns for tile in group_tiles(turn.frames)]
        shown = {half.number: tile for tile in tiles for half in tile.halves.values()}
        for dimension in words.DIMENSION_HELP:
            sentence = parser.find_sentence(dimension, thoughts)
            named = [shown[str(number)] for number in parser.frame_numbers(sentence, shown)]
            if dimension is Dimension.TA and COUNTED_FACTS.search(sentence):
                label = self.verdict.TA if self.verdict else None
                sentence, telling = prompt_reason(thoughts, label)
                named = named[:telling]
            elif all(f"neither leads on the {topic}" in sentence for topic in OVERALL_TOPICS):
                sentence = "It found no difference in prompt, picture or motion."
            for name in (dimension, wording.DIMENSION_NAMES[dimension]):  # the row says so
                sentence = sentence.removeprefix(f"{name}: ")
            sentence = sentence[:1].upper() + sentence[1:]
            found[dimension] = sentence, list({tile.label: tile for tile in named}.values())
        return found

    def _grid(self) -> Json | None:
        """How the run counts frames, for the rail; None without a known protocol."""
        if (protocol := self.protocol) is None:
            return None
        slots = protocol.grid.slots
        return {
            "slots": slots,  # of each video
            "rule": protocol.grid.rule,  # how the slots are spread over a clip
            "first": [int(protocol.frame_number(FrameRef(0, side))) for side in Side],
            "last": protocol.frame_number(FrameRef(slots - 1, Side.SECOND)),
        }

    def _vote(self) -> Json | None:
        """The vote, in the order in which the page shows the dimensions."""
        if (vote := self.vote) is None:
            return None
        same, rows = vote.compare(self.verdict), label_rows(vote.labels)
        said = {True: "agree", False: "differ", None: ""}
        for each, row in zip(words.DIMENSION_HELP, rows, strict=True):
            agrees = None if each in self.flips else same.get(each)  # nobody agrees with a flip
            row.update(dimension=each.value, compared=said[agrees])
        return {
            "rows": rows,
            "agrees": None if Dimension.OA in self.flips else vote.agrees,
            "slots": list(vote.slots),
            "note": vote.note,
            "when": vote.at.astimezone(UTC).strftime("%d %b %Y, %H:%M UTC"),
            "blind": "given before the verdict was seen" if vote.blind else "",
            "key": repr(vote),
        }

    def _order(self, pictures: Pictures) -> Json | None:
        """The second run and what it says: live, line, checked, caveats and its turns."""
        if (second := self.second) is None:
            return None
        finished, checked = second.finished, self.order is not None
        unchecked = wording.order_unchecked(finished) if finished else words.CHECKING
        caveats = words.verdict_caveats(finished) if finished else []
        if grid := second._grid():  # the numbers of the person's first video before the second's
            grid["first"].reverse()
        turns = [second._turn(turn, pictures) for turn in second.turns]
        told = {"notice": words.SWAPPED_NOTICE, "grid": grid, "turns": turns}
        return {
            "live": finished is None,
            "line": "" if checked else unchecked,  # the verdict tells both orders
            "checked": checked,
            "caveats": [words.IN_SWAPPED.format(text) for text in caveats],
            "run": {**told, "coming": second._coming(pictures)},
        }

    def is_open(self, turn: Turn) -> bool:
        """Whether that turn has not ended."""
        return turn.number > len(self.ended)

    def _turn(self, turn: Turn, pictures: Pictures) -> Json:
        started, number, ended = self.started, turn.number, not self.is_open(turn)
        assert started is not None
        tiles, is_pair = group_tiles(turn.frames), len(self._refs(1)) == 2
        taken = started.is_taken_over(number)
        summary, branch = [wording.TAKEN_OVER] if taken else [], started.branch
        if tiles or number > 1:
            chosen = branch and branch.turn == number and branch.frames
            why = words.begins_with(started.clips) if number == 1 else words.ASKED_FOR
            halves = [len(tile.halves) for tile in tiles]
            summary.append(words.frames_came(halves, "chosen for this branch" if chosen else why))
        # What an ended turn may have: [heading, …], labels, [heading, …]
        told: Json = {"confidence": [], "labels": [], "aside": []}
        reply, completion, (new, again) = turn.reply, turn.completion, self._request(turn)
        if ended:
            summary.append(words.turn_summary(turn, len(new)))
            if reply.confidence is not None:
                is_scale = started.dialect == "concat"
                line, meaning = words.CONFIDENCE if is_scale else words.OWN_CONFIDENCE
                told["confidence"] = [line.format(reply.confidence), meaning]
            known = parser.label_probabilities(completion, reply.verdict)
            told["labels"] = label_rows(reply.verdict, known)
            if aside := completion.reasoning:
                told["aside"] = [words.ASIDE_HEADING.format(len(aside)), aside, words.ASIDE_HELP]
        is_live = not ended and self.finished is None
        return {
            **told,
            "number": number,
            "foot": wording.turn_figures(turn),  # tokens and time
            "state": " · ".join(summary),  # what came into view, and what the reply did
            "live": is_live,  # the judge is writing it
            "taken": taken,  # it is the origin's
            "tiles": [
                tile.to_json(started.clips, self._in_view, pictures)
                | {"marks": self._marks(turn, tile)}
                for tile in tiles
            ],
            "parts": _parts(turn, ended),  # [heading, text] of each part
            # What it asks for, in words, as soon as that can be read
            "wants": words.request(new, again, is_pair=is_pair, is_open=is_live),
            "facts": _facts(reply),
            "remarks": self.remarks(turn),
            **(WORDLESS if self.outside_scope else {}),  # they are put away under the headline
        }

    def remarks(self, turn: Turn) -> list[str]:
        """Return frames not sent again, then a reply's repairs, refusals and cuts."""
        again = ", ".join(map(str, self._already_shown(turn)))
        told = [words.ALREADY_SHOWN.format(again)] if again else []
        return [*told, *([] if self.is_open(turn) else words.turn_remarks(turn))]

    def _asked(self, turn: Turn) -> tuple[int, ...]:
        """The frames that the call before that turn asks for."""
        before = [each.reply for each in self.turns if each.number == turn.number - 1]
        wants = before[-1].wants if before and before[-1].kind == "tool" else None
        return wants.indices if wants else ()

    def _already_shown(self, turn: Turn) -> tuple[int, ...]:
        """What was asked for and does not come, as the protocol counts."""
        asked, branch = self._asked(turn), self.started.branch if self.started else None
        if self.is_control:
            return ()
        if branch and branch.turn == turn.number:
            asked = branch.frames or asked
        brought = {frame.number for frame in turn.frames}
        return tuple(index for index in asked if str(index) not in brought)

    def _request(self, turn: Turn) -> tuple[list[int], list[int]]:
        """The frames that a turn asks for: new ones, and those that are in view already."""
        if after := [each for each in self.turns if each.number == turn.number + 1]:
            again = self._already_shown(after[0])
            return [index for index in self._asked(after[0]) if index not in again], [*again]
        asked = turn.reply.wants.indices if turn.reply.wants and turn.reply.kind == "tool" else ()
        called = self._open.called or Called(asked, asked)  # The trace ends before they came
        return [*called.new], [*called.again]

    def _refs(self, index: int) -> list[FrameRef]:
        """The frames of an index, on the sides that are shown; of an unknown protocol none."""
        refs = self.protocol.frame_refs((index,)) if self.protocol else ()
        return [FrameRef(ref.slot, ref.side.other) if self._swapped else ref for ref in refs]

    def _coming(self, pictures: Pictures) -> Json | None:
        """The next turn, as far as its frames are asked for; None without a request."""
        started, protocol = self.started, self.protocol
        if not (started and protocol and self.turns) or self.finished:
            return None
        clips, empty = started.clips, list[Thumbnail]()
        for index in self._request(self.turns[-1])[0]:
            for ref in self._refs(index):
                clip = clips[ref.side - 1]
                place = protocol.grid.index(ref.slot, max(1, clip.frames if clip else 1))
                empty.append(Thumbnail(ref, str(index), place, 0, 0, b""))
        ratios = {frame.ref.side: pictures(frame).ratio for frame in self.turns[0].frames}

        def blank(frame: Thumbnail) -> Picture:
            return Picture("", ratios.get(frame.ref.side, 1))

        tiles, shown = group_tiles(empty), {frame.ref for frame in empty}
        came = words.frames_came([len(tile.halves) for tile in tiles], words.ASKED_FOR)
        drawn = [tile.to_json(clips, shown, blank) for tile in tiles]
        return {"state": came, "tiles": drawn} if tiles else None


def label_rows(
    verdict: Verdict | None, known: Probabilities | None = None, flips: Sequence[Dimension] = ()
) -> list[Json]:
    """Return an answer's labels, in the page's order; None where the order flips one."""
    labels = dict(verdict or ())
    return [
        {
            "name": wording.DIMENSION_NAMES[each],
            "label": words.label_name(labels[each], each in flips),
            "value": None if each in flips else labels[each],
            # [percentage, meaning], or [] if it is not known or nearly certain
            "probability": words.probability_words(labels[each], (known or {}).get(each)),
        }
        for each in words.DIMENSION_HELP
        if each in labels
    ]


def _facts(reply: Reply) -> Json | None:
    """What the judge noted of each frame; None for a snapshot in other words."""
    videos = read_frame_facts(reply.snapshot) if reply.think else ()
    if not videos:
        return None
    rows: dict[str, list[str]] = {}
    for column, video in enumerate(videos, start=1):
        for fact in video.frames:
            noted = filter(None, (fact.picture, words.MOTIONS.get(fact.motion)))
            row = rows.setdefault(fact.frame, [f"#{fact.frame}", "", ""])
            row[column] = ", ".join(noted)
    columns = [f"Video {int(each.side)}{each.shows and f': {each.shows}'}" for each in videos]
    return {"columns": ["Frame", *columns], "rows": [*rows.values()], "raw": "In its own words"}


def _parts(turn: Turn, ended: bool) -> list[list[str]]:
    """[heading, text] of each part; the raw text if nothing was read."""
    text, reply = turn.completion.text, turn.reply
    read = [("Snapshot", reply.snapshot), ("Think", reply.think)]
    parts = [[heading, passage] for heading, passage in read if passage]
    unread = ended and reply.kind == "invalid" and not turn.cut_short
    asked = reply.wants is not None and reply.wants.indices
    if text and (unread or not (parts or asked)):
        parts.append([AS_IT_CAME if ended else "Writing", text])
    return parts


def hide_verdict(view: Json) -> Json:
    """Return the run's frames without the judge's words, a verdict, or anybody's vote."""
    turns = []
    for turn in view["turns"]:
        came = turn["state"].partition(" · ")[0] if turn["tiles"] else ""  # not what the reply did
        untelling = {name: turn[name] for name in UNTELLING_OF_TURN}
        tiles = [{**tile, "marks": tile["marks"][:1]} for tile in turn["tiles"]]
        wordless = {**WORDLESS, "remarks": [], "wants": ""}
        turns.append({**untelling, **wordless, "tiles": tiles, "state": came})
    return {**{name: view[name] for name in UNTELLING if name in view}, "turns": turns}
