"""A recording's digest is SHA-256, also where the browser has none to give. The module alone."""

from __future__ import annotations

import hashlib

import pytest

from tests.js.conftest import Node

SUMS = """async ({ seed, size }) => {
  const { digestOf, sha256 } = await import('/js/digest.js');
  const bytes = Uint8Array.from({ length: size }, (_, k) => (seed + k * k) % 251);
  return [Buffer.from(sha256(bytes)).toString('hex'), await digestOf(new Blob([bytes]))];
}"""


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 119, 120, 127, 128, 10_007])  # the edges of blocks
def test_a_digest_is_sha_256(node: Node, size: int) -> None:
    wanted = hashlib.sha256(bytes((3 + k * k) % 251 for k in range(size))).hexdigest()
    assert node.evaluate(SUMS, {"seed": 3, "size": size}) == [wanted, wanted]
