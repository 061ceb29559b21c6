"""The hcq-dump command.

Exit codes: 0 done; 2 could not do it (usage, unreadable input); 3 done, but
something was torn or unknown; 130 interrupted.
"""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hcq.errors import ConfigError, HcqError

if TYPE_CHECKING:
    from tools.hcq_dump.record import Packet
    from tools.hcq_dump.source import Stream

KINDS = ("pm4", "sdma", "pushbuffer", "qmd", "gpfifo")
AMD_ARCHES = ("gfx1100",)
NV_ARCHES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
# The chips each kind of words is for; the first is meant when none is named.
ARCHES = {
    **dict.fromkeys(("pm4", "sdma"), AMD_ARCHES),
    **dict.fromkeys(("pushbuffer", "qmd", "gpfifo"), ("sm_90", *NV_ARCHES)),
}


@dataclass
class Tally:
    """What a run saw: for the summary and the exit code."""

    packets: int = 0
    words: int = 0
    used: int = 0
    unknown: int = 0
    torn: int = 0

    def text(self) -> str:
        parts = [
            f"{self.packets} packets",
            f"{self.used} of {self.words} words used",
            f"{self.unknown} unknown",
        ]
        return ", ".join(parts + ([f"{self.torn} torn"] if self.torn else []))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="hcq-dump", description="Command streams as text.")
    verbs = top.add_subparsers(dest="verb", required=True)
    cat = verbs.add_parser("cat", help="print every packet, one a line")
    cat.add_argument("file", metavar="FILE", help="words, or a recording; - is standard input")
    cat.add_argument("--as", dest="kind", choices=KINDS, help="what raw words are")
    chips = (*AMD_ARCHES, *NV_ARCHES)
    cat.add_argument("--arch", choices=chips, help="chip of raw words (gfx1100, sm_90)")
    cat.add_argument("-x", dest="raw", action="store_true", help="add the words in hex")
    cat.add_argument("--fields", action="store_true", help="add a line per register bit field")
    cat.add_argument("--jsonl", action="store_true", help="JSON lines instead of text")
    cat.add_argument("-q", "--quiet", action="store_true", help="no summary on stderr")
    return top


class Decoders:
    """The decoders of all kinds, and what was seen of each channel's classes so far."""

    def __init__(self) -> None:
        self._channels: dict[tuple[str, str], object] = {}

    def decode(self, stream: "Stream") -> Iterator["Packet"]:
        """The packets of a stream."""
        if stream.kind == "pushbuffer":
            from tools.hcq_dump import pushbuffer

            key = stream.place.device, stream.place.queue
            channel = self._channels.get(key)
            if channel is None:
                channel = self._channels[key] = pushbuffer.Channel(stream.arch)
            return pushbuffer.decode(stream.words, channel, stream.needed)
        module = importlib.import_module(f"tools.hcq_dump.{stream.kind}")
        if stream.kind in ("qmd", "gpfifo"):
            return module.decode(stream.words, stream.arch)
        return module.decode(stream.words)


def streams(options: argparse.Namespace, tally: Tally) -> Iterator[object]:
    """The streams of the input: one for raw words, one per submission of a recording."""
    from tools.hcq_dump import recording, source

    data = source.read_bytes(options.file)
    if source.is_recording(data):
        yield from recording.read(data, options.file, tally)
        return
    if options.kind is None:
        raise ConfigError(
            f"{options.file} holds raw words: what are they?",
            hint=f"add --as {' or --as '.join(KINDS)}",
        )
    chips = ARCHES[options.kind]
    arch = options.arch or chips[0]
    if arch not in chips:
        raise ConfigError(
            f"{options.kind} words are of no {arch}",
            facts={"accepted": ", ".join(dict.fromkeys(chips))},
        )
    words = source.words_of(data, options.file)
    yield source.Stream(options.kind, source.Place(queue=options.kind), words, arch)


def cat(options: argparse.Namespace) -> int:
    """Print every packet of the input; the exit code."""
    from tools.hcq_dump.record import as_json, child_lines, line

    tally, decoders = Tally(), Decoders()
    for stream in streams(options, tally):
        if isinstance(stream, str):
            kind = stream.partition(" ")[0]
            print(json.dumps({"record": kind, "text": stream}) if options.jsonl else stream)
            continue
        tally.words += len(stream.words)
        for packet in decoders.decode(stream):
            tally.packets += 1
            tally.used += len(packet.raw)
            tally.unknown += packet.unknown
            tally.torn += packet.torn
            if options.jsonl:
                print(json.dumps(as_json(packet, stream.place)))
                continue
            print(line(packet, stream.place, options.raw))
            for child in child_lines(packet, stream.place) if options.fields else ():
                print(child)
    if not options.quiet:
        print(tally.text(), file=sys.stderr)
    return 3 if tally.unknown or tally.torn else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code."""
    options = parser().parse_args(arguments)
    try:
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
