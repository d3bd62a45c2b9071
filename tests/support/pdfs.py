"""Generator of PDF files with positioned text, an outline and metadata."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Placed = tuple[float, float, float, str]  # Position (x, y), font size and text of a line.


def pdf(
    pages: Sequence[Iterable[Placed]],
    *,
    title: str = "",
    author: str = "",
    outline: Sequence[tuple[str, int]] = (),
    picture: bool = False,
) -> bytes:
    """Return a PDF file with these pages.

    Args:
        pages: Texts with their positions, for each page.
        title: Title in the metadata.
        author: Author in the metadata.
        outline: Titles and page indexes (from 0) of the outline.
        picture: True to draw a filled box over each page.
    """
    count = len(pages)
    first_content, first_entry = 5 + count, 5 + 2 * count
    kids = " ".join(f"{5 + number} 0 R" for number in range(count))
    objects = [
        "<</Type/Catalog/Pages 2 0 R" + ("/Outlines 4 0 R>>" if outline else ">>"),
        f"<</Type/Pages/Kids[{kids}]/Count {count}>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        f"<</Type/Outlines/First {first_entry} 0 R/Last {first_entry + len(outline) - 1} 0 R/Count {len(outline)}>>",
        *(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F 3 0 R>>>>"
            f"/Contents {first_content + number} 0 R>>"
            for number in range(count)
        ),
    ]
    for rows in pages:
        drawn = [f"BT /F {size} Tf {x} {y} Td ({_escaped(text)}) Tj ET" for x, y, size, text in rows]
        content = "\n".join(drawn + ["0 0 600 800 re f"] * picture)
        objects.append(stream(content))
    for number, (name, page) in enumerate(outline):
        after = f"/Next {first_entry + number + 1} 0 R" if number + 1 < len(outline) else ""
        before = f"/Prev {first_entry + number - 1} 0 R" if number else ""
        place = f"/Parent 4 0 R/Dest[{5 + page} 0 R /Fit]{after}{before}"
        objects.append(f"<</Title({_escaped(name)}){place}>>")
    objects.append(f"<</Title({_escaped(title)})/Author({_escaped(author)})>>")
    return pdf_of(objects, f"/Info {len(objects)} 0 R")


def drawn(
    *contents: str, font: str = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", more: Sequence[str] = ()
) -> bytes:
    """Return a PDF file with one page for each content stream.

    Args:
        contents: Content streams, which are PDF drawing commands.
        font: PDF object of font /F, which has the number 3.
        more: Further PDF objects. The first one has the number 4.
    """
    first = 4 + len(more)
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(contents)))
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[{kids}]/Count {len(contents)}>>", font, *more]
    for number, content in enumerate(contents):
        resources = "/Resources<</Font<</F 3 0 R>>>>"
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]{resources}/Contents {first + 2 * number + 1} 0 R>>"
        )
        objects.append(stream(content))
    return pdf_of(objects)


def stream(content: str, entries: str = "") -> str:
    return f"<</Length {len(content.encode('cp1252'))}{entries}>>\nstream\n{content}\nendstream"


def pdf_of(objects: Sequence[str], trailer: str = "") -> bytes:
    """Return a PDF of these objects, of which the first is the catalog."""
    file = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(file))
        file += f"{number} 0 obj\n{content}\nendobj\n".encode("cp1252")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"trailer<</Size {size}/Root 1 0 R{trailer}>>\nstartxref\n{len(file)}\n%%EOF"
    return file + f"xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
