"""Generator of docs/protocol.md, which lists the message types."""

from __future__ import annotations

from pathlib import Path

from runtime.server.native.protocol_page import page

if __name__ == "__main__":
    (Path(__file__).resolve().parents[1] / "docs" / "protocol.md").write_text(page(), encoding="utf-8")
