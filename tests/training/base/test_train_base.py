"""The stage `base`: both halves compute what the stock model computes, training moves them, and the product opens the result."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.local.checkpoint.checkpoint_files import check_files
from vrthinker_core.backends.local.checkpoint.marker import read_marker
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.errors import BadInput
from vrthinker_core.training.base.conversations import describe, draw_training_pair, judge
from vrthinker_core.training.base.frames.picture_batches import SERIES, picture_batch
from vrthinker_core.training.base.frames.restless_scenes import RestlessMotion
from vrthinker_core.training.base.half_state import HalfState
from vrthinker_core.training.base.half_training import Progress, is_over, last_report, missed_gates, rate_share
from vrthinker_core.training.base.language_training import LanguageOptions, RowSource, add_gradients, predictions, train_language
from vrthinker_core.training.base.model import compiled_layers
from vrthinker_core.training.base.model.base_checkpoint import begin_with, open_checkpoint, write_checkpoint
from vrthinker_core.training.base.model.compiled_layers import language_hidden, picture_features, to_patches
from vrthinker_core.training.base.model.model_shape import model_config, new_model
from vrthinker_core.training.base.model.token_kinds import kinds, near_places
from vrthinker_core.training.base.model.vocabulary import control_ids, make_tokenizer
from vrthinker_core.training.base.train_base import BaseOptions, train_base, train_part
from vrthinker_core.training.base.vision_training import VisionOptions, code_loss, train_vision
from vrthinker_core.training.drawn_world.scenes import SECOND_WORLD
from vrthinker_core.training.frame_facts.frame_code import basis
from vrthinker_core.training.run.config import VisionGates

UNCOMPILED = "force_eager"  # The same functions, without half a minute of compiling


@pytest.fixture(autouse=True)
def eager() -> object:
    with torch.compiler.set_stance(UNCOMPILED):
        yield


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return make_tokenizer(["A red ball moves right across the sand.", "Video of two green cubes going away on marble."])


def small_model(tokenizer: Tokenizer, seed: int = 0):  # type: ignore[no-untyped-def]
    return new_model(model_config(tokenizer.get_vocab_size(), control_ids(tokenizer), layers=2), seed)


@pytest.mark.parametrize("bfloat16", [True, False], ids=["bfloat16", "float32"])
def test_pictures_give_the_features_of_the_stock_tower(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, bfloat16: bool
) -> None:
    monkeypatch.setattr(compiled_layers, "multiplies_bfloat16", lambda: bfloat16)
    model = small_model(tokenizer)
    pictures = np.random.default_rng(0).integers(0, 256, (3, 112, 112, 3), np.uint8)
    patches = to_patches(pictures)
    stock = patches.view(3, 64, 3, 1, 196).expand(-1, -1, -1, 2, -1).reshape(3 * 64, -1)
    with torch.no_grad():
        wanted = model.model.visual(stock, grid_thw=torch.tensor([[1, 8, 8]] * 3)).pooler_output
        found = picture_features(model.model.visual, patches).float().flatten(0, 1)
    assert torch.cosine_similarity(found, wanted, dim=-1).min() > (0.999 if bfloat16 else 0.999999)


def test_rows_give_the_hidden_states_of_the_stock_model(tokenizer: Tokenizer) -> None:
    model, safe = small_model(tokenizer), SafeTokenizer(tokenizer)
    row = RowSource(safe, 192, LanguageOptions(write=judge)).row(11)
    pictures = row.ids == safe.control.image_pad
    grid = torch.tensor([[1, 8, 8]] * (int(pictures.sum()) // 4))
    with torch.no_grad():
        positions, _ = model.model.get_rope_index(row.ids[None], mm_token_type_ids=pictures[None].int(), image_grid_thw=grid)
        assert torch.equal(positions[:, 0], row.positions)
        language = model.model.language_model
        embeddings = language.embed_tokens(row.ids)
        embeddings[pictures] = row.features
        wanted = language(inputs_embeds=embeddings[None], position_ids=positions).last_hidden_state
        found = language_hidden(language, embeddings[None], row.positions[:, None]).float()
    assert torch.cosine_similarity(found, wanted, dim=-1).min() > 0.995


@pytest.mark.parametrize("write", [describe, judge])
def test_only_the_judges_own_words_are_learnt(tokenizer: Tokenizer, write) -> None:  # type: ignore[no-untyped-def]
    safe = SafeTokenizer(tokenizer)
    row = RowSource(safe, 192, LanguageOptions(write=write)).row(5)
    said = safe.decode([int(token) for token, weight in zip(row.ids, row.weights, strict=True) if weight > 0])
    assert said.count("<|im_end|>") >= 1
    assert "Video 1 shows" in said
    assert "is better" in said if write is judge else "better" not in said and "nswer>" not in said
    assert len(row.features) == int((row.ids == safe.control.image_pad).sum())


def test_in_front_of_misread_words_only_what_the_frames_show_is_learnt(tokenizer: Tokenizer) -> None:
    safe = SafeTokenizer(tokenizer)
    known = kinds(safe)
    differing = 0
    for number in range(6):
        plain, row = (RowSource(safe, 192, LanguageOptions(write=judge, misread=share)).row(number) for share in (0.0, 1.0))
        assert torch.equal(plain.ids, plain.targets)
        other = row.ids != row.targets
        assert known["entry"][row.targets[other]].all()
        learnt = row.targets[row.weights > 0]
        assert (known["entry"] | known["place"])[learnt].all()
        assert known["entry"][learnt].any()
        differing += int(other.sum())
    assert differing > 12


def test_the_gates_look_at_no_restless_pair() -> None:
    options = LanguageOptions()
    restless = []
    for shares in (options.pairs, options.measured().pairs):
        pairs = [draw_training_pair(number, options.world, shares) for number in range(60)]
        restless.append(sum(isinstance(s.motion_fault, RestlessMotion) for pair in pairs for s in pair.scenes.values()))
    assert restless[0] > 20
    assert restless[1] == 0


def test_the_tower_learns_and_goes_on_where_it_stopped(tokenizer: Tokenizer, tmp_path: Path) -> None:
    options = VisionOptions(batch=8, rate=3e-5, warm_up=1, save_seconds=0)  # a step a report
    model, file = small_model(tokenizer), tmp_path / "vision.pt"
    trained = picture_batch(options.seed * SERIES, 8, SECOND_WORLD)  # The first batch: losses of different ones cannot be compared

    def loss() -> float:
        with torch.no_grad():
            return float(code_loss(picture_features(model.model.visual, trained.patches).float(), trained, basis(192)))

    reports, losses = [], []
    for report in islice(train_vision(model.model.visual, options, file), 4):
        reports.append(report)
        losses.append(loss())
    assert [report["step"] for report in reports] == [1, 2, 3, 4]
    assert losses[-1] < losses[0], losses
    assert missed_gates(reports[-1], options.gates)
    other = small_model(tokenizer)
    assert next(train_vision(other.model.visual, options, file))["step"] == 5
    batch = picture_batch(1, 8, SECOND_WORLD)
    assert torch.equal(batch.codes, picture_batch(1, 8, SECOND_WORLD).codes)
    assert (batch.codes @ basis(192)).shape == (8, 4, 192)


def test_the_language_model_learns_and_goes_on_where_it_stopped(tokenizer: Tokenizer, tmp_path: Path) -> None:
    options = LanguageOptions(batch=2, length=1100, rate=3e-3, warm_up=1, save_seconds=0)
    safe, file = SafeTokenizer(tokenizer), tmp_path / "language.pt"
    reports = list(islice(train_language(small_model(tokenizer).model.language_model, safe, options, file), 3))
    assert reports[-1]["loss"] < reports[0]["loss"]
    language = small_model(tokenizer).model.language_model
    assert next(train_language(language, safe, options, file))["step"] == 4
    batch = RowSource(safe, 192, options).batch(3, 2)
    logits, tokens, weights = predictions(language, batch, torch.tensor([safe.control.image_pad]))
    assert logits.shape == (len(tokens), tokenizer.get_vocab_size())
    assert len(weights) == len(tokens)


def test_a_batch_in_parts_teaches_what_it_teaches_as_a_whole(tokenizer: Tokenizer) -> None:
    safe = SafeTokenizer(tokenizer)
    options = LanguageOptions(length=1100)
    source, pads = RowSource(safe, 192, options), torch.tensor([safe.control.image_pad])
    whole, parts = source.batch(20, 6), source.parts(20, 6)
    assert sum(part.ids.numel() for part in parts) < whole.ids.numel()
    gradients = []
    for batches in ([whole], parts):
        language = small_model(tokenizer).model.language_model
        loss = add_gradients(language, batches, pads, near_places(safe))
        gradients.append((loss, torch.cat([weight.grad.flatten() for weight in language.parameters()])))
    (loss, wanted), (loss_of_parts, found) = gradients
    assert loss_of_parts == pytest.approx(loss, rel=1e-2)
    assert torch.cosine_similarity(found, wanted, dim=0) > 0.999


def test_what_the_tower_sees_can_stand_in_for_codes(tokenizer: Tokenizer) -> None:
    safe, visual = SafeTokenizer(tokenizer), small_model(tokenizer).model.visual
    seen, coded = (RowSource(safe, 192, LanguageOptions(write=judge), tower).row(7) for tower in (visual, None))
    place = kinds(safe)["place"]  # Of a view it is written as it is read
    assert torch.equal(place[seen.ids], place[coded.ids])
    assert torch.equal(seen.ids[~place[seen.ids]], coded.ids[~place[coded.ids]])
    assert seen.features.shape == coded.features.shape
    assert not torch.allclose(seen.features, coded.features, atol=0.1)


def test_the_product_finds_a_whole_checkpoint_of_both_dialects(tokenizer: Tokenizer, tmp_path: Path) -> None:
    write_checkpoint(small_model(tokenizer), tokenizer, tmp_path)
    assert check_files(tmp_path)
    marker = read_marker(tmp_path, str(tmp_path))
    assert marker.protocols == ("paired", "concat")
    assert set(marker.forced) == {"paired", "concat"}
    assert not marker.video_items
    assert max(path.stat().st_size for path in tmp_path.glob("*.safetensors")) < 9e6
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 25e6


def weights_of(part: torch.nn.Module) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in part.parameters()])


def test_the_base_begins_with_an_earlier_judge_and_learns_only_the_tokens_that_this_did_not_have(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    write_checkpoint(earlier := small_model(tokenizer), tokenizer, tmp_path)
    now = make_tokenizer(["A green cube rests on wood."])
    begin_with(tmp_path, model := small_model(now, seed=1), now)
    assert torch.equal(weights_of(model.model.visual), weights_of(earlier.model.visual).float())
    assert torch.equal(weights_of(model.model.language_model.layers), weights_of(earlier.model.language_model.layers).float())
    new, old = now.get_vocab(), tokenizer.get_vocab()
    fresh = small_model(now, seed=1).model.language_model.embed_tokens.weight
    assert set(new) - set(old)
    assert any(new[token] != old[token] for token in set(new) & set(old))
    for token, number in new.items():
        wanted = earlier.model.language_model.embed_tokens.weight[old[token]].float() if token in old else fresh[number]
        assert torch.equal(model.model.language_model.embed_tokens.weight[number], wanted)


@pytest.mark.parametrize("found", ["nothing", "another shape", "half a file"])
def test_a_base_that_cannot_begin_with_a_checkpoint_says_so(tokenizer: Tokenizer, tmp_path: Path, found: str) -> None:
    if found != "nothing":
        write_checkpoint(small_model(tokenizer), tokenizer, tmp_path)
    if found == "half a file":
        shard = next(tmp_path.glob("*.safetensors"))
        shard.write_bytes(shard.read_bytes()[:1000])
    if found == "another shape":
        config = json.loads((tmp_path / "config.json").read_bytes())
        config["vision_config"]["hidden_size"] = 64
        (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(BadInput, match="cannot begin with"):
        begin_with(tmp_path, small_model(tokenizer), tokenizer)


def test_a_base_with_the_tower_of_another_judge_trains_its_language_model_alone(tokenizer: Tokenizer, tmp_path: Path) -> None:
    write_checkpoint(
        earlier := new_model(model_config(tokenizer.get_vocab_size(), control_ids(tokenizer)), 1), tokenizer, tmp_path / "judge"
    )
    options = BaseOptions(1 / 60, language=LanguageOptions(batch=1, length=1100), tower_from=tmp_path / "judge")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    language = new_model(model_config(tokenizer.get_vocab_size(), control_ids(tokenizer)), 2).model.language_model
    HalfState.opened(language, options.language, tmp_path / "language.pt").save(tmp_path / "language.pt")
    (tmp_path / "language.jsonl").write_text(json.dumps({"step": 5, "minutes": 60.0}) + "\n", "utf-8")
    trained = train_base(options, tmp_path)
    assert trained is not None
    assert list(trained.reports) == ["language"]
    assert not (tmp_path / "vision.pt").exists()
    model, _ = open_checkpoint(trained.model)
    assert torch.equal(weights_of(model.model.visual), weights_of(earlier.model.visual).float())
    learnt, begun, other = (
        weights_of(each.layers[0].mlp).float() for each in (model.model.language_model, language, earlier.model.language_model)
    )
    assert torch.cosine_similarity(learnt, begun, dim=0) > 0.9
    assert torch.cosine_similarity(learnt, other, dim=0) < 0.1


def test_a_tower_that_cannot_be_taken_is_refused_before_anything_is_trained(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(BadInput, match="cannot begin with"):
        train_base(BaseOptions(tower_from=tmp_path / "missing"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize("done", [{"minutes": 120.0}, {"minutes": 60.0, "passed after": 41.9}])
def test_a_part_that_is_done_is_not_trained_again(tokenizer: Tokenizer, tmp_path: Path, done: dict[str, float]) -> None:
    report = {"step": 5, **done}
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for name in ("vision", "language"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(report) + "\n", "utf-8")
        (tmp_path / f"{name}.pt").write_bytes(b"never read")
        train_part(name, pytest.fail, not_cancelled, options=BaseOptions(minutes=150).timed(), folder=tmp_path)
        assert last_report(tmp_path, name) == report


def test_the_rate_falls_at_the_end_whether_that_comes_with_the_time_or_with_the_gates() -> None:
    options = VisionOptions(minutes=100)
    for passed, begin, end in ((None, 70, 100), (35, 35, 50), (90, 70, 100)):  # Minutes
        at = {minute: Progress(1, minute * 60, None if passed is None else passed * 60) for minute in range(101)}
        rates = [rate_share(at[minute], options) for minute in range(end + 1)]
        assert rates[: begin + 1] == [pytest.approx(1)] * (begin + 1)
        assert np.diff(rates[begin:]) == pytest.approx(-1 / (end - begin))
        assert [is_over(at[minute], options) for minute in range(101)] == [minute >= end for minute in range(101)]
    assert rate_share(Progress(1, 100 * 60), VisionOptions(minutes=200)) == 1  # With more time it goes on at full rate


def test_a_half_that_passes_its_gates_ends_before_its_time(tokenizer: Tokenizer, tmp_path: Path) -> None:
    options = VisionOptions(minutes=60, batch=4, save_seconds=0, gates=VisionGates(colour=0, shape=0, state=0, place=0))
    reports = list(train_vision(small_model(tokenizer).model.visual, options, tmp_path / "vision.pt"))
    passed = [report["passed after"] for report in reports]
    assert passed == [passed[0]] * len(reports)
    assert reports[-1]["minutes"] >= passed[0] / 0.7
    assert Progress.of(json.loads(json.dumps(reports[-1]))).figures().items() <= reports[-1].items()


@pytest.mark.parametrize("name", ["vision", "language"])
def test_a_part_that_is_stopped_keeps_its_step_and_says_nothing(tokenizer: Tokenizer, tmp_path: Path, name: str) -> None:
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    options = BaseOptions(vision=VisionOptions(batch=4), language=LanguageOptions(batch=1, length=1100))
    train_part(name, pytest.fail, lambda: True, options=options, folder=tmp_path)
    assert torch.load(tmp_path / f"{name}.pt", weights_only=True)["step"] == 1
    assert not last_report(tmp_path, name)
