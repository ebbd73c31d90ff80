"""Videos of generators from a folder or a CSV: what cannot be used is named in a sentence, and the rest is ranked."""

from __future__ import annotations

import random
from pathlib import Path
from unicodedata import normalize

import pytest

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.video_table import read_videos

HEADER = "generator,prompt,video\n"
PROMPTS = "video,prompt\nball.mp4,A ball rolls.\ncat,A cat sleeps.\n"


def write_folder(folder: Path, *videos: str, prompts: str = PROMPTS) -> Path:
    for video in videos:
        path = folder / video
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not opened here")
    (folder / "prompts.csv").write_text(prompts, "utf-8")
    return folder


def write_csv(folder: Path, *rows: str, header: str = "generator,prompt,video") -> Path:
    for row in rows:
        name = row.rsplit(",", 1)[-1]
        if name.endswith(".mp4") and "://" not in name and "gone" not in name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(b"not opened here")
    table = folder / "videos.csv"
    table.write_text("\n".join((header, *rows)) + "\n", "utf-8")
    return table


def test_a_folder_of_generators_is_read(tmp_path: Path) -> None:
    videos = ("b/ball.mp4", "b/cat.webm", "a/ball.mp4", "a/cat.mp4")
    table = read_videos(write_folder(tmp_path, *videos))
    assert table.generators == ("a", "b")
    assert table.prompts == {"ball": "A ball rolls.", "cat": "A cat sleeps."}
    assert table.videos["b", "cat"] == str(tmp_path / "b" / "cat.webm")
    assert table.left_out == ()


def test_what_a_folder_lacks_is_named_and_the_rest_is_ranked(tmp_path: Path) -> None:
    prompts = PROMPTS + "dog,A dog runs.\ncat,Another cat.\n,Nothing.\nowl,A white owl, at night.\n"
    videos = ("a/ball.mp4", "a/cat.mp4", "a/cat.webm", "a/owl.mp4", "b/ball.mp4", "notes/a.txt")
    table = read_videos(write_folder(tmp_path, *videos, prompts=prompts))
    assert list(table.videos) == [("a", "ball"), ("a", "cat"), ("b", "ball")]
    assert set(table.left_out) == {
        "The folder notes holds no video, so it is no generator.",
        "Row 4 of prompts.csv names cat again: it is left out.",
        "Row 5 of prompts.csv has an empty field: it is left out.",
        "Row 6 of prompts.csv is left out: The row has 3 fields and the header 2: put a text that holds , in quotation marks.",
        "a/cat.webm is a second video of a for cat: it is left out.",
        "b has no video for cat.",
        "prompts.csv has no prompt for owl: those videos are left out.",
        "No generator has a video for dog.",
    }


def test_a_csv_is_read_and_its_rows_may_stand_in_any_order(tmp_path: Path) -> None:
    rows = [f"{name},Prompt {n}.,{name}{n}.mp4" for name in "abc" for n in range(4)]
    table = read_videos(write_csv(tmp_path, *rows))
    random.Random(0).shuffle(rows)
    assert read_videos(write_csv(tmp_path, *rows)) == table
    assert table.videos["c", "Prompt 2."] == str(tmp_path / "c2.mp4")


def test_broken_rows_are_named_and_the_rest_is_ranked(tmp_path: Path) -> None:
    rows = ("a,One.,a1.mp4", "b,One.,b1.mp4", "b,One.,b2.mp4", "a,Two.,gone.mp4", "b,Two.,https://example.org/x.mp4", ",Two.,c.mp4",
            "a,A ball, then a cat.,a3.mp4", "a,nan,a4.mp4", f"b,Three.,{'gone' * 100}.mp4")  # fmt: skip
    table = read_videos(write_csv(tmp_path, *rows))
    assert set(table.prompts) == {"One.", "Two.", "Three."}
    assert table.missing == {
        ("a", "Three."): "",
        ("a", "Two."): "gone.mp4",
        ("b", "Three."): "gone" * 100 + ".mp4",
        ("b", "Two."): "x.mp4",
    }
    assert set(table.left_out) == {
        "Row 3 is a second video of b for One.: it is left out.",
        "Row 4: There is no file gone.mp4.",
        "Row 5: https://example.org/x.mp4 is a web address: download it, and name the file.",
        "Row 6: The field generator is empty.",
        "Row 7: The row has 4 fields and the header 3: put a text that holds , in quotation marks.",
        "Row 8: The field prompt is empty.",
        f"Row 9: {'gone' * 15}…{('gone' * 100 + '.mp4')[-59:]} cannot be a file: File name too long.",
        "No generator has a video for Three., Two..",
    }


def test_videos_of_a_folder_have_equal_names_on_every_system(tmp_path: Path) -> None:
    nfc, nfd = (normalize(form, "café") for form in ("NFC", "NFD"))
    prompts = f'video, prompt\n{nfc}.mp4, "A café, at night."\nclips\\ball.mp4, A ball.\n'
    videos = (f"a/{nfc}.mp4", f"b/{nfd}.mp4", "a/ball.mp4", "b/ball.mp4")
    found = read_videos(write_folder(tmp_path, *videos, prompts=prompts))
    assert (found.left_out, found.missing) == ((), {})
    assert found.prompts == {nfc: "A café, at night.", "ball": "A ball."}
    assert found.videos["b", nfc] == str(tmp_path / "b" / f"{nfd}.mp4")


def test_a_name_that_is_not_utf_8_is_left_out(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, "a/ball.mp4", "b/ball.mp4", "gen\udce9/ball.mp4")
    table = read_videos(folder)
    assert table.generators == ("a", "b")
    told = "gen?/ball.mp4 has a name that is not UTF-8: it is left out. Rename it."
    assert table.left_out[0] == told


NO_PAIR = {
    "": "videos.csv is empty",
    "model,prompt,video\na,One.,a1.mp4": "has no column generator. It needs generator, prompt, video",
    f"{HEADER}a,One.,gone.mp4": "there is none. Row 1: There is no file gone.mp4",
    f"{HEADER}a,One.,a1.mp4\na,Two.,a2.mp4": "at least two generators, and there is only a",
    f"{HEADER}a,One.,a1.mp4\nb,Two.,b1.mp4": "No two generators have a video for the same prompt",
}


@pytest.mark.parametrize(("table", "said"), NO_PAIR.items())
def test_a_csv_without_a_pair_is_refused(table: str, said: str, tmp_path: Path) -> None:
    header, *rows = table.split("\n")
    with pytest.raises(BadInput) as error:
        read_videos(write_csv(tmp_path, *rows, header=header))
    assert said in str(error.value)
    assert str(error.value).endswith(".")


def test_a_folder_without_prompts_and_a_path_that_is_not_there_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "videos", "a/ball.mp4", "b/ball.mp4")
    (folder / "prompts.csv").unlink()
    for path, sentence in (
        (folder, "write one with the columns video and prompt"),
        (tmp_path / "no", "There is no folder or CSV"),
    ):
        with pytest.raises(BadInput, match=sentence):
            read_videos(path)
    (tmp_path / "table.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(BadInput, match=r"table\.csv has no column generator"):
        read_videos(tmp_path / "table.csv")
