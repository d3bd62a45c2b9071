"""Tests for importing text files: encodings, page numbers and damaged files."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import Any

import pytest

from studio.documents import values
from studio.documents.charset import SAMPLE_BYTES, decode, sample
from studio.documents.reading import read
from studio.documents.text import read_text

# Three sentences in each language, in the style of books.
TEXTS = {
    "cs": "Byla jednou jedna babička, která žila v malé chaloupce. Každé ráno šla k řece pro vodu. Říkala pohádky.",
    "pl": "Dawno temu żyła sobie babcia, która miała mały domek. Każdego ranka szła nad rzekę po wodę. Było ciepło.",
    "hu": "Egyszer volt, hol nem volt, volt egyszer egy öregasszony. Minden reggel vízért ment a folyóhoz. Főzött.",
    "ru": "Жила-была бабушка в маленьком домике. Каждое утро она ходила к реке за водой. Дети слушали её сказки.",
    "uk": "Жила собі бабуся в маленькій хатинці. Щоранку вона ходила до річки по воду. Діти слухали її казки.",
    "bg": "Имало едно време една баба, която живеела в малка къща. Всяка сутрин тя ходела до реката за вода.",
    "fr": "Il était une fois une grand-mère qui vivait dans une forêt. Chaque matin, elle allait à la rivière. Né où ?",
    "de": "Es war einmal eine Großmutter, die in einem Häuschen lebte. Morgens ging sie über die Brücke zum Fluß.",
    "es": "Había una vez una abuela que vivía en una pequeña montaña. Cada mañana iba al río. ¿Dónde está el niño?",
    "pt": "Era uma vez uma avó que vivia numa região distante. Todas as manhãs ela ia até à fonte. Não há ninguém lá.",
    "ca": "La senyora Núria viu a la ciutat, però torna al poble quan pot. Allà té la família. L'operació és fàcil.",
    "sv": "Det var en gång en gammal mormor som bodde på en ö. Varje morgon gick hon ner till sjön och hämtade vatten.",
    "el": "Μια φορά κι έναν καιρό ήταν μια γιαγιά που ζούσε σε ένα μικρό σπίτι. Κάθε πρωί πήγαινε στο ποτάμι για νερό.",
    "tr": "Bir varmış bir yokmuş, küçük bir evde yaşayan yaşlı bir nine varmış. Her sabah ırmağa gidip su taşırmış.",
    "he": "היה היתה פעם סבתא אחת שגרה בבית קטן. כל בוקר היא הלכה אל הנהר להביא מים.",
    "ar": "كان يا ما كان في قديم الزمان جدة تعيش في بيت صغير. كل صباح كانت تذهب إلى النهر لتجلب الماء.",
    "lt": "Gyveno kartą senelė mažame namelyje prie upės. Kiekvieną rytą ji eidavo prie šulinio vandens. Vaikai žaidė.",
    "vi": "Ngày xưa có một bà lão sống trong ngôi nhà nhỏ.",
    "th": "กาลครั้งหนึ่งนานมาแล้ว มีคุณยายคนหนึ่งอาศัยอยู่ในบ้านหลังเล็ก ทุกเช้าเธอไปตักน้ำที่แม่น้ำ",
    "ja": "昔々、あるところにおばあさんが住んでいました。毎朝、川へ水をくみに行きました。",
    "ko": "옛날 옛적에 작은 집에 사는 할머니가 있었습니다. 매일 아침 강으로 물을 길으러 갔습니다.",
    "zh": "从前有一位老奶奶，住在河边的小房子里。每天早上她都去河边打水。",
    "tw": "從前有一位老奶奶，住在河邊的小房子裡。每天早上她都去河邊打水。",
}
ENCODINGS = {
    "cs": ["cp1250", "iso8859-2"],
    "pl": ["cp1250", "iso8859-2", "cp852"],
    "hu": ["cp1250", "iso8859-2"],
    "ru": ["cp1251", "koi8-r", "iso8859-5", "cp866", "mac_cyrillic"],
    "uk": ["cp1251", "koi8-u"],
    "bg": ["cp1251", "iso8859-5"],
    "fr": ["cp1252", "latin-1", "mac_roman", "cp850"],
    "de": ["cp1252", "latin-1", "mac_roman", "cp850"],
    "es": ["cp1252", "latin-1", "mac_roman"],
    "pt": ["cp1252", "latin-1"],
    "ca": ["cp1252"],
    "sv": ["cp1252", "latin-1", "mac_roman"],
    "el": ["cp1253", "iso8859-7"],
    "tr": ["cp1254", "iso8859-9"],
    "he": ["cp1255", "iso8859-8"],
    "ar": ["cp1256", "iso8859-6"],
    "lt": ["cp1257", "iso8859-13"],
    "th": ["tis-620", "cp874"],
    "ja": ["shift_jis", "cp932", "euc_jp", "iso2022_jp"],
    "ko": ["euc_kr", "cp949", "johab", "iso2022_kr"],
    "zh": ["gb18030", "gbk", "gb2312", "hz"],
    "tw": ["big5", "cp950"],
}
UNICODE = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
CASES = [(language, name) for language, text in TEXTS.items() for name in [*ENCODINGS.get(language, []), *UNICODE]]
SRT = "1\r\n00:00:01,000 --> 00:00:04,000\r\n{}\r\n\r\n2\r\n00:00:05,000 --> 00:00:08,000\r\n{}\r\n"


@pytest.mark.parametrize(("language", "encoding"), CASES)
def test_text_file_is_decoded_in_its_own_encoding(language: str, encoding: str) -> None:
    text = TEXTS[language]
    assert decode(text.encode(encoding)).text == text
    subtitles = SRT.format(text, text[:40])
    assert decode(subtitles.encode(encoding)).text == subtitles


@pytest.mark.parametrize("encoding", ["shift_jis", "euc_jp"])
@pytest.mark.parametrize("text", ["ありがとうございます。またあした。", "Hello, これはテストです。\nLine two です。"])
def test_japanese_text_without_kanji_is_decoded(text: str, encoding: str) -> None:
    found = decode(text.encode(encoding))
    assert (found.text, found.candidates) == (text, [])


def test_uncertain_encoding_is_reported_with_candidates() -> None:
    assert decode("Příliš žluťoučký kůň úpěl ďábelské ódy.".encode("cp1250")).encoding == "Windows-1250"
    text = "Съешь ещё этих мягких французских булок."
    data = text.encode("cp1251")
    found = read_text(data)
    assert found.chapters[0].paragraphs == [text]
    assert found.encodings[0] == found.encoding == "Windows-1251"
    assert "MacCyrillic" in found.encodings
    chosen = read_text(data, encoding=found.encodings[1])
    assert chosen.chapters != found.chapters
    assert chosen.encodings == []
    assert read_text(b"Ordinary words.").encodings == []


def test_line_ends_that_were_converted_twice_count_once() -> None:
    found = read_text(SRT.format("One.", "Two.").replace("\r\n", "\r\r\n").encode())
    assert found.chapters[0].paragraphs == ["One.", "Two."]


def test_unsupported_encoding_is_reported_as_uncertain() -> None:
    euc_tw = bytes.fromhex(
        "cabcd4afc7e3c4fce3d0e6d3dfd7cae3a1a2d2e0cbc4d0fec7e9c4a9c7e3e6fceadaa1a4c4f4c5b2cefbc5b2d6b4cfe6daa6c7efa1a4"
    )
    assert len(decode(euc_tw * 3).candidates) > 2


@pytest.mark.parametrize("text", ["Müller,Müla\n", "Die Ärztin öffnete die Tür.", "El niño duerme."])
def test_encoding_of_a_short_plausible_latin_text_is_certain(text: str) -> None:
    found = decode(text.encode("cp1252"))
    assert (found.text, found.candidates) == (text, [])


@pytest.mark.parametrize("text", ["A naïve idea, she said.", "<p>El niño duerme.</p>", "<p>A naïve idea.</p>"])
def test_short_text_in_several_possible_encodings_is_windows_1252(text: str) -> None:
    assert decode(text.encode("cp1252")).text == text


def test_text_with_quotation_marks_inside_words_is_decoded_as_dos() -> None:
    text = "Es war einmal ein König, der hatte eine schöne Tochter."
    assert decode(text.encode("cp437")).text == text


# Short texts, which can be decoded in several ways, because each non-ASCII byte is a letter in most encodings.
SHORT_TEXTS = {
    "cp1252": [
        *("Perché è così tardi?", "La città è più bella.", "La felicità è qui.", "Sì, è così.", "LA CITTÀ"),
        *("J'ai déjà fini.", "Où est la gare ?", "À bientôt, chère amie.", "La fenêtre est ouverte."),
        *("¿Cómo estás?", "El café está frío.", "Não sei onde está.", "O coração da mãe.", "Über den Wolken."),
        *("Hyvää päivää.", "Måske i morgen.", "Var är du?", "Drie ideeën.", "It’s a “café”.", "Don’t go…"),
    ],
    "cp1250": [
        *("Kde je nádraží?", "Co říkáš?", "Řekni mi to.", "Prečo plačeš?", "Dziękuję bardzo.", "Proszę usiąść."),
        *("Szép idő van.", "A nő elment.", "El nu ştie.", "Unde este gara mică?", "Copiii învaţă."),
    ],
    "cp1251": ["Как дела?", "Я здесь.", "Глава третья", "Палата № 6"],
    "cp1253": ["Τι κάνεις;", "Δεν ξέρω."],
    "cp1254": ["Işık yok.", "Teşekkür ederim.", "Yarın amcam geliyor."],
    "cp1255": ["תודה רבה.", "בוקר טוב.", "בית־ספר", "צופה ל־Visio ב־Windows"],
    "cp1256": ["نعم، لا؛ لماذا؟"],
    "cp874": ["สวัสดีครับ", "เซนต์เดวิด"],
    "mac_roman": ["It’s Ann’s turn.", "L’amico dell’uomo"],
    "cp1257": ["Rytoj bus šalta.", "Aš nežinau.", "Kaķis guļ."],
}


@pytest.mark.parametrize(("encoding", "text"), [(name, text) for name in SHORT_TEXTS for text in SHORT_TEXTS[name]])
def test_short_text_is_decoded_in_the_usual_encoding_of_its_language(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding)).text == text
    assert decode(f"<p>{text}</p>".encode(encoding)).text == f"<p>{text}</p>"


def test_encoding_detection_samples_the_non_ascii_parts_of_a_large_text() -> None:
    text = f"{'Only words, line after line. ' * 40_000}\n{TEXTS['cs']}\n"
    data = text.encode("cp1250")
    assert TEXTS["cs"].encode("cp1250") in sample(data)
    assert decode(data).text == text
    assert len(sample(TEXTS["cs"].encode("cp1250") * 100_000)) == SAMPLE_BYTES


@pytest.mark.parametrize("encoding", ["utf-8", "base64", "no-such-name", "cp65001x"])
def test_wrong_encoding_chosen_for_a_text_file_is_refused(encoding: str) -> None:
    with pytest.raises(values.UnreadableError, match="choose another one"):
        read(b"caf\xe9", encoding=encoding)


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\0\0",
        rb"{\rtf1\ansi Hello}",
        b'\xef\xbb\xbf<?xml version="1.0"?><FictionBook><body><p>Hello.</p></body></FictionBook>',
        b"\n<FictionBook><body><p>Hello.</p></body></FictionBook>",
        '<?xml version="1.0" encoding="utf-16"?><plist><string>Hello.</string></plist>'.encode("utf-16"),
        b"RIFF\0\0\0\0WAVEfmt ",
        bytes(range(256)) * 4,
        random.Random(1).randbytes(5000),
    ],
)
def test_binary_file_is_refused_as_a_text_document(data: bytes) -> None:
    with pytest.raises(values.UnreadableError, match="neither text nor"):
        read(data)


@pytest.mark.parametrize("options", [{"encoding": "cp1252"}, {"as_is": True}])
def test_rtf_and_unknown_xml_are_refused_in_any_encoding(options: dict[str, Any]) -> None:
    for data in (rb"{\rtf1\ansi Hello}", b'<?xml version="1.0"?><FictionBook/>'):
        with pytest.raises(values.UnreadableError, match="neither text nor"):
            read(data, **options)


def test_overlong_text_is_refused() -> None:
    with pytest.raises(values.UnreadableError, match="more than is read"):
        read(b"x" * (values.MAX_TEXT_CHARS + 1))


def test_invalid_utf_8_bytes_are_counted_and_the_rest_is_read() -> None:
    data = "Grüße an alle.\n".encode() * 3 + b"Gr\xfc\xdfe.\n" + "Schöne Größe.\n".encode() * 20
    (note,) = read_text(data).notes
    assert (note.code, note.count) == ("damaged", 2)
    assert "row 4" in note.message


@pytest.mark.parametrize("control", ["\x83", "\x01", "\x7f"])
@pytest.mark.parametrize("words", ["The harbour lay in the fog. ", "Über den Hügeln wurde es hell. "])
def test_a_control_character_in_utf_8_does_not_refuse_the_file(words: str, control: str) -> None:
    (note,) = (found := read_text((words * 9 + control + words).encode())).notes
    assert (note.code, note.count) == ("damaged", 1)
    assert found.chapters[0].paragraphs == [words * 9 + "\ufffd" + words]


def test_iso_2022_shift_sequences_are_not_control_characters() -> None:
    text = "The harbour lay in the fog. " * 9 + "안녕"
    assert read(text.encode("iso2022_kr")).chapters[0].paragraphs == [text]


def test_page_numbers_are_removed_and_sentences_joined_across_pages() -> None:
    text = "It was the end of\n\n- 12 -\n\na page. The inven-\n\f13\ntion came.\n\n14\n\nBy chance.\n"
    found = read_text(text.encode())
    assert found.chapters[0].paragraphs == ["It was the end of a page. The invention came.", "By chance.\n"]
    assert [(note.code, note.count) for note in found.notes] == [("page_numbers", 3)]


@pytest.mark.parametrize("hyphen", ["-", "\u2010", "\u00ad"])
def test_a_word_broken_between_pages_is_joined(hyphen: str) -> None:
    (paragraph,) = read(f"We saw the har{hyphen}\n\fbour at last.".encode()).chapters[0].paragraphs
    assert paragraph == "We saw the harbour at last."


@pytest.mark.parametrize("text", ["1\n\nIt was dark.\n\n2\n\nIt was light.", "12\n13\n14", "Ann\n7\nBob"])
def test_numbers_other_than_page_numbers_are_kept(text: str) -> None:
    found = read_text(text.encode())
    assert "\n\n".join(found.chapters[0].paragraphs) == text
    assert found.notes == []


def test_unicode_and_old_line_separators_end_lines() -> None:
    paragraphs = read_text("One.\u2028Two.\u2029Three.\rFour.\x85Five.\fSix.".encode()).chapters[0].paragraphs
    assert paragraphs == ["One.\nTwo.", "Three.\nFour.\nFive.", "Six."]


def test_table_in_a_text_file_is_read_unchanged() -> None:
    table = "wört,said\r\n12,twelve\r\n\r\n13,a 00:01 --> 00:02\r\n"
    assert read_text(table.encode("cp1252"), as_is=True).chapters[0].paragraphs == [table.replace("\r\n", "\n")]


@pytest.mark.parametrize(
    "row", ["<v a", "[x", "(x", "♪ x\n", "- x\n", "{\\x", "A: ", "<rt>", "12\n", "x-\n", "\f", "-->"]
)
def test_reading_time_of_a_text_file_is_linear(row: str) -> None:
    def seconds(times: int) -> float:
        data = ("1\n00:00:01,000 --> 00:00:02,000\n" + row * times).encode()
        begun = time.process_time()
        with suppress(values.UnreadableError):
            read_text(data, keep_sounds=True)
        return time.process_time() - begun

    small = min(seconds(2000) for _ in range(3))
    assert min(seconds(8000) for _ in range(3)) < 10 * small + 0.02
