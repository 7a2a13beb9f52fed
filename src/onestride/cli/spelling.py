"""Letters that a terminal does not know, spelled out before lines are laid out."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

SPELLED = {"λ": "lambda", "Λ": "Lambda", "ℓ": "l", "−": "-", "–": "-", "—": "-", "Σ": "sum"}
SPELLED |= {"±": "+/-", "·": "*", "×": "x", "√": "sqrt", "≤": "<=", "≥": ">=", "≈": "~", "∝": "~", "≠": "!=", "→": "->"}
SPELLED |= {
    "⋆": "*",
    "‖": "||",
    "∞": "inf",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "⁻": "-",
    "≫": ">>",
    "≪": "<<",
    "∂": "d",
}
SPELLED |= {"½": "1/2", "÷": "/", "₋": "-", "′": "'", "⟨": "<", "⟩": ">", "←": "<-"}
SPELLED |= dict.fromkeys("─━═╌", "-") | dict.fromkeys("│┃║", "|") | dict.fromkeys("╭╮╰╯┌┐└┘├┤┬┴┼╇╈┏┓┗┛┡┩", "+")


def spelled(text: str, encoding: str) -> str:
    """The text in letters of the encoding: λ² is lambda^2, c₁aβᵀ is c1 a beta^T."""
    return text if all(_known(letter, encoding) for letter in text) else "".join(_parts(text, encoding))


def _parts(text: str, encoding: str) -> list[str]:
    """What stands for each letter, with a space before it where it would run into a word, an index or a power."""
    parts: list[str] = []
    last, was = "", ""
    for letter in text:
        new, kind = (letter, "") if _known(letter, encoding) else _ascii(letter)
        if kind == "power" and was != "power":
            new = f"^{new}"
        elif (
            new[:1].isalnum()
            and kind != "index"
            and ((kind == "word" and last.isalnum()) or (was and kind != was) or was == "word")
        ):
            new = f" {new}"
        parts.append(new)
        if new:
            last, was = new[-1], kind
    return parts


@cache
def _known(letter: str, encoding: str) -> bool:
    try:
        letter.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@cache
def _ascii(letter: str) -> tuple[str, str]:
    """A letter in ASCII, and whether that is a word, an index or a power."""
    plain, form = unicodedata.normalize("NFKD", letter), unicodedata.decomposition(letter)
    new = SPELLED.get(letter) or plain.encode("ascii", "ignore").decode()
    if greek := re.match(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(plain[0], "")):
        new = new or (greek[2].lower() if greek[1] == "SMALL" else greek[2].title())
    if not new and not unicodedata.combining(letter):
        new = "?"
    kind = "power" if form.startswith("<super>") else "index" if form.startswith("<sub>") else ""
    return new, kind or ("word" if len(new) > 1 and new.isalpha() else "")


def knows_all(stream: Any = None) -> bool:
    """Whether every letter can be written to a stream, the output if none is given."""
    return (getattr(stream or sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def console(**how: Any) -> Console:
    """A console that spells letters out before it breaks lines and draws borders, where it has to."""
    from rich.console import Console
    from rich.text import Span, Text

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # for `sentences`: Rich would end the program as if a cell had failed, with 1

    class Spelling(Piped):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(spelled(text, self.encoding), **options)

        def render(self, renderable: Any, options: Any = None) -> Any:
            if isinstance(renderable, Text) and not all(_known(letter, self.encoding) for letter in renderable.plain):
                parts, text = _parts(renderable.plain, self.encoding), renderable.copy()
                at = list(accumulate(map(len, parts), initial=0))
                text.plain = "".join(parts)
                text.spans = [Span(at[s.start], at[s.end], s.style) for s in renderable.spans]
                renderable = text
            return super().render(renderable, options)

    return Piped(**how) if knows_all() else Spelling(**how)
