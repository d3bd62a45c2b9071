"""DOCX reader, with styles, automatic numbers and symbol fonts."""
