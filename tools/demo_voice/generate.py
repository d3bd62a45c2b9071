"""Batched generation for evaluation: the published decode loop over left-padded prompts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

import vocabulary as v
from lm_model import MelFront, Voice
from prompts import SPEAKERS, Prompt, add_text, prefix, text_beside
from text_vocabulary import TextVocabulary


@dataclass(frozen=True)
class Ask:
    """Request of one utterance. `reference` is 24 kHz audio for the x-vector; with codes and text it is ICL."""

    text: str
    speaker: str = ""
    instruct: str = ""
    reference: np.ndarray | None = None
    reference_text: str = ""
    reference_codes: np.ndarray | None = None
    streaming: bool = False  # True for the streaming layout.


@dataclass(frozen=True)
class Sampling:
    temperature: float = 0.9
    subtalker: float = 0.9  # Temperature of the code predictor.
    top_k: int = 50
    penalty: float = 1.05
    seed: int = 0


def draw(logits: Tensor, temperature: float, sampling: Sampling, generator: torch.Generator) -> Tensor:
    """Sample one id per row from float logits [B, V]."""
    logits = logits / temperature
    edge = logits.topk(min(sampling.top_k, logits.shape[-1])).values[:, -1:]
    noise = torch.empty_like(logits).exponential_(generator=generator)
    return (logits.masked_fill(logits < edge, -torch.inf).softmax(-1) / noise).argmax(-1)


def embed(
    voice: Voice, t: TextVocabulary, ask: Ask, device: torch.device, tokenizer: Tokenizer, mel: MelFront
) -> tuple[Tensor, list[int]]:
    """Return (prefill embeddings [T, hidden], text ids for the following frames)."""
    instruct = tokenizer.encode(ask.instruct).ids if ask.instruct else None
    speaker = -1 if ask.reference is not None else SPEAKERS[ask.speaker] if ask.speaker else None
    prompt: Prompt = prefix(t, instruct, True, speaker)
    body = tokenizer.encode(ask.text).ids
    if ask.reference_codes is not None:
        body = tokenizer.encode(ask.reference_text).ids + body
    add_text(t, prompt, body, ask.streaming)
    text, codec = (torch.tensor(x, device=device) for x in (prompt.text, prompt.codec))
    x = voice.text(text) + voice.talker.model.codec_embedding(codec.clamp(min=0)) * (codec >= 0)[:, None]
    if prompt.slot >= 0:
        audio = torch.from_numpy(ask.reference)[None].to(device)
        x[prompt.slot] = x[prompt.slot] + voice.speaker_encoder(mel(audio))[0]
    if ask.reference_codes is None:
        return x, prompt.beside
    count = len(ask.reference_codes)
    beside = torch.tensor(text_beside(t, prompt, count), device=device)
    frames = voice.frames(torch.from_numpy(ask.reference_codes).to(device)) + voice.text(beside)
    return torch.cat((x, frames)), prompt.beside[count:]


@torch.no_grad()
def generate(
    voice: Voice, t: TextVocabulary, asks: list[Ask], sampling: Sampling, limit: int = 170
) -> list[tuple[np.ndarray, bool]]:
    """Return (codes [frames, K], True if it ended with EOS) of every request."""
    device = next(voice.parameters()).device
    tokenizer, mel = t.tokenizer(), MelFront().to(device)
    generator = torch.Generator(device).manual_seed(sampling.seed)
    parts, trailing = zip(*(embed(voice, t, a, device, tokenizer, mel) for a in asks), strict=True)
    longest, batch = max(len(p) for p in parts), len(parts)
    beside = torch.full((batch, limit), t.pad, device=device)
    for i, ids in enumerate(trailing):
        beside[i, : len(ids)] = torch.tensor(ids[:limit], device=device)
    x = torch.zeros(batch, longest, parts[0].shape[-1], device=device)
    pad = torch.tensor([longest - len(p) for p in parts], device=device)
    for i, part in enumerate(parts):
        x[i, longest - len(part) :] = part
    at = torch.arange(longest, device=device)
    mask = (at[None, None] <= at[None, :, None]) & (
        (at[None, None] >= pad[:, None, None]) | (at[None, None] == at[None, :, None])
    )
    talker, predictor = voice.talker, voice.talker.code_predictor
    cache: list[list] = [[] for _ in talker.model.layers]
    hidden = talker.model.run(x, cache, 0, mask[:, None])[:, -1]
    seen = torch.zeros(batch, v.CODEC_VOCAB, dtype=torch.bool, device=device)
    allowed = torch.zeros(v.CODEC_VOCAB, dtype=torch.bool, device=device)
    allowed[: v.CODES] = True
    allowed[v.CODEC_EOS] = True
    ended = torch.zeros(batch, dtype=torch.bool, device=device)
    frames, lengths = [], torch.full((batch,), limit, device=device)
    for step in range(limit):
        logits = talker.codec_head(hidden).float()
        logits = torch.where(
            seen, torch.where(logits > 0, logits / sampling.penalty, logits * sampling.penalty), logits
        )
        logits = logits.masked_fill(~allowed, -torch.inf)
        if step < 2:
            logits[:, v.CODEC_EOS] = -torch.inf
        code = draw(logits, sampling.temperature, sampling, generator)
        seen.scatter_(1, code[:, None], True)
        now = (code == v.CODEC_EOS) & ~ended
        lengths = torch.where(now, step, lengths)
        ended |= now
        if bool(ended.all()):
            break
        frame = [code.clamp(max=v.CODES - 1)]
        inner: list[list] = [[] for _ in predictor.model.layers]
        y = predictor.model.run(torch.stack((hidden, talker.model.codec_embedding(frame[0])), 1), inner)[:, -1]
        for k, head in enumerate(predictor.lm_head):
            frame.append(draw(head(y).float(), sampling.subtalker, sampling, generator))
            if k + 2 < voice.books:
                y = predictor.model.run(predictor.model.codec_embedding[k](frame[-1])[:, None], inner, k + 2)[:, -1]
        frames.append(torch.stack(frame, -1))
        keys = torch.arange(longest + step + 1, device=device)
        x = (voice.frames(frames[-1]) + voice.text(beside[:, step]))[:, None]
        hidden = talker.model.run(x, cache, longest + step, (keys[None] >= pad[:, None])[:, None, None])[:, -1]
    codes = torch.stack(frames, 1).cpu().numpy()
    return [(codes[i, : int(n)], bool(e)) for i, (n, e) in enumerate(zip(lengths, ended, strict=True))]
