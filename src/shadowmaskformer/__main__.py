"""The command `shadowmaskformer`, also as `python -m shadowmaskformer`."""

import signal
import sys


def main() -> int:
    """Run the command. Until it is loaded, Ctrl-C ends the process at once: there is nothing to tidy up yet."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from shadowmaskformer.cli import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main())
