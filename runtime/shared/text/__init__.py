"""Analysis of text before it is spoken: tags, replacements, sentence ends and word times."""
