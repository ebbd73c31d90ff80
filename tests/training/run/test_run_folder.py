"""The folder of a training run: what is in it is never overwritten by another run."""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from vrthinker_core.errors import BadInput
from vrthinker_core.training.config import TrainConfig, changed_config, preset_config, read_config
from vrthinker_core.training.run_folder import (
    RunFolder,
    TrainingRun,
    new_checkpoint,
    open_run_folder,
    read_state,
)

CONFIG = preset_config("nano")
RUN = TrainingRun("grpo", "nano", "drawn", digest="1")


def begin(out: Path) -> None:
    with open_run_folder(out, RUN, CONFIG, resume=False):
        (out / "metrics.jsonl").write_text("a step\n")


def check_refused(
    out: Path, said: str, run: TrainingRun = RUN, config: TrainConfig = CONFIG, resume: bool = True
) -> None:
    refused = pytest.raises(BadInput, match=re.escape(said))
    with refused, open_run_folder(out, run, config, resume=resume):
        raise AssertionError


def files(folder: Path) -> list[tuple[str, bytes]]:
    return sorted((path.name, path.read_bytes()) for path in folder.iterdir() if path.is_file())


def end_badly(out: Path) -> None:
    with open_run_folder(out, RUN, CONFIG, resume=True):
        time.sleep(0.02)
        raise ZeroDivisionError


def test_a_new_folder_says_what_it_is(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "run"
    with open_run_folder(out, RUN, CONFIG, resume=True) as folder:
        curves = folder.state.curves
        assert folder.state == replace(RUN, starts=1, curves=curves)
    with open_run_folder(out, RUN, CONFIG, resume=True) as folder:
        assert folder.state == replace(RUN, starts=2, seconds=folder.state.seconds, curves=curves)


def test_no_other_run_has_its_curves_and_it_keeps_them(tmp_path: Path) -> None:
    names = set()
    for out in (tmp_path / "a" / "run", tmp_path / "b" / "run"):
        begin(out)
        names.add(read_state(out).curves)
        shutil.rmtree(out)
        begin(out)
        names.add(read_state(out).curves)
        with open_run_folder(out, RUN, CONFIG, resume=True) as folder:
            assert folder.state.curves in names
    assert len(names) == 4
    state = json.loads((out / "state.json").read_bytes())
    del state["curves"]  # An earlier version left the curves that its folder names
    (out / "state.json").write_text(json.dumps(state))
    with open_run_folder(out, RUN, CONFIG, resume=True) as folder:
        assert folder.state.curves is None


def test_all_starts_count_until_the_run_is_done(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        end_badly(tmp_path)
    first = read_state(tmp_path).seconds
    with open_run_folder(tmp_path, RUN, CONFIG, resume=True) as folder:
        time.sleep(0.02)
        with new_checkpoint(folder):
            pass
    second = read_state(tmp_path).seconds
    with open_run_folder(tmp_path, RUN, CONFIG, resume=True):
        time.sleep(0.02)
    assert 0 < first < second == read_state(tmp_path).seconds


@pytest.mark.parametrize(
    ("run", "changes", "said"),
    [
        (RUN, [], "holds this run already: go on with --resume"),
        (replace(RUN, stage="rejection"), [], "holds a run of the stage grpo, not rejection"),
        (replace(RUN, model="other"), [], "with model 'nano' instead of 'other'"),
        (replace(RUN, data="rows.csv"), [], "with data 'drawn' instead of 'rows.csv'"),
        (replace(RUN, digest="2"), [], "drawn holds other pairs than when the run"),
        (RUN, ["grpo.samples=7"], "with grpo.samples 8 instead of 7"),
    ],
)
def test_the_folder_of_another_run_is_refused(
    run: TrainingRun, changes: list[str], said: str, tmp_path: Path
) -> None:
    begin(tmp_path)
    before = files(tmp_path)
    for resume in (False, True) if run != RUN or changes else (False,):
        check_refused(tmp_path, said, run, changed_config(CONFIG, changes), resume=resume)
    assert files(tmp_path) == before


def test_a_run_that_has_kept_nothing_makes_way_for_another(tmp_path: Path) -> None:
    with open_run_folder(tmp_path, RUN, CONFIG, resume=False):
        (tmp_path / "metrics.jsonl").touch()
    other, config = replace(RUN, data="rows.csv"), changed_config(CONFIG, ["grpo.steps=7"])
    with open_run_folder(tmp_path, other, config, resume=False) as folder:
        assert (folder.state.data, folder.state.starts) == ("rows.csv", 2)
        assert read_config(tmp_path) == config


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"x")
    check_refused(tmp_path, "holds other files")
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with open_run_folder(tmp_path, RUN, CONFIG, resume=False):
        check_refused(tmp_path, "Another process")


@pytest.mark.parametrize("text", ["", "{}", '{"stage": "grpo", "model": 3}'])
def test_a_damaged_state_is_refused(text: str, tmp_path: Path) -> None:
    begin(tmp_path)
    (tmp_path / "state.json").write_text(text)
    check_refused(tmp_path, "is damaged")


def test_a_run_that_is_done_has_no_further_steps(tmp_path: Path) -> None:
    longer = changed_config(CONFIG, ["grpo.steps=200"])
    begin(tmp_path)
    with open_run_folder(tmp_path, RUN, longer, resume=True) as folder:
        assert read_config(tmp_path).grpo.steps == 200
        with new_checkpoint(folder):
            pass
    said = "a run that is done, with grpo.steps=200: begin another one from its result"
    check_refused(tmp_path, said)
    with open_run_folder(tmp_path, RUN, longer, resume=True) as folder:
        assert folder.state.done


def make_result(folder: RunFolder, *, broken: bool) -> None:
    with new_checkpoint(folder) as made:
        (made / "model.safetensors").write_bytes(b"half")
        if broken:
            raise KeyError
        (made / "model.safetensors").write_bytes(b"whole")


def test_the_result_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with open_run_folder(tmp_path, RUN, CONFIG, resume=False) as folder:
        with pytest.raises(KeyError):
            make_result(folder, broken=True)
        assert not folder.result.exists()
        assert not folder.state.done
        make_result(folder, broken=False)
        assert [path.name for path in folder.result.iterdir()] == ["model.safetensors"]
        assert (folder.result / "model.safetensors").read_bytes() == b"whole"
        assert folder.state.done
