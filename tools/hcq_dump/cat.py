"""hcq-dump cat: every packet of the input, one a line."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hcq.errors import ConfigError
from tools.hcq_dump import chip, printed, recording, source
from tools.hcq_dump.record import Packet, Place, as_json, bit_lines, line
from tools.hcq_dump.source import Stream
from tools.hcq_dump.words import words_of

if TYPE_CHECKING:
    from tools.hcq_dump import pushbuffer


@dataclass
class Tally:
    """What a run saw: for the summary and the exit code."""

    packets: int = 0
    words: int = 0
    used: int = 0
    unknown: int = 0
    torn: int = 0

    def add(self, packet: Packet) -> None:
        """Count a packet."""
        self.packets += 1
        self.used += len(packet.raw)
        self.unknown += packet.unknown
        self.torn += packet.torn

    def text(self) -> str:
        """The summary."""
        parts = [
            f"{self.packets} packets",
            f"{self.used} of {self.words} words used",
            f"{self.unknown} unknown",
        ]
        return ", ".join(parts + ([f"{self.torn} torn"] if self.torn else []))


class Decoders:
    """The decoders of all kinds, and what was seen of each channel so far."""

    def __init__(self) -> None:
        self._channels: dict[tuple[str, str], pushbuffer.Channel] = {}

    def decode(self, stream: Stream) -> Iterator[Packet]:
        """The packets of a stream."""
        if stream.kind in chip.AMD_KINDS:
            return _of_amd(stream)
        from tools.hcq_dump import gpfifo, pushbuffer, qmd

        if stream.kind == "gpfifo":
            return gpfifo.decode(stream.words, stream.arch)
        key = stream.place.device, stream.place.queue
        if key not in self._channels:
            self._channels[key] = pushbuffer.Channel(stream.arch)
        channel = self._channels[key]
        if stream.kind == "qmd":
            return qmd.decode(stream.words, stream.arch, stream.place.address, channel.launches)
        channel.buffer, channel.records = stream.place.buffer, stream.records
        return pushbuffer.decode(stream.words, channel, stream.needed)


def _of_amd(stream: Stream) -> Iterator[Packet]:
    from tools.hcq_dump import pm4, sdma

    decode = sdma.decode if stream.kind == "sdma" else pm4.decode
    return decode(stream.words)


@dataclass
class Picks:
    """Which submissions are wanted, and which there are."""

    queue: str | None
    submission: int | None
    seen: dict[str, None] = field(default_factory=dict)
    found: bool = False

    @property
    def any(self) -> bool:
        """Whether something was picked at all."""
        return self.queue is not None or self.submission is not None

    def takes(self, place: Place) -> bool:
        """Whether a submission is wanted."""
        self.seen[place.queue] = None
        names = place.queue, f"{place.device}/{place.queue}"
        wanted = self.queue is None or any(fnmatchcase(name, self.queue) for name in names)
        wanted = wanted and self.submission in (None, place.submission)
        self.found = self.found or wanted
        return wanted

    def check(self, name: str) -> None:
        """ConfigError where nothing was found."""
        if self.any and not self.found:
            asked = {"--queue": self.queue, "--sub": self.submission}
            given = " ".join(f"{key} {value}" for key, value in asked.items() if value is not None)
            raise ConfigError(
                f"{name} holds no submission for {given}",
                facts={"queues": ", ".join(self.seen) or "none"},
            )


def cat(options: argparse.Namespace) -> int:
    """Print every packet of the input; the exit code."""
    tally, decoders = Tally(), Decoders()
    picks = Picks(options.queue, options.sub)
    for found in _read(options, tally):
        if isinstance(found, recording.Event):
            if not options.no_ioctl and not picks.any:
                print(json.dumps(found.json) if options.jsonl else found.text)
            continue
        # Streams that are not wanted may bind classes that later ones use.
        packets = decoders.decode(found)
        if not picks.takes(found.place):
            for _ in packets:
                pass
            continue
        tally.words += len(found.words)
        for packet in packets:
            tally.add(packet)
            _print(packet, found.place, options)
    picks.check(options.file)
    if not options.quiet:
        print(tally.text(), file=sys.stderr)
    return 3 if tally.unknown or tally.torn else 0


def _print(packet: Packet, place: Place, options: argparse.Namespace) -> None:
    if options.jsonl:
        print(json.dumps(as_json(packet, place, options.fields)))
        return
    print(line(packet, place, options.raw))
    for text in bit_lines(packet, place) if options.fields else ():
        print(text)


def _read(options: argparse.Namespace, tally: Tally) -> Iterator[Stream | recording.Event]:
    """The streams of the input: one for raw words, one per buffer of a recording."""
    data = source.read_bytes(options.file)
    if source.is_recording(data):
        _refuse(options, "a recording", "kind", "arch")
        yield from recording.read(data, options.file, tally)
        return
    source.check_readable(data, options.file)
    text = data.decode(errors="replace")
    if printed.is_printed(text):
        _refuse(options, "hcq-dump's own lines", "kind")
        for stream, classes in printed.streams(text, options.file):
            yield _of_chip(stream, options, classes)
        return
    _refuse(options, "raw words", "queue", "sub", "no_ioctl")
    words = words_of(data, options.file)
    if options.kind is None:
        raise ConfigError(
            f"{options.file} holds raw words: what are they?",
            hint=f"add --as {' or --as '.join(chip.ARCHES)}",
        )
    place = Place(queue=options.kind)
    yield _of_chip(Stream(options.kind, place, words), options, set())


def _of_chip(stream: Stream, options: argparse.Namespace, classes: set[int]) -> Stream:
    """The stream with its chip; on stderr how that was found, where nobody said it."""
    choice = chip.choose(stream.kind, stream.words, options.arch, classes)
    if choice.note and not options.quiet:
        print(f"hcq-dump: {choice.note}", file=sys.stderr)
    return replace(stream, arch=choice.arch)


_FLAGS = {"kind": "--as", "arch": "--arch", "queue": "--queue", "sub": "--sub",
          "no_ioctl": "--no-ioctl"}  # fmt: skip


def _refuse(options: argparse.Namespace, what: str, *names: str) -> None:
    """ConfigError for options that mean nothing for this input."""
    for name in names:
        if getattr(options, name) is not None and getattr(options, name) is not False:
            raise ConfigError(
                f"{_FLAGS[name]} is not for {what}, which {options.file} holds",
                hint=f"leave {_FLAGS[name]} out",
            )
