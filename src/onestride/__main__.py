"""`onestride` and `python -m onestride`: before the command line is imported nothing has begun, and a signal ends it there and then."""

import os
import signal


def main() -> None:
    """Import the command line and run it."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    usual = (signal.default_int_handler, signal.SIG_DFL)  # a job in the background ignores the first, nohup the last
    before = {number: signal.signal(number, _leave) for number in numbers if signal.getsignal(number) in usual}
    from onestride.cli import main as run

    for number, handler in before.items():
        signal.signal(number, handler)
    run()


def _leave(number: int, _: object) -> None:
    """A KeyboardInterrupt in the midst of an import would be a traceback, or get lost."""
    words = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    try:
        os.write(2, f"onestride: {words}; nothing half-written is left behind\n".encode())
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
