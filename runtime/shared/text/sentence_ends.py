"""Detection of sentence ends from punctuation and the words before the punctuation."""

from __future__ import annotations

import re

import regex

WIDE_ENDS = "。！？｡"  # Marks that end a sentence without a space after them.

# Pattern of the end of a sentence, paragraph or clause. A match contains no letter or digit. A straight quote belongs
# to the text before it unless a letter follows. In French, closing quotes have a space before them.
MARK = re.compile(
    r"""
    (?P<end> [.!?…。！？｡]+ (?: [)\]}）］】」』》〉”’»›] | ["'“‘«‹*_`] (?![^\W_]) | [ \u00a0\u202f]»(?![^\W_]) )* )
    | (?P<paragraph> \n\s*\n )
    | (?P<clause> [，；：、][）］】」』》〉”’]* | [,;:](?=\s) | —+ | (?<=\s)[-–]{1,3}(?=\s) )
    """,
    re.VERBOSE,
)
PARAGRAPH_END = re.compile(r"[^\W_][^\n]*\n[^\S\n]*\n\s*\Z")
TAIL_CHARS = 64  # Number of characters at the end of a text that are searched for the end of a sentence.
SPOKEN = re.compile(r"[^\W_]")  # Pattern of a letter or digit, as in str.isalnum.

# Abbreviations before a name or a number. Their full stop does not end a sentence.
TITLE = re.compile(
    r"""
    mr | mrs | ms | mx | messrs | dr | prof | st | mt | rev | hon | gen | col | capt | lt | sgt | gov | sen | rep | pres
    | fr | hr | dott | ing | sig | sra | srta | vs | cf | ca | bzw | vgl | ggf | evtl | approx
    | ул | им | проф | рис | стр | гр | тов
    """,
    re.VERBOSE,
)
NUMBERED = re.compile(
    r"""
    no | nos | nr | nro | núm | num | figs? | art | vol | ch | sec | eq | ed | pp | av
    | jan | feb | mar | apr | aug | sept? | oct | nov | dec
    """,
    re.VERBOSE,
)
WORD_BEFORE = re.compile(r"\S*\Z")
MAX_WORD_CHARS = 32  # Maximum number of characters before a full stop that are searched for a word.
# Particles and verbs of speaking after a quotation. They show that the sentence continues.
QUOTATIVE = regex.compile(
    r"""
    と(?!ころ|にかく|ても|きどき|りあえず|うとう|もかく|もあれ|もだち|つぜん)
    | って | っつ | を | など | なんて | の(?=\p{Han})
    | \p{Han}{1,4}(?:[说问] | [說問答喊嚷吼笑叹嘆叫想](?=道|[：:，,。]) | 心想) | [说說問问][着著完道罢]
    | 이?라(?:고|며|면서|는|던) | 하(?:고|며)
    """,
    regex.VERBOSE,
)
QUOTATIVE_STARTS = regex.compile(r"[とっをなの이라하\p{Han}]")
QUOTATIVE_CHARS = 8  # Maximum number of characters of a match of QUOTATIVE.
CLOSING_QUOTES = "」』》〉”’»›\"'"
OPENERS = "\"'“„‚‘«‹»›([{¿¡*_`"


def may_end(text: str) -> bool:
    """True if a sentence or paragraph may end after this text.

    The function is called when the client has paused. An abbreviation or an initial does not end a sentence. A number
    does, because decimals would have arrived without a pause.
    """
    if PARAGRAPH_END.search(text):
        return True
    text = text.rstrip()[-TAIL_CHARS:]
    mark = next((mark for mark in MARK.finditer(text) if mark["end"] and mark.end() == len(text)), None)
    if mark is None or not SPOKEN.search(text, 0, mark.start()):
        return False
    return mark["end"][0] != "." or text[: mark.start()][-1:].isdecimal() or not is_short(text, mark.start(), "A")


def ends_sentence(
    text: str, mark: re.Match[str], follows: int, *, known: int | None = None, is_whole: bool = True
) -> bool | None:
    """True if a sentence ends with this punctuation mark, or False if it continues.

    Args:
        text: Text received so far.
        mark: Match of `MARK` in the text.
        follows: Index of the next letter or digit.
        known: Number of characters that may be used, or None for all characters.
        is_whole: True if no more text follows.

    Returns:
        None if more text is needed to decide.
    """
    ends, gap, following = mark["end"], text[mark.end() : follows], text[follows]
    if any(quote in ends[1:] + gap for quote in CLOSING_QUOTES) and "\n" not in gap:
        end = follows + QUOTATIVE_CHARS
        next_text = text[follows : end if known is None else min(end, known)]
        if (
            len(next_text) < QUOTATIVE_CHARS
            and not is_whole
            and next_text.isalnum()
            and QUOTATIVE_STARTS.match(next_text)
        ):
            return None
        if QUOTATIVE.match(next_text):
            return False
    if any(end in WIDE_ENDS for end in ends):
        return True
    if not gap[:1].isspace():
        return not gap and ends[-1] in "!?" and following.isalpha() and not _has_case(following)
    if following.islower():  # `"What?" he said` is one sentence, but `What? he said` may be two sentences.
        return ends.strip(".…") != "" and not ends.strip(".…!?")
    return ends[0] != "." or ends[1:2] in tuple(".…!?") or not is_short(text, mark.start(), following)


def is_short(text: str, stop: int, following: str) -> bool:
    """True if the full stop belongs to an abbreviation, an initial or an ordinal number.

    Args:
        text: Text with the full stop.
        stop: Index of the full stop.
        following: First letter or digit after the full stop.
    """
    found = WORD_BEFORE.search(text[max(0, stop - MAX_WORD_CHARS) : stop])
    word = found[0].lstrip(OPENERS) if found else ""
    last = re.split("[.-]", word)[-1].lower()  # Last part of an abbreviation, such as "b" in "z.B" or "p" in "J.-P".
    return (
        (len(last) == 1 and _has_case(last))
        or (len(word) <= 2 and word.isdecimal())
        or TITLE.fullmatch(last) is not None
        or (NUMBERED.fullmatch(last) is not None and following.isdecimal())
    )


def _has_case(character: str) -> bool:
    return character.lower() != character.upper()
