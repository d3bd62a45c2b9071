"""English text normalization: numbers, money, times, units and abbreviations as words.

The normalization is used for checkpoints that were trained on plain words only (``voicewright_alphabet: ascii``). The
input is the output of `runtime.model.text.ascii_spelling`: ASCII and the symbols of `SYMBOLS`. The output is ASCII
without `|`, `<` and `>`, and therefore contains no control token.

The rules are implemented here, because no package supports streamed text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from runtime.model.text.number_words import cardinal, digit_groups, ordinal, plural, spoken_number, spoken_year

SYMBOLS = {
    **{"&": "and", "+": "plus", "=": "equals", "%": "percent", "@": "at", "$": "dollars", "#": "number"},
    **{"€": "euros", "£": "pounds", "¥": "yen", "₹": "rupees", "₩": "won", "₽": "rubles", "¢": "cents"},
    **{"°": "degrees", "§": "section", "©": "copyright", "№": "number", "∞": "infinity", "√": "square root of"},
    **{"×": "times", "÷": "divided by", "±": "plus or minus", "≈": "about", "≠": "is not equal to"},
    **{"≤": "is at most", "≥": "is at least", "²": "squared", "³": "cubed", "µ": "micro"},
    **{"½": "one half", "⅓": "one third", "⅔": "two thirds", "¼": "one quarter", "¾": "three quarters"},
    **{"⅛": "one eighth", "⅜": "three eighths", "⅝": "five eighths", "⅞": "seven eighths"},
}
# Superscript characters. After a number, they are an exponent. After a word, they are a footnote mark, which is not
# spoken.
RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
# Superscripts after punctuation, which are not spoken. The characters ² and ³ are excluded, because they are exponents.
_NOTE_MARK = r"(?<=[.,;:!?\"'])[⁰¹²³⁴-⁹]+"
_NOTED = re.compile(rf"(?<=[A-Za-z]{{2}})(?![²³](?![{RAISED}]))[⁰¹²³⁴-⁹]|{_NOTE_MARK}")
_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", "⁺⁻")
FRACTIONS = "½⅓⅔¼¾⅛⅜⅝⅞"
CURRENCIES = {
    **{"$": ("dollar", "cent"), "€": ("euro", "cent"), "£": ("pound", "penny"), "₹": ("rupee", "paisa")},
    **{"¥": ("yen", ""), "₩": ("won", ""), "₽": ("ruble", "kopek"), "¢": ("cent", "")},
}
SCALES = {"k": "thousand", "K": "thousand", "m": "million", "M": "million", "bn": "billion", "B": "billion"}
UNITS = {
    **{"km/h": "kilometer per hour", "kph": "kilometer per hour", "mph": "mile per hour", "m/s": "meter per second"},
    **{"km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "mi": "mile", "ft": "foot"},
    **{"km²": "square kilometer", "m²": "square meter", "m³": "cubic meter", "sq ft": "square foot"},
    **{"kg": "kilogram", "g": "gram", "mg": "milligram", "lb": "pound", "lbs": "pound", "oz": "ounce"},
    **{"l": "liter", "L": "liter", "ml": "milliliter", "mL": "milliliter", "h": "hour", "hrs": "hour"},
    **{"min": "minute", "s": "second", "sec": "second", "ms": "millisecond"},
    **{"kWh": "kilowatt hour", "Wh": "watt hour", "kW": "kilowatt", "MW": "megawatt", "W": "watt", "V": "volt"},
    **{"Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "mAh": "milliamp hour"},
    **{"KB": "kilobyte", "kB": "kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte"},
    **{"Mbit/s": "megabit per second", "MB/s": "megabyte per second", "GB/s": "gigabyte per second"},
    **{"°C": "degree Celsius", "°F": "degree Fahrenheit", "°": "degree"},
}
TITLES = {"Mr": "Mister", "Mrs": "Missus", "Ms": "Miss", "Dr": "Doctor", "Prof": "Professor", "St": "Saint"}
ABBREVIATIONS = {
    **{"Jr": "Junior", "Sr": "Senior", "Inc": "Incorporated", "Ltd": "Limited", "etc": "et cetera", "vs": "versus"},
    **{"approx": "approximately", "dept": "department", "e.g": "for example", "i.e": "that is"},
}
NUMBERED = {"No": "number", "no": "number", "Vol": "volume", "Fig": "figure", "Ch": "chapter", "pp": "pages"}
MONTHS = {
    **{"Jan": "January", "Feb": "February", "Mar": "March", "Apr": "April", "May": "May", "Jun": "June"},
    **{"Jul": "July", "Aug": "August", "Sep": "September", "Sept": "September", "Oct": "October", "Nov": "November"},
    "Dec": "December",
}
MONTH_NAMES = list(dict.fromkeys(MONTHS.values()))
_LETTER_NAMES = (
    "ay bee see dee ee eff jee aitch eye jay kay ell em en oh pee cue ar ess tee you vee double-you ex why zee"
)
LETTERS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _LETTER_NAMES.split(), strict=True))
# Words of two and three letters that are read as words, even if they are written in capitals.
_SHORT_WORDS = """
    ad add age ago aid air all am an and any are arm art as ask at ate away bad bag bar be bed best big bit boy bus but
    buy by can car cat cow cry cup cut dad day did die do dog dry due eat egg end eye far fat few fix fly for fun get go
    god gun guy had has hat he her hey hi him his hit hot how ice if in is it its job joy key kid lay led leg let lie
    lot low mad man map may me men mom mr mud my net new no nor not now odd of off oh oil old on one or our out own pan
    pay pen pet put ran red rid run sad sat saw say sea see set sex she sir sit six sky so son sun tax tea ten the tie
    to toe too top toy try two up us use van war was way we wet who why win wow yes yet you zoo
