"""Tests for audiobooks in M4B and MP3: chapters, cover, tags, duration and memory.

ffprobe reads the exported files.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest

from tests.support.keeping import pcm_of, save


def picture(codec: str, kind: str) -> str:
    """Return a data URL of a small picture."""
    file = io.BytesIO()
    with av.open(file, "w", format="image2pipe") as container:
        stream = container.add_stream(codec, rate=1)
        stream.width, stream.height, stream.pix_fmt = 60, 80, "yuvj420p" if codec == "mjpeg" else "rgb24"
        frame = av.VideoFrame.from_ndarray(np.full((80, 60, 3), 200, np.uint8), format="rgb24")
        container.mux(stream.encode(frame.reformat(format=stream.pix_fmt)))
        container.mux(stream.encode(None))
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def probed(data: bytes, path: Path) -> dict[str, Any]:
    """Return the output of ffprobe for an audio file."""
    if shutil.which("ffprobe") is None:
        pytest.skip("ffprobe was not found")
    path.write_bytes(data)
    command = ["ffprobe", "-v", "error", "-show_chapters", "-show_format", "-show_streams", "-of", "json", str(path)]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


@pytest.mark.parametrize(("wanted", "codec", "late_s"), [("m4b", "aac", 0.05), ("mp3", "mp3", 0.08)])
@pytest.mark.parametrize(("image", "kind"), [("mjpeg", "jpeg"), ("png", "png")])
def test_a_book_has_chapters_a_cover_and_tags(
    client: httpx.Client, tmp_path: Path, wanted: str, codec: str, late_s: float, image: str, kind: str
) -> None:
    clips = [
        {"take": save(client, pcm_of(2.0, 1))["id"]},
        {"silence_s": 0.5},
        {"take": save(client, pcm_of(1.5, 2))["id"]},
    ]
    answer = client.post(
        "/studio/exports",
        json={
            "clips": clips,
            "format": wanted,
            "name": "The Voyage",
            "author": "Ann Author",
            "cover": picture(image, kind),
            "chapters": [{"title": "One", "first_clip": 0}, {"title": "Zwei – ä", "first_clip": 2}],
        },
    )
    assert answer.status_code == 200, answer.text
    book = probed(answer.content, tmp_path / f"book.{wanted}")
    assert abs(float(book["format"]["duration"]) - 4.0) < late_s
    found = [(each["tags"]["title"], float(each["start_time"]), float(each["end_time"])) for each in book["chapters"]]
    assert found == [("One", 0.0, 2.5), ("Zwei – ä", 2.5, 4.0)]
    (sound,) = [each for each in book["streams"] if each["codec_type"] == "audio"]
    (cover,) = [each for each in book["streams"] if each["codec_type"] == "video"]
    assert sound["codec_name"] == codec
    assert (cover["codec_name"], cover["width"], cover["height"]) == (image, 60, 80)
    assert cover["disposition"]["attached_pic"] == 1
    tags = book["format"]["tags"]
    assert (tags["title"], tags["artist"], tags["album"]) == ("The Voyage", "Ann Author", "The Voyage")
    assert tags["genre"] == "Audiobook"
    assert tags["comment"].startswith("AI-generated speech")
    assert "sha256: " in tags["comment"] or tags["sha256"]
    if wanted == "m4b":
        assert tags["major_brand"] == "M4B "
        assert answer.headers["content-type"] == "audio/mp4"


def test_invalid_cover_is_refused(client: httpx.Client) -> None:
    clips = [{"take": save(client, pcm_of(0.5, 1))["id"]}]
    page = "data:text/html;base64," + base64.b64encode(b"<p>").decode()
    false = "data:image/png;base64," + base64.b64encode(b"<svg/>").decode()
    large = "data:image/jpeg;base64," + base64.b64encode(b"\xff\xd8\xff" + bytes(2**20)).decode()
    for cover in (page, false, large, "data:image/png;base64,%%%"):
        answer = client.post("/studio/exports", json={"clips": clips, "format": "m4b", "cover": cover})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "cover")


@pytest.mark.parametrize("wanted", ["mp3", "m4b"])
def test_chapter_files_have_their_number_and_the_album(client: httpx.Client, tmp_path: Path, wanted: str) -> None:
    clips = [{"take": save(client, pcm_of(0.5, seed))["id"]} for seed in (1, 2)]
    chapters = [{"title": "One", "first_clip": 0}, {"title": "Two", "first_clip": 1}]
    body = {"clips": clips, "format": wanted, "shape": "chapters", "chapters": chapters, "name": "Show"}
    for author in ("", "Ann Author"):
        answer = client.post("/studio/exports", json=body | {"author": author})
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            second = probed(archive.read(archive.namelist()[1]), tmp_path / f"two.{wanted}")
        tags = second["format"]["tags"]
        assert (tags["title"], tags["album"], tags["track"]) == ("Two", "Show", "2/2")
        assert tags.get("artist", "") == author


def test_chapter_files_contain_only_their_chapter(client: httpx.Client, tmp_path: Path) -> None:
    clips = [{"take": save(client, pcm_of(1.0, seed))["id"]} for seed in (1, 2)]
    chapters = [{"title": "One", "first_clip": 0}, {"title": "Two", "first_clip": 1}]
    body = {"clips": clips, "format": "m4b", "shape": "chapters", "chapters": chapters, "name": "Book"}
    answer = client.post("/studio/exports", json=body)
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        names = archive.namelist()
        second = probed(archive.read(names[1]), tmp_path / "two.m4b")
    assert names == ["chapters/01 One.m4b", "chapters/02 Two.m4b"]
    assert [each["tags"]["title"] for each in second["chapters"]] == ["Two"]
    assert float(second["chapters"][0]["start_time"]) == 0
