"""Tests for decoding audio files in the page."""

from __future__ import annotations

import pytest

from tests.js.conftest import Node


@pytest.mark.parametrize(
    ("channels", "mono"),
    [
        ([[0.5, -0.25]], [0.5, -0.25]),
        ([[0.5, 0.25], [0.25, 0.5]], [0.375, 0.375]),
        ([[0.5, -0.25], [-0.5, 0.25]], [0.5, -0.25]),  # The right channel is the inverted left channel.
        ([[0.25, 0.25], [-0.25, -0.25], [0.5, 1.0], [-0.5, -1.0]], [0.5, 1.0]),
        ([[0.5, 0.25], [0.0, 0.0]], [0.25, 0.125]),
        ([[0.0, 0.0], [0.0, 0.0]], [0.0, 0.0]),
    ],
)
def test_audio_channels_are_averaged_unless_they_cancel_each_other_out(
    node: Node, channels: list[list[float]], mono: list[float]
) -> None:
    body = """async (channels) => {
      const { mixed } = await import('/js/clone/reference.js');
      const getChannelData = (channel) => Float32Array.from(channels[channel]);
      return [...mixed({ numberOfChannels: channels.length, length: channels[0].length, getChannelData })];
    }"""
    assert node.evaluate(body, channels) == mono