"""
SHORT_WORDS = frozenset(_SHORT_WORDS.split())
_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
_SCALE = r"(?:thousand|million|billion|trillion|bn|[kKmMB])"


_UNNAMED = str.maketrans("", "", "".join(SYMBOLS))
_ONE_SYMBOL = "".join(map(re.escape, SYMBOLS))


def _one_of(words: dict[str, str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


# Pattern of a token whose spoken form differs from its spelling. The spoken form depends on at most one word before the
# token and one character after it.
_TOKEN = re.compile(
    rf"""
    (?!(?<=[A-Za-z])[a-z])(?:  # Skips the inside of words quickly.
      (?P<address> \b(?:https?://(?:www\.)?|www\.)(?=[A-Za-z0-9]) )
    | (?P<date> (?<![\w-])(\d{{4}})-(0\d|1[0-2])-([0-3]\d)(?![\w-]) )
    | (?P<time> (?<![\w:.])([01]?\d|2[0-3]):([0-5]\d)(?![\d:]) ([ ]?[AaPp](?:\.[Mm]\.|[Mm]\b))? )
    | (?P<hour> (?<![\w:.])(\d{{1,2}}) [ ]?([AaPp])(?:\.[Mm]\.|[Mm]\b) )
    | (?P<phone> (?<![\w-]) (?: \+\d[\d ()-]{{6,18}}\d | (?:\(\d{{3}}\)[ ]?|\d{{3}}[ -])?\d{{3}}-\d{{4}} ) (?![\w-]) )
    | (?P<money> ([$€£¥₹₩₽])[ ]?({_NUMBER})(?:[ ]?({_SCALE})\b)? )
    | (?P<price> (?<![\w.])({_NUMBER})[ ]?([€£¥₹₩₽¢]) )
    | (?P<fraction> (?<![\w/.])([1-9])/([2-9]|10)(?![\w/]) )
    | (?P<ordinal> (?<![\w.,])(\d{{1,9}})(?:st|nd|rd|th)\b )
    | (?P<decade> (?<![\w.,])((?:1[1-9]|20)?[2-9]0|(?:1[1-9]|20)[01]0)'?s\b )
    | (?P<day> \b({_one_of(MONTHS)}|{"|".join(MONTH_NAMES)})\.?[ ]([12]?\d|3[01])(?:st|nd|rd|th)?(?![\w:.]|,\d) )
    | (?P<measure> (?<![\w.])({_NUMBER})([ -]?)({_one_of(UNITS)})(?![\w/]) )
    | (?P<roman> \b(?=[IVX]{{2}})X{{0,3}}(?:IX|IV|V?I{{0,3}})(?<=[IVX])\b )
    | (?P<letters> \b(?:[A-Z]\.){{2,}} )
    | (?P<capitals> \b([A-Z]{{2,}}(?:'[A-Z]+)?)(s?)(?![a-z]) )
    | (?P<title> \b({_one_of(TITLES)})\.?(?=[ ][A-Z]) )
    | (?P<numbered> \b({_one_of(NUMBERED)})\.[ ]?(?=\d) )
    | (?P<abbreviation> \b({_one_of(ABBREVIATIONS)})\.(?![A-Za-z]) )
    | (?P<month> \b({_one_of(MONTHS)})\.(?=[ ]) )
    | (?P<minus> (?<![\w)])-(?=\d) )
    | (?P<range> (?<=\d)-(?=\d) )
    | (?P<product> (?<=\d)[ ]?[*x×][ ]?(?=\d) )
    | (?P<less> (?<=\d)[ ]?<[ ]?(?=\d) )
    | (?P<more> (?<=\d)[ ]?>[ ]?(?=\d) )
    | (?P<about> ~(?=\d) )
    | (?P<number> {_NUMBER} )
    | (?P<vulgar> (?<=\d)[{FRACTIONS}] )
    | (?P<dot> (?<=[^\W_])\.(?=[^\W_{RAISED}]) )
    | (?P<slash> (?<=[^\W_])/(?=[^\W_]) )
    | (?P<power> (?:(?<=[\d)])|(?<=\b[A-Za-z])) (?![²³](?![{RAISED}])) [⁺⁻]?[⁰¹²³⁴-⁹]+ )
    | (?P<mark> {_NOTE_MARK} )
    | (?P<rule> [ ]?(?:={{4,}}|(?<![^\n])={{2,}}(?=[ ]*(?:\n|\Z))|\+{{4,}}|\#{{4,}}|&{{4,}}|%{{4,}}|@{{4,}})[ ]? )
    | (?P<symbol> [ ]?(?:={{1,3}}|\#{{1,3}}|&{{1,3}}|(?![$€£¥₹₩₽][ ]?\d)[{_ONE_SYMBOL}])[ ]? )
    | (?P<unread> [ ]?(?!~\d)[*_^`|\\{{}}\[\]<>~\t{RAISED.translate(_UNNAMED)}]+[ ]? )
    | (?P<spaces> [ ]{{2,}} )
    )
    """,
    re.VERBOSE,
)
# Maximum number of characters before a space or line break that are matched with `_NO_CUT_AFTER`.
MAX_WORD_CHARS = 40
_GAP = re.compile(r"[ ]{2,}|[ ]+(?=[.,;:!?])")
_SENTENCE_END = re.compile(r"[ ]+[A-Z]|[ ]*(?:\n|\Z)")
# Pattern of positions at which the text can be divided. It does not apply if the word before matches `_NO_CUT_AFTER`.
_CUT = re.compile(r"(?<=\S)[ ](?=[A-Za-z0-9\"'(])|\n")
_NO_CUT_AFTER = re.compile(
    rf"""
    .*[^A-Za-z.,;:!?"')\n] | .*\d["')]* | .*\.[A-Za-z]\.
    | .*\b(?: {_one_of(TITLES | ABBREVIATIONS | NUMBERED | MONTHS)} | {"|".join(MONTH_NAMES)} )\.?
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Pattern of a word before a final punctuation mark. The normalized form of such a word is final, because no rule needs
# both the word and the mark.
_MARK_AT_END = re.compile(r"(?<![^\s\"'(])(?!(?:dept|approx|prof|etc|www|https?)\b)[A-Za-z]?[a-z]{3,}(?=[.,;:!?]+\Z)")


class StreamingNormalizer:
    """Incremental text normalization for streamed text.

    The concatenated results of `feed_text` and `flush` are the complete text in normalized form.
    """

    def __init__(self) -> None:
        self.pending = ""  # Text whose normalized form may still change.
        self._before = ""  # Last character before the text in `pending`.

    def feed_text(self, text: str) -> str:
        """Append text, and return the next part of the normalized text.

        Only normalized text that later text cannot change is returned.
        """
        checked = max(len(self.pending) - 1, 0)
        self.pending += text
        return self._read_to(_certain_end(self.pending, checked))

    def flush(self) -> str:
        """Normalize and return the remaining text, even if more text will follow."""
        return self._read_to(len(self.pending))

    @property
    def has_pending_words(self) -> bool:
        """True if the pending text, which was not returned yet, contains words."""
        return self.pending.strip(" \n.,;:!?\"'()") != ""

    def _read_to(self, end: int) -> str:
        if not end:
            return ""
        text, start = self._before + self.pending, len(self._before)
        self.pending, self._before = self.pending[end:], self.pending[end - 1]
        return _read(text, start, start + end)


def normalize_english(text: str) -> str:
    """Return a complete text in normalized form, with numbers and symbols as words."""
    return StreamingNormalizer().feed_text(f"{text}\n").removesuffix("\n")


def has_footnote_marks(text: str) -> bool:
    """True if the text has superscript footnote marks, which are not spoken."""
    return _NOTED.search(text) is not None


def _certain_end(text: str, start: int) -> int:
    """Return the length of the text whose normalized form is final, or 0."""
    if mark := _MARK_AT_END.search(text, max(0, len(text) - MAX_WORD_CHARS)):
        return mark.end()
    end = 0
    for cut in _CUT.finditer(text, start):
        word = max(text.rfind(" ", 0, cut.start()), text.rfind("\n", 0, cut.start())) + 1
        if cut[0] == "\n" or not _NO_CUT_AFTER.fullmatch(text, max(word, cut.start() - MAX_WORD_CHARS), cut.start()):
            end = cut.end()
    return end


def _read(text: str, start: int, end: int) -> str:
    pieces: list[str] = []
    for token in _TOKEN.finditer(text, start):
        if token.start() >= end:
            break
        spoken = _spoken_token(token)
        joins_before = spoken[:1].isalpha() and text[max(token.start() - 1, 0) : token.start()].isalnum()
        joins_after = spoken[-1:].isalpha() and text[token.end() : token.end() + 1].isalnum()
        pieces += text[start : token.start()], " " * joins_before, spoken, " " * joins_after
        start = token.end()
    pieces.append(text[start:end])
    return _GAP.sub(_narrow, "".join(pieces))


def _narrow(gap: re.Match[str]) -> str:
    return "" if gap.string[gap.end() : gap.end() + 1] in tuple(".,;:!?") else " "


def _spoken_token(token: re.Match[str]) -> str:
    kind = token.lastgroup
    assert kind is not None
    read = _READERS[kind]
    if isinstance(read, str):
        return read
    return read(*(token[group] for group in _GROUPS[kind])) + (_full_stop(token) if kind in _WITH_STOP else "")


def _full_stop(token: re.Match[str]) -> str:
    """Return a full stop if the abbreviation also ends the sentence."""
    return "." if token[0].endswith(".") and _SENTENCE_END.match(token.string, token.end()) else ""


def _date(_: str, year: str, month: str, day: str) -> str:
    return f"{MONTH_NAMES[int(month) - 1]} {ordinal(int(day))}, {spoken_year(int(year))}"


def _time(_: str, hour: str, minute: str, half: str | None) -> str:
    if minute == "00":
        minutes = "" if half else " o'clock"
    else:
        minutes = f" oh {cardinal(int(minute))}" if minute.startswith("0") else f" {cardinal(int(minute))}"
    return f"{cardinal(int(hour))}{minutes}" + (_half_day(half.strip()[0]) if half else "")


def _hour(_: str, hour: str, half: str) -> str:
    return cardinal(int(hour)) + _half_day(half)


def _half_day(letter: str) -> str:
    return f" {LETTERS[letter.upper()]} {LETTERS['M']}"


def _phone(number: str) -> str:
    return ", ".join(map(digit_groups, re.findall(r"\d+", number)))


def _money(_: str, sign: str, amount: str, scale: str | None) -> str:
    unit, part = CURRENCIES[sign]
    integer, _, decimals = amount.replace(",", "").partition(".")
    if scale or not part or len(decimals) not in (0, 2):
        return f"{spoken_number(amount)} {SCALES.get(scale, scale) + ' ' if scale else ''}{plural(unit)}"
    parts = [_count(integer, unit)] if int(integer) or not int(decimals or 0) else []
    return " and ".join([*parts, *([_count(decimals.lstrip("0"), part)] if int(decimals or 0) else [])])


def _price(_: str, amount: str, sign: str) -> str:
    return _money("", sign, amount, None)


def _count(number: str, noun: str) -> str:
    return f"{spoken_number(number)} {noun if number == '1' else plural(noun)}"


def _fraction(_: str, above: str, below: str) -> str:
    if int(above) >= int(below):
        return f"{cardinal(int(above))} slash {cardinal(int(below))}"
    part = {2: "half", 4: "quarter"}.get(int(below)) or ordinal(int(below))
    return f"{cardinal(int(above))} {part}" + ("" if above == "1" else "s")


def _decade(_: str, year: str) -> str:
    spoken = cardinal(int(year)) if len(year) == 2 else spoken_year(int(year))
    return f"{spoken[:-1]}ies" if spoken.endswith("y") else f"{spoken}s"


def _day(_: str, month: str, day: str) -> str:
    return f"{MONTHS.get(month, month)} {ordinal(int(day))}"


def _measure(_: str, amount: str, join: str, unit: str) -> str:
    return f"{spoken_number(amount)} {UNITS[unit]}" if join == "-" else _count(amount, UNITS[unit])


def _roman(numeral: str) -> str:
    values = [{"I": 1, "V": 5, "X": 10}[letter] for letter in numeral]
    following = [*values[1:], 0]
    return cardinal(sum(-value if value < after else value for value, after in zip(values, following, strict=True)))


def _letters(text: str) -> str:
    return " ".join(LETTERS[letter] for letter in text if letter.isalpha())


def _capitals(_: str, word: str, plural_s: str) -> str:
    """Return a pronounceable word in lower case, and spell other words in capitals."""
    if word == "OK":
        return "okay"
    is_word = "'" in word or word.lower() in SHORT_WORDS or (len(word) > 3 and re.search("[AEIOUY]", word))
    return (word.lower() if is_word else _letters(word)) + plural_s


def _number(number: str) -> str:
    is_year = len(number) == 4 and number.isdecimal() and (1100 <= int(number) < 2000 or 2010 <= int(number) < 2100)
    return spoken_year(int(number)) if is_year else spoken_number(number)


def _power(digits: str) -> str:
    sign = "minus " if digits.startswith("⁻") else ""
    return f" to the power of {sign}{spoken_number(digits.translate(_DIGITS))}"


def _symbol(symbol: str) -> str:
    return f" {SYMBOLS[symbol.strip()[0]]} "


# For each kind of token, the spoken form as text, or a function that computes it from the token's text and groups.
_READERS: dict[str, str | Callable[..., str]] = {
    "address": "", "date": _date, "time": _time, "hour": _hour, "phone": _phone, "money": _money, "price": _price,
    "fraction": _fraction, "ordinal": lambda _, number: ordinal(int(number)), "decade": _decade, "day": _day,
    "measure": _measure, "roman": _roman, "letters": _letters, "capitals": _capitals,
    "title": lambda _, word: TITLES[word], "numbered": lambda _, word: f"{NUMBERED[word]} ",
    "abbreviation": lambda _, word: ABBREVIATIONS[word], "month": lambda _, word: MONTHS[word],
    "minus": "minus ", "range": " to ", "product": " times ", "less": " is less than ", "more": " is more than ",
    "about": "about ", "number": _number, "vulgar": lambda fraction: f" and{_symbol(fraction)}", "dot": " dot ",
    "slash": " slash ", "power": _power, "mark": "", "rule": " ", "symbol": _symbol, "unread": " ", "spaces": " ",
}  # fmt: skip
_WITH_STOP = frozenset(("time", "hour", "letters", "abbreviation"))
_NAMED = sorted(_TOKEN.groupindex.items(), key=lambda item: item[1])
_GROUPS = {
    name: range(first, after)
    for (name, first), after in zip(_NAMED, [*(index for _, index in _NAMED[1:]), _TOKEN.groups + 1], strict=True)
}
