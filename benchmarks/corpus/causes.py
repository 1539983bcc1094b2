"""Why files of the corpus miss a bar, found by looking: (words of the file's path, cause), by stage. The first that fits counts."""

CAUSES: dict[str, tuple[tuple[str, str], ...]] = {
    "load": (),
    "smooth": (),
    "calm": (),
    "speed": (),
}


def cause(stage: str, file: str) -> str | None:
    """The cause on record, or None."""
    return next((why for words, why in CAUSES[stage] if words in file), None)
