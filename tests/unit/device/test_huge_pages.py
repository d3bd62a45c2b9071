"""Tests for huge pages: memory regions use them, and their content does not change."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import pytest
import torch

from runtime.device import huge_pages

MIB = 2**20
HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ")


def of_region(address: int, kind: str) -> int:
    """Return a field of the memory region that contains an address, in bytes.

    Args:
        address: Address in the region.
        kind: Name of the field, for example Rss or AnonHugePages.
    """
    inside = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        if (head := HEAD.match(line)) is not None:
            inside = int(head[1], 16) <= address < int(head[2], 16)
        elif inside and line.startswith(f"{kind}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("an address lies in no region")


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux says how its memory lies")
def test_full_regions_become_huge_pages_with_unchanged_content() -> None:
    memory = mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[: 16 * MIB] = bytes(range(256)) * (16 * MIB // 256)
    address = torch.frombuffer(memory, dtype=torch.uint8).data_ptr()
    inside = -(-address // huge_pages.HUGE_PAGE_BYTES) * huge_pages.HUGE_PAGE_BYTES
    written = (inside, inside + 14 * MIB)
    assert any(
        start <= written[0] and written[1] <= stop < address + 32 * MIB
        for start, stop in huge_pages.collapsible_ranges()
    )
    held, gathered = of_region(address, "Rss"), huge_pages.move_to_huge_pages()
    assert memory[: 16 * MIB] == bytes(range(256)) * (16 * MIB // 256)
    # Pages may be added only at the ends of the region that was written.
    assert of_region(address, "Rss") < held + 2 * huge_pages.HUGE_PAGE_BYTES
    if not (huge := of_region(address, "AnonHugePages")):
        pytest.skip("this system gathers nothing when asked, or has no room for it")
    assert huge <= gathered


def test_huge_pages_are_not_used_without_procfs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huge_pages, "PROCESS", tmp_path)
    assert huge_pages.move_to_huge_pages() == 0


def test_only_full_private_regions_are_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files, stacks and mostly empty regions are not selected.

    At the ends of a region, incomplete huge pages are not selected either.
    """
    pages, there = huge_pages.HUGE_PAGE_BYTES // mmap.PAGESIZE, (1 << 63).to_bytes(8, "little")
    lines = [
        "00200000-00900000 rw-p 00000000 00:00 0 ",  # The second huge page of this region is not full.
        "00a00000-00c00000 r--p 00000000 00:00 0 ",
        "00c00000-00e00000 rw-p 00000000 fe:00 77  /a file",
        "00e00000-01000000 rw-p 00000000 00:00 0                          [stack]",
        "01100000-01700000 rw-p 00000000 00:00 0                          [heap]",
    ]
    (tmp_path / "maps").write_text("\n".join(lines))
    holes = there * (pages // 2) + bytes(8) * (pages - pages // 2)
    (tmp_path / "pagemap").write_bytes(there * pages * 2 + holes + there * pages * 20)
    monkeypatch.setattr(huge_pages, "PROCESS", tmp_path)
    assert list(huge_pages.collapsible_ranges()) == [(0x200000, 0x400000), (0x600000, 0x800000), (0x1200000, 0x1600000)]
