"""HTTP parts shared by all dialects: access, bodies, speech replies."""
