"""What is to be said of a text in Markdown, whole or while it grows (docs/live-text.md). No sockets, no engine."""
