"""What an experiment says, checked against what it ran."""

from __future__ import annotations

import re

import numpy as np

from onestride.experiments.outcome import Outcome

SPELLED = re.compile(r"\b(four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|hundred)\b", re.IGNORECASE)
TABLES = ("diabetes", "cancer", "digits")


def said(outcome: Outcome) -> str:
    """Verdict, finding and surprise."""
    told = outcome.judgement
    return f"{told.words}. {told.finding} {told.surprise}"


def data_words(outcome: Outcome) -> str:
    """Every string of the rows and panels of this run."""
    words = [v for row in outcome.judgement.rows for v in row.values() if isinstance(v, str)]
    return " ".join(
        [*words, *(p.title for p in outcome.figure.panels), *(s.label for p in outcome.figure.panels for s in p.series)]
    )


def data_numbers(outcome: Outcome) -> set[float]:
    """Every number of the rows and of the panels' axes, and those of titles and caption, made from the settings."""
    rows = [v for row in outcome.judgement.rows for v in row.values() if isinstance(v, int | float)]
    axes = [x for p in outcome.figure.panels for s in p.series for x in np.ravel(np.asarray(s.x, float))]
    titles = " ".join([outcome.figure.caption, *(p.title for p in outcome.figure.panels)])
    return {float(v) for v in (*rows, *axes)} | {float(v) for v in re.findall(r"\d+(?:\.\d+)?", titles)}


def assert_says_what_was_run(outcome: Outcome) -> None:
    """Sizes in the text are those of the run, counts are digits, and no table is named that was not used."""
    text, known, words = said(outcome), data_numbers(outcome), data_words(outcome)
    for letter, value in re.findall(r"\b([ndN]) = (\d+)(?![\d.⁰¹²³⁴⁵⁶⁷⁸⁹e]|n\b)", text):
        assert float(value) in known, f"{outcome.name} speaks of {letter} = {value}, which was not run"
    for word in SPELLED.findall(text):
        raise AssertionError(f"{outcome.name} says {word!r}: a count is a number of this run, in digits")
    for slip in re.findall(r"[-−][\d.]+ ± \S+ (?:lower|higher)|[-−]0\.0+\b(?! ±)|\[['\d][^]]*\]", text):
        raise AssertionError(f"{outcome.name} says {slip!r}: a negative rise, a negative nothing or a list of Python's")
    for table in TABLES:
        assert table not in text or table in words, f"{outcome.name} speaks of {table}, which was not run"
