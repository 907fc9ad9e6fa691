"""Small parallel corpora for the tests of the examples."""


def parallel_text(folder, *splits, languages=("en", "fr")):
    """A folder whose splits have one sentence each, their own name."""
    for split in splits:
        for language in languages:
            (folder / f"{language}.{split}.txt").write_text(f"{split}\n")
