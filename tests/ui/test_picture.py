"""The picture of a run: its laws for all shapes, texts and outcomes, and how long it stays."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageDraw

from tests.support.waiting import until
from tests.ui.conftest import ROOT
from tests.ui.support.api import files
from tests.ui.support.handmade_runs import WHOLE, both_orders, jpeg, three_turns
from tests.ui.support.inside import ANNAS, Site
from vrthinker_core.traces import load
from vrthinker_core.types import Preference, Settings, Verdict
from vrthinker_core.types.events import Finished, StopReason, Trace
from vrthinker_core.ui import picture

HD, TALL, WIDE, SQUARE, STRIP = (1280, 720), (720, 1280), (2520, 1080), (512, 512), (9000, 5)
RED, BLUE = (250, 10, 10), (10, 10, 250)
PROMPTS = {
    "long": "A golden retriever runs through shallow water at sunset, splashing drops. " * 9,
    "unbroken": "Donaudampfschifffahrtsgesellschaft" * 20,
    "arabic": "كلب ذهبي يركض في المياه الضحلة 35mm lens عند غروب الشمس، ويتناثر الرذاذ. " * 3,
    "hebrew": "כלב זהוב רץ במים רדודים (slow motion) בשעת השקיעה.",
    "cjk": "一只金毛犬在日落时分奔跑过浅水，ゴールデンレトリバーが走る。황금빛 리트리버. " * 4,
    "emoji": "A 🐶 chases a 🚀 with an 👩‍🚀 on board 🇩🇪 – très vite! Кот. " * 4,
    "unknown": "Linear B \U00010000 and a dog",
    "marks": "a" + "\u0301" * 200 + "\0\u202ereversed\ud800",
    "empty": "",
}
TIE = replace(WHOLE, OA=Preference.TIE)
FLIP = Verdict(TA=Preference.FIRST, OA=Preference.FIRST)
ENDS = {
    "none": None,
    "failed": Finished(StopReason.FAILED, error="Boom."),
    "outside": Finished(StopReason.ANSWERED, outside_scope=True),
    "scripted": Finished(StopReason.ANSWERED, WHOLE, scripted=True),
    "tie": Finished(StopReason.ANSWERED, TIE),
}


def shaped(trace: Trace, *sizes: tuple[int, int]) -> Trace:
    """A run of a red and a blue video of these sizes, squashed for its judge."""
    pictures = [jpeg(*colour, (224, 224)) for colour in (RED, BLUE)]
    clips = trace.started.clips
    both = zip(clips, sizes, strict=True)
    first, second = (clip and replace(clip, width=w, height=h) for clip, (w, h) in both)
    turns = [
        replace(turn, frames=tuple(replace(f, jpeg=pictures[f.ref.side - 1]) for f in turn.frames))
        for turn in trace.turns
    ]
    return replace(trace, started=replace(trace.started, clips=(first, second)), turns=(*turns,))


def prompted(prompt: str, *sizes: tuple[int, int]) -> Trace:
    return shaped(three_turns(prompt=prompt), *(sizes or (HD, HD)))


def box_of(image: Image.Image, colour: tuple[int, int, int]) -> tuple[int, int, int, int]:
    """Where the picture has that colour, about."""
    away = ImageChops.difference(image, Image.new("RGB", image.size, colour)).convert("L")
    found = away.point([255] * 16 + [0] * 240).getbbox()
    assert found
    return found


def runs() -> dict[str, Trace]:
    found = {name: prompted(text) for name, text in PROMPTS.items()}
    found |= {f"{name}, tall": prompted(PROMPTS[name], TALL, TALL) for name in ("long", "cjk")}
    for size in (HD, TALL, WIDE, SQUARE, STRIP):
        found |= {f"{size}, {other}": prompted("A dog.", size, other) for other in (size, TALL)}
    found |= {name: replace(prompted("A dog."), finished=end) for name, end in ENDS.items()}
    found["flip"] = shaped(both_orders(FLIP), HD, HD)
    found["no turns"] = replace(found["failed"], turns=())
    odd = three_turns(prompt="A dog.", judge="模型 \U00010000 " * 60)
    return {**found, "odd judge": shaped(odd, TALL, TALL)}


RUNS = runs()


@pytest.mark.parametrize("name", RUNS)
def test_texts_stay_inside_and_never_overlap(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    boxes, write = list[Any](), ImageDraw.ImageDraw.text

    def watched(pen: Any, place: Any, text: str, fill: Any, font: Any, anchor: str) -> None:
        boxes.extend([pen.textbbox(place, text, font, anchor)] * bool(text.strip()))
        write(pen, place, text, fill, font, anchor)

    with monkeypatch.context() as patch:
        patch.setattr(picture, "EMOJI", "missing.ttf")  # a picture font writes on other sheets
        patch.setattr(ImageDraw.ImageDraw, "text", watched)
        picture.draw(RUNS[name])
    image = picture.draw(RUNS[name], dark=True)
    assert image.size == (1200, 630)
    image.paste(Image.new("RGB", (1200 - 2 * 44, 630 - 2 * 36), image.getpixel((0, 0))), (44, 36))
    assert len(image.getcolors() or ()) == 1, "the margin is bare"
    for number, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[:number]:
            beside = left >= other[2] - 1 or right <= other[0] + 1
            assert beside or top >= other[3] - 3 or bottom <= other[1] + 3


@pytest.mark.parametrize("fit", ["squash", "letterbox"])
@pytest.mark.parametrize("sizes", [(HD, HD), (TALL, TALL), (WIDE, TALL), (SQUARE, HD)], ids=str)
def test_each_frame_has_the_shape_of_its_video(fit: Any, sizes: Any) -> None:
    trace = prompted("", *sizes)
    if fit == "letterbox":
        trace = replace(trace, started=replace(trace.started, settings=Settings(fit=fit)))
    image = picture.draw(trace)
    for colour, (width, height) in zip((RED, BLUE), sizes, strict=True):
        left, top, right, bottom = box_of(image, colour)
        assert (right - left) / (bottom - top) == pytest.approx(width / height, rel=0.03)


def test_a_prompt_that_no_font_writes_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    blank, drawn = picture.draw(RUNS["empty"]), picture.draw(prompted("A dog."))
    assert drawn != blank
    assert picture.draw(RUNS["unknown"]) == blank
    for name in ("BOLD", "PLAIN"):  # Pillow's own font is left
        monkeypatch.setattr(picture, name, ())
    monkeypatch.setattr(picture, "EMOJI", "missing.ttf")
    assert picture.draw(RUNS["cjk"]) == picture.draw(RUNS["emoji"]) == picture.draw(RUNS["empty"])
    assert picture.draw(prompted("A dog.")) != picture.draw(RUNS["empty"])


def test_frames_come_sharper_from_the_very_videos() -> None:
    folder = ROOT / "assets/examples/real-1-a-film-and-its-copy"
    trace, first, second = load(folder / "trace.json"), folder / "first.mp4", folder / "second.mp4"
    small = picture.draw(trace)
    assert picture.draw(trace, (first, second)) != small
    assert picture.draw(trace, (second, first)) == small


def test_a_picture_goes_with_its_run(tmp_path: Path) -> None:
    site = Site(tmp_path)
    shown = site.run()
    until(lambda: shown.run.join(0))
    address = f"/runs/{shown.name}/picture.png"
    images = [site.client(ANNAS).get(f"{address}{theme}") for theme in ("", "?theme=dark")]
    light, dark = (Image.open(io.BytesIO(each.content)).getpixel((0, 0)) for each in images)
    assert light != dark
    assert {each.headers["content-type"] for each in images} == {"image/png"}
    assert any("picture" in path.name for path in files(tmp_path))
    site.sessions.end("page")
    until(lambda: not any("picture" in path.name for path in files(tmp_path)))
    assert site.client(ANNAS).get(address).status_code == 404


def test_a_links_report_stands_in_any_page_without_an_origin_and_a_runs_in_none(
    examples: Path, tmp_path: Path
) -> None:
    site = Site(tmp_path, examples=examples)
    shown, client = site.run(), site.client(ANNAS)
    until(lambda: shown.run.join(0))
    report, own = client.get("/reports/a-block.html"), f"/runs/{shown.name}/report.html"
    assert "content-disposition" not in report.headers
    assert report.text.count("data:video/mp4;base64,") == 2
    assert "default-src 'none'" in report.text
    assert client.get(own).headers["content-disposition"].startswith("attachment")
    assert "data:video" not in client.get(own).text, "no browser plays these"
    for name in (shown.name, shown.kept, "0" * 24, "..%2fa-block"):
        assert client.get(f"/reports/{name}.html").status_code == 404
