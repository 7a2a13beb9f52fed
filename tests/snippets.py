"""What documents show: their code, and the commands a line of them calls."""

import re

from onestride.cli import app


def code_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(part=app, words=()):
    """Every command with the words that call it, those of groups such as `sweep` included."""
    for name in [name for name in part if not name.startswith("-")]:
        if part[name].default_command is None:
            yield from commands(part[name], (*words, name))
        else:
            yield (*words, name), part[name]


def called(line):
    """The command that a line calls."""
    (found,) = [command for words, command in commands() if tuple(line.split()[: len(words)]) == words]
    return found
