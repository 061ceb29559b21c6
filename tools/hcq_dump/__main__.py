"""The hcq-dump command.

Exit codes: 0 done; 2 could not do it (usage, unreadable input); 3 done, but
something was torn or unknown; 130 interrupted.
"""

import argparse
import os
import sys

from hcq.errors import HcqError
from tools.hcq_dump.chip import AMD_ARCHES, ARCHES, NV_ARCHES

KINDS = tuple(ARCHES)
_EPILOG = """\
JSON lines: one object a line; "record" says its kind.
  packet  device queue submission buffer; off (bytes), addr (on the GPU, where known),
          dw (the words, as hex text), engine op fields notes flags (unknown, torn);
          with --fields bits: a list of name word high low value, and means where the
          value has a name
  ioctl   seq t dur fd file name ret errno; args and out: before and after; names of numbers;
          inner and inner_out: further arguments, where there are any
  device  name vendor arch
Numbers of up to 32 bits are numbers, 64-bit ones, addresses and arguments of calls hex text.
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="hcq-dump", description="Command streams as text.")
    verbs = top.add_subparsers(dest="verb", required=True)
    cat = verbs.add_parser(
        "cat",
        help="print every packet, one a line",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cat.add_argument("file", metavar="FILE", help="words, or a recording; - is standard input")
    words = cat.add_argument_group("raw words")
    words.add_argument("--as", dest="kind", choices=KINDS, help="what they are")
    chips = (*AMD_ARCHES, *NV_ARCHES)
    words.add_argument("--arch", choices=chips, help="the chip they are of")
    picks = cat.add_argument_group("recordings")
    picks.add_argument("--queue", metavar="NAME", help="only this queue (compute0, copy*)")
    picks.add_argument("--sub", metavar="N", type=int, help="only submission N (the s column)")
    picks.add_argument("--no-ioctl", action="store_true", help="leave out ioctls and devices")
    cat.add_argument("-x", "--raw", action="store_true", help="add the words in hex")
    cat.add_argument("--fields", action="store_true", help="add every bit field, zeros too")
    cat.add_argument("--jsonl", action="store_true", help="JSON lines instead of text")
    cat.add_argument("-q", "--quiet", action="store_true", help="no summary or notes on stderr")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code."""
    options = parser().parse_args(arguments)
    try:
        from tools.hcq_dump.cat import cat

        code = cat(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough; nothing is left to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"hcq-dump: {error.filename or options.file}: {error.strerror}", file=sys.stderr)
        return 2
    except HcqError as error:
        print(f"hcq-dump: {error}", file=sys.stderr)
        return 2
    return code


if __name__ == "__main__":
    sys.exit(main())
