r"""Formulas in the words of a figure, set as mathematics: "‖F − F_ℓ‖/√n at α = 0.15" becomes "$\Vert F - F_{\ell}\Vert/\sqrt{n}$ at …".

A word is mathematics when it has a sign no plain word has (a Greek letter, a subscript, a root, …), when it is one of the
letters of the paper, or a fraction of such letters. Operators and numbers between formulas belong to them. Everything else
stays as it is, with real minus signs.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

LETTERS = frozenset("ndNckFGWXZHuvsyzR")  # of the paper, alone in a sentence; "a" is an article
SIGNS = {
    "⋆": r"\star ", "ℓ": r"\ell ", "‖": r"\Vert ", "·": r"\cdot ", "−": "-", "∝": r"\propto ", "≤": r"\leq ",
    "≥": r"\geq ", "≠": r"\neq ", "→": r"\to ", "∞": r"\infty ", "±": r"\pm ", "½": r"\frac{1}{2}", "…": r"\ldots ",
    "∘": r"\circ ", "×": r"\times ", "%": r"\%", "ᵀ": r"\top ", "ᵏ": "k",
}  # fmt: skip
ACCENTS = {"\u0303": r"\tilde", "\u0302": r"\hat"}
GREEK = {chr(code): "\\" + unicodedata.name(chr(code)).rsplit(" ", 1)[-1].lower() + " " for code in range(0x3B1, 0x3CA)}
GREEK |= {c: "\\" + unicodedata.name(c).rsplit(" ", 1)[-1].capitalize() + " " for c in "ΔΛΣΦΨΓΩ"}
GREEK |= {"λ": r"\lambda ", "Λ": r"\Lambda ", "ς": r"\varsigma ", "ο": "o"}
LOW, HIGH = "₀₁₂₃₄₅₆₇₈₉", "⁰¹²³⁴⁵⁶⁷⁸⁹ᵀᵏ⁻"
FUNCTIONS = ("log", "cos", "exp", "tanh", "erf", "Var", "E")
OPERATORS = frozenset(["=", "+", "−", "-", "/", "<", ">", "·", "→", "±", "∝", "≤", "≥", "≠", "×"])
MARKED = frozenset([*SIGNS, *ACCENTS, *GREEK, *LOW, *HIGH, "√", "^", "⁻"]) - {"%", "…", "·", "−", "±", "→", "×", "∝"}
CLOSING = ",;:."


def typeset(text: str) -> str:
    """The text with its formulas between dollars; one that already has dollars is left alone."""
    if "$" in text:
        return text
    made = _join(text.split(" "))
    return made if _readable(made) else minus(text)


def _join(words: list[str]) -> str:
    """Runs of mathematical words as one formula each."""
    kinds = [_kind(word) for word in words]
    parts: list[str] = []
    i = 0
    while i < len(words):
        j = _end_of_formula(words, kinds, i)
        if j > i:
            parts.append(_formula(" ".join(words[i:j])))
            i = j
        else:
            parts.append(minus(words[i]))
            i += 1
    return " ".join(parts)


def _kind(word: str) -> str:
    """How a word behaves: mathematics, an operator, a number, the name of a function, or plain."""
    bare = word.strip(CLOSING + "()")
    if word in OPERATORS:
        return "operator"
    if re.fullmatch(r"[−-]?\d[\d.]*(/\d+)?", bare):
        return "number"
    if bare in FUNCTIONS[:1]:
        return "function"
    fraction = re.fullmatch(r"\d*[ndNk](/\d*[ndNk\d])?|1/[ndNk]", bare)  # n/d, 3n/2, 4n, 1/n
    subscript = re.search(r"(?<![A-Za-z])[A-Za-z]_\w", bare)
    call = re.match(r"(?:erf|cos|log|tanh)\(", word)
    return "mathematics" if bare in LETTERS or MARKED & set(bare) or fraction or subscript or call else "plain"


def _end_of_formula(words: list[str], kinds: list[str], start: int) -> int:
    """Where the formula that begins at `start` ends; `start` itself when none begins there."""
    i = start
    while i < len(words) and kinds[i] in ("number", "function"):  # "log n", "2 H₂": only before mathematics
        i += 1
        if kinds[i - 1] == "number" and not (i < len(words) and kinds[i] == "operator" and i + 1 < len(words)):
            return start
        if kinds[i - 1] == "number":
            i += 1
    if i >= len(words) or kinds[i] != "mathematics":
        return start
    i += 1
    while i < len(words):
        run = "".join(words[start:i])
        inside = run.count("(") > run.count(")")
        if run[-1] in CLOSING and not inside:
            break
        if kinds[i] == "mathematics" and (inside or run.endswith(FUNCTIONS[0])):
            i += 1
        elif kinds[i] == "operator":
            i += 2 if i + 1 < len(words) and kinds[i + 1] in ("mathematics", "number") else 1
        elif (
            kinds[i] == "function"
            and kinds[i - 1] == "operator"
            and i + 1 < len(words)
            and kinds[i + 1] == "mathematics"
        ):
            i += 2
        else:
            break
    return min(i, len(words))


def _formula(text: str) -> str:
    """One run between dollars; the punctuation behind it stays outside, and so does a parenthesis it does not close."""
    body = text.rstrip(CLOSING)
    after = text[len(body) :]
    if body.count(")") > body.count("(") and body.endswith(")"):
        body, after = body[:-1], ")" + after
    before = ""
    if body.count("(") > body.count(")") and body.startswith("("):
        before, body = "(", body[1:]
    return f"{before}${_mathtext(body)}${after}"


def _mathtext(text: str) -> str:
    text = unicodedata.normalize("NFD", text) if any(a in unicodedata.normalize("NFD", text) for a in ACCENTS) else text
    text = re.sub(r"\|([^|\s]+)\|", r"‖\1‖", text)  # lengths: single bars look like letters
    text = re.sub(r"√\(([^()]*)\)", lambda m: f"√{{{m[1]}}}", text)
    out, i = "", 0
    while i < len(text):
        c, after = text[i], text[i + 1 : i + 2]
        if after in ACCENTS:
            out, i = f"{out}{ACCENTS[after]}{{{c}}}", i + 2
            continue
        if c in LOW or c == "⋆":
            run = re.match(rf"[{LOW}⋆]+", text[i:])
            assert run
            out += "_{" + "".join(str(LOW.index(s)) if s in LOW else SIGNS[s] for s in run[0]) + "}"
        elif c in HIGH:
            run = re.match(rf"[{HIGH}]+", text[i:])
            assert run
            out += "^{" + "".join(SIGNS.get(s) or ("-" if s == "⁻" else str(HIGH.index(s))) for s in run[0]) + "}"
        elif c in "^_":
            run = re.match(r"[\^_](\([^)]*\)|\{[^}]*\}|[−-]?[\d.]+|ij|.)", text[i:])
            if run is None:
                return text
            out += f"{c}{{{_mathtext(run[1].strip('(){}'))}}}"
        elif c == "√":
            run = re.match(r"√(\{.*?\}|\d+|.)", text[i:])
            if run is None:
                return text
            out += rf"\sqrt{{{_mathtext(run[1].strip('{}'))}}}"
        elif run := re.match(r"[A-Za-z]{2,}", text[i:]):
            out += _letters(run[0])
        else:
            run = None
            out += GREEK.get(c) or SIGNS.get(c) or (r"\ " if c == " " and out.endswith(",") else c)
        i += len(run[0]) if run else 1
    return out


def _letters(word: str) -> str:
    """Functions upright, letters of the paper that stand together italic, words upright."""
    if word in FUNCTIONS:
        return rf"\{word} " if word in ("log", "cos", "exp", "tanh") else rf"\mathrm{{{word}}}"
    return word if word.isupper() or word in ("ij",) else rf"\mathrm{{{word}}}"


def minus(text: str) -> str:
    """Real minus signs before numbers; hyphens in words, powers of ten and dates stay."""
    return re.sub(r"(?<![\w)\]`/.-])-(?=\.?\d)", "−", text)


def _readable(text: str) -> bool:
    """Whether matplotlib can set the formulas of the text, each of which is tried once: it takes a hundredth of a second."""
    return all(_can_be_set(formula) for formula in re.findall(r"\$[^$]*\$", text))


@cache
def _can_be_set(formula: str) -> bool:
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(formula)
    except ValueError:
        return False
    return True
