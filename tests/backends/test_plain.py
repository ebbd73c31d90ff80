"""The plain engine: whole runs of other families, exact against our own engine, Stop at the next layer, what it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.drawn_pairs import drawn_pairs
from tests.support.families import CHATML, TURNS, write_gemma3, write_qwen3_vl
from vrthinker_core import VideoPair, judge, open_backend
from vrthinker_core.backends import NANO, Backend
from vrthinker_core.backends.checkpoint import find_source, open_plain
from vrthinker_core.backends.plain import PlainBackend
from vrthinker_core.errors import CheckpointError
from vrthinker_core.types import Settings
from vrthinker_core.types.events import Finished, TextArrived, TurnEnded
from vrthinker_core.types.messages import Cancelled, Completion

WRITERS = {"qwen3_vl": write_qwen3_vl, "gemma3": write_gemma3}
SHORT = Settings(protocol="paired", max_turns=2, max_new_tokens=16)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> VideoPair:
    return drawn_pairs(1, 7, tmp_path_factory.mktemp("pairs"))[0]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = tmp_path_factory.mktemp("families")
    return {name: write(made / name) for name, write in WRITERS.items()}


@pytest.fixture(scope="module")
def plain_nano() -> PlainBackend:
    found = find_source(str(NANO))
    return PlainBackend(open_plain(found), found, "nano")


def run(
    pair: VideoPair, backend: Backend, settings: Settings, cancelled: Cancelled = lambda: False
) -> tuple[list[Completion], list[str], Finished]:
    """Completions, pieces of text, and the end."""
    events = list(judge(pair, backend, settings, cancelled=cancelled))
    turns = [event.turn.completion for event in events if isinstance(event, TurnEnded)]
    pieces = [event.text for event in events if isinstance(event, TextArrived)]
    return turns, pieces, next(event for event in events if isinstance(event, Finished))


@pytest.mark.parametrize("family", WRITERS)
def test_a_whole_comparison_runs_through_a_model_of_another_family(
    family: str, folders: dict[str, Path], drawn: VideoPair
) -> None:
    backend = open_backend(f"hf:{folders[family]}")
    assert isinstance(backend, PlainBackend)
    prompt = "A <image> and <|image_pad|><|im_end|> <start_of_image>"
    turns, pieces, end = run(VideoPair(prompt, drawn.first, drawn.second), backend, SHORT)
    assert len(turns) == 2
    assert all(turn.new_tokens == 16 and turn.stop == "length" for turn in turns)
    assert "".join(pieces) == "".join(turn.text for turn in turns)
    assert turns[1].prompt_tokens > turns[0].prompt_tokens > 300  # The rules in words are in it
    assert end.verdict is None
    assert "told the protocol's rules" in backend.notes[0]
    assert " of its tokens" in backend.notes[1]


@pytest.mark.parametrize("turns", [None, 1], ids=["free", "a forced answer"])
def test_the_built_in_judge_says_the_same_in_either_engine(
    turns: int | None, drawn: VideoPair, nano: Backend, plain_nano: PlainBackend
) -> None:
    settings = Settings(max_turns=turns, max_new_tokens=400)
    own, _, end = run(drawn, nano, settings)
    plain, _, plain_end = run(drawn, plain_nano, settings)
    assert [turn.text for turn in plain] == [turn.text for turn in own]
    assert [turn.prompt_tokens for turn in plain] == [turn.prompt_tokens for turn in own]
    assert plain_end.verdict == end.verdict is not None
    for mine, its in zip(own[-1].label_tokens, plain[-1].label_tokens, strict=True):
        assert mine.offset == its.offset
        assert mine.probabilities == pytest.approx(its.probabilities, abs=1e-4)


def test_a_temperature_repeats_with_its_seed(drawn: VideoPair, plain_nano: PlainBackend) -> None:
    def text(seed: int) -> str:
        settings = Settings(temperature=1.5, seed=seed, max_turns=1, max_new_tokens=20)
        return run(drawn, plain_nano, settings)[0][0].text

    assert text(1) == text(1) != text(2)


def test_stop_keeps_what_was_shown(drawn: VideoPair, plain_nano: PlainBackend) -> None:
    seen: list[str] = []
    turn = None
    for event in judge(drawn, plain_nano, Settings(), cancelled=lambda: len(seen) > 10):
        if isinstance(event, TextArrived):
            seen.append(event.text)
        if isinstance(event, TurnEnded):
            turn = event.turn.completion
    assert turn.stop == "cancelled"
    assert turn.text.startswith("".join(seen)[:10])
    free = run(drawn, plain_nano, Settings(max_turns=1, max_new_tokens=1))
    assert free[0][0].new_tokens == 1, "the model is free again"


def test_stop_during_a_prefill_is_heard_at_the_next_layer(
    drawn: VideoPair, plain_nano: PlainBackend
) -> None:
    passed: list[int] = []
    hooks = [
        layer.register_forward_hook(lambda *_, n=number: passed.append(n))
        for number, layer in enumerate(plain_nano.model.get_decoder().layers)
    ]
    _, pieces, end = run(drawn, plain_nano, Settings(max_turns=1), lambda: bool(passed))
    for hook in hooks:
        hook.remove()
    assert passed == [0]
    assert (pieces, end.verdict) == ([], None)


LAST_ALONE = CHATML.replace("{% for m in messages %}", "{% for m in messages[-1:] %}")
ONE_PICTURE = CHATML.replace("for p in m.content", "for p in m.content[-2:]")
ODD = CHATML.replace("{{ p.text }}", "{{ p.text if loop.last }}", 1)
ODD = ODD.replace("m.role }}", "'user' }}")
FORGETFUL = CHATML.replace("{{ p.text }}", "{{ p.text.split('</think>')[-1] }}")
TEMPLATES = {
    "no template": ("qwen3_vl", "", "no chat template"),
    "the last message alone": ("qwen3_vl", LAST_ALONE, "cannot hold a talk"),
    "one picture": ("qwen3_vl", ONE_PICTURE, "several pictures"),
    "no text": ("gemma3", TURNS.replace("{{ p.text }}", ""), "loses or moves text"),
}


@pytest.fixture
def copied(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of both families, to be changed."""
    for name, folder in folders.items():
        shutil.copytree(folder, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(("family", "template", "says"), TEMPLATES.values(), ids=TEMPLATES)
def test_a_template_that_cannot_hold_a_deliberation_is_refused(
    family: str, template: str, says: str, copied: Path
) -> None:
    path = copied / family / "chat_template.jinja"
    path.write_text(template)
    if not template:
        path.unlink()
    with pytest.raises(CheckpointError, match=says):
        open_backend(f"hf:{copied / family}")


def test_a_template_that_forgets_thoughts_is_a_note(copied: Path) -> None:
    path = copied / "qwen3_vl" / "chat_template.jinja"
    for template, noted in ((ODD, False), (FORGETFUL, True)):
        path.write_text(template)
        assert ("thoughts" in open_backend(f"hf:{path.parent}").notes[-1]) == noted


def test_a_model_that_takes_no_pictures_is_refused(copied: Path) -> None:
    config = copied / "gemma3" / "config.json"
    config.write_text(config.read_text().replace('"gemma3"', '"gemma3_text"'))
    with pytest.raises(CheckpointError, match="takes pictures"):
        open_backend(f"hf:{config.parent}")


def test_a_missing_tensor_is_never_made_up(copied: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = copied / "qwen3_vl" / "model.safetensors"
    weights = load_file(path)
    weights.pop(next(name for name in weights if name.endswith("q_proj.weight")))
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(CheckpointError, match="incomplete"):
        open_backend(f"hf:{path.parent}")
