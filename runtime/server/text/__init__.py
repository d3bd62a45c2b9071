"""Turns the text of a request into the text that is spoken: its filter and its dictionary."""
