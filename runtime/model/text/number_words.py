"""Conversion of numbers to English words."""

from __future__ import annotations

_ONES = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
"""
ONES = _ONES.split()
TENS = ("", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SCALES = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred"))
ORDINALS = {
    **{"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth"},
    "twelve": "twelfth",
}
PLURALS = {"foot": "feet", "hertz": "hertz", "inch": "inches", "penny": "pence", "yen": "yen", "won": "won"}
MAX_CARDINAL_DIGITS = 15
GROUP_DIGITS = 4


def cardinal(number: int) -> str:
    """Return the English words for an integer from 0 to 10**15 - 1."""
    if number < 20:
        return ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return f"{TENS[tens]}-{ONES[ones]}" if ones else TENS[tens]
    size, name = next(scale for scale in SCALES if scale[0] <= number)
    high, low = divmod(number, size)
    return f"{cardinal(high)} {name} {cardinal(low)}" if low else f"{cardinal(high)} {name}"


def ordinal(number: int) -> str:
    """Return the English words for an ordinal number, such as "twenty-second" for 22."""
    spoken = cardinal(number)
    start = max(spoken.rfind(" "), spoken.rfind("-")) + 1
    last = spoken[start:]
    return spoken[:start] + (ORDINALS.get(last) or (f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"))


def spoken_year(year: int) -> str:
    """Return the English words for a year, such as "nineteen eighty-four" for 1984."""
    century, rest = divmod(year, 100)
    if century == 20 and rest < 10:
        return cardinal(year)
    return f"{cardinal(century)} " + ("hundred" if not rest else f"oh {ONES[rest]}" if rest < 10 else cardinal(rest))


def spoken_number(number: str) -> str:
    """Return the English words for a number in digits, such as "1,234.5".

    A number with a leading zero or more than `MAX_CARDINAL_DIGITS` digits is read digit by digit.
    """
    integer, point, decimals = number.replace(",", "").partition(".")
    by_digit = len(integer) > MAX_CARDINAL_DIGITS or (integer.startswith("0") and len(integer) > 1)
    spoken = digit_groups(integer) if by_digit else cardinal(int(integer))
    return f"{spoken} point {_digits(decimals)}" if point else spoken


def digit_groups(digits: str) -> str:
    """Return one English word per digit, with a comma after every four digits."""
    groups = (digits[start : start + GROUP_DIGITS] for start in range(0, len(digits), GROUP_DIGITS))
    return ", ".join(map(_digits, groups))


def plural(noun: str) -> str:
    """Return the plural of a unit's name, such as "miles per hour" for "mile per hour"."""
    head, per, rest = noun.partition(" per ")
    *first, last = head.split(" ")
    if last == "Celsius" or last == "Fahrenheit":
        return f"{plural(first[0])} {last}"
    return " ".join([*first, PLURALS.get(last, f"{last}s")]) + per + rest


def _digits(digits: str) -> str:
    return " ".join(ONES[int(digit)] for digit in digits)
