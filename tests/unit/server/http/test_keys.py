"""Tests for the API key file and for tickets."""

from __future__ import annotations

from pathlib import Path

from runtime.server.http.keys import KeyRing, SharedTicketStore, digest
from runtime.settings import ServerSettings


def test_key_file_changes_apply_and_a_missing_file_denies_access(tmp_path: Path) -> None:
    now, file = 0.0, tmp_path / "keys.txt"
    keys = KeyRing(ServerSettings(api_keys="own", api_keys_file=str(file)), lambda: now)
    assert keys.digests() == [digest("own")]
    file.write_text("first  # of Ann\n\n# nothing\nsecond\n")
    assert keys.digests() == [digest("own")], "a file is not looked at for every request"
    now = 0.5
    assert keys.digests() == [digest("own"), digest("first"), digest("second")]
    file.write_text("second\n")
    now = 1.0
    assert keys.digests() == [digest("own"), digest("second")]
    file.unlink()
    now = 1.5
    assert keys.digests() == [digest("own")]
    only = KeyRing(ServerSettings(api_keys_file=str(file)))
    assert only.is_needed
    assert only.digests() == []


def test_ticket_of_one_replica_is_valid_once_at_another_replica() -> None:
    now = 1000.0
    settings = ServerSettings(api_keys="a key")
    here, there = (SharedTicketStore(60, KeyRing(settings), lambda: now) for _ in range(2))
    others = SharedTicketStore(60, KeyRing(ServerSettings(api_keys="another key")), lambda: now)
    ticket, late = here.issue(), here.issue()
    assert not others.redeem(ticket)
    assert there.redeem(ticket)
    assert not there.redeem(ticket)
    end, _, rest = late.partition("~")
    assert not there.redeem(f"{float(end) + 30:.3f}~{rest}"), "its end is signed"
    for word in ("nonsense", f"{end}~é", f"{end}~\udcff", "1~", "~~", "nan~x"):
        assert not there.redeem(word)
    now = 1060.0
    assert not there.redeem(late)
