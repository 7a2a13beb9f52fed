"""`onestride` and `python -m onestride`: before the command line is imported nothing has begun, and Ctrl-C ends it there and then."""

import os
import signal


def main() -> None:
    """Import the command line and run it."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a job in the background ignores it
    if usual:
        signal.signal(signal.SIGINT, _leave)
    from onestride.cli import main as run

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(*_: object) -> None:
    """A KeyboardInterrupt in the midst of an import would be a traceback, or get lost."""
    try:
        os.write(2, b"onestride: interrupted; nothing half-written is left behind\n")
    finally:
        os._exit(130)


if __name__ == "__main__":
    main()
