"""The one exception for wrong input, below everything so that every layer can raise it."""


class InputError(ValueError):
    """A wrong argument, told in a sentence: which one, what was given, what is allowed."""
