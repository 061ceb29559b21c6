"""How the lanes of an interpreted warp stand: who runs, who waits for whom, who is next.

Lanes stand apart or together as in frame.py: each has a place, those at the lowest place that
do not wait at a convergence point run next. dispatcher.py does the same for translated code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hcq.errors import SimFault
from sim.nv.sass.convergence import STUCK_LANES, is_exclusive

PATIENCE = 25  # backward branches before other lanes get a turn
LANES = 32

Array = np.ndarray[Any, np.dtype[Any]]


class Standing:
    """The places of 32 lanes, of which those in `mask` exist."""

    def __init__(self, mask: int) -> None:
        self.places = np.zeros(LANES, np.int64)
        self.live = np.array([bool(mask >> lane & 1) for lane in range(LANES)])
        self.active = self.live.copy()
        self.blocked = np.zeros(LANES, np.bool_)
        self.syncing = np.zeros(LANES, np.bool_)  # those of the blocked at a WARPSYNC or BAR
        self.exclusive = np.zeros(LANES, np.bool_)  # lanes that have to be done before others run
        self.wanted = np.zeros(LANES, np.uint32)  # what each blocked lane waits for: lanes,
        self.keys = np.zeros(LANES, np.int64)  # and under which key (convergence.py)
        self.returns = np.zeros(LANES, np.int64)  # where ENDCOLLECTIVE sends each lane
        self.patience = PATIENCE
        self.leader = 0
        self.yielded = False
        self.turn: Array | None = None  # lanes that were given a turn, while they are together

    def choose(self) -> int:
        """Make the lanes at the next place active; the place. SimFault if all wait for ever."""
        able = self._able()
        if self.turn is not None and self.patience > 0:
            places = self.places[self.turn]
            whole = bool((self.turn & able).sum() == len(places)) and len(places) > 0
            if whole and (places == places[0]).all():
                self.active = able & (self.places == places[0])
                return int(places[0])
        self.turn = None
        if self.patience <= 0:
            return self._turn(able)
        if not able.any():
            raise SimFault(STUCK_LANES)
        place = int(self.places[able].min())
        return self._run(able, place)

    def _able(self) -> Array:
        """Lanes that may run."""
        while True:
            free = self.live & ~self.blocked
            first = free & self.exclusive
            if first.any():
                return first
            self.exclusive[:] = False
            turns = self.patience <= 0 or not free.any()
            group = self._complete(self.live & self.blocked) if turns else None
            if group is None:
                return free
            self._release(group)

    def _turn(self, able: Array) -> int:
        """Other lanes than the last go on."""
        if self.yielded and not self.exclusive.any():
            able = self.live & ~self.syncing
        if not able.any():
            raise SimFault(STUCK_LANES)
        self.patience = PATIENCE
        self.yielded = False
        others = able & ~self.active
        pool = others if others.any() else able
        turned = [(self.leader + 1 + step) % LANES for step in range(LANES)]
        self.leader = next(lane for lane in turned if pool[lane])
        place = int(self.places[self.leader])
        self.turn = able & (self.places == place)
        return self._run(able, place)

    def _run(self, able: Array, place: int) -> int:
        self.active = able & (self.places == place)
        self.blocked &= ~self.active
        return place

    def meet(self, wanted: Array, key: int, place: int, *, sync: bool) -> bool:
        """The lanes that run are at a convergence point and go on at a place; whether they do now.

        wanted: for each lane, uint32, the lanes that have to be there too.
        """
        came = self.active.copy()
        np.copyto(self.wanted, wanted, where=came)
        self.keys[came] = key
        self.places[came] = place
        self.exclusive[:] = False
        self.blocked |= came
        if sync:
            self.syncing |= came
        alone = sync and is_exclusive(key)
        met = np.zeros(LANES, np.bool_)
        while (group := self._complete(came & ~met)) is not None:
            self._release(group)
            met |= group
            if alone:
                break
        if alone or not met.any() or (self.places[met] != place).any():
            return False
        self.active = met
        return True

    def _complete(self, candidates: Array) -> Array | None:
        """The first group of waiting lanes, a candidate among them, of whom nobody is missing."""
        for lane in np.flatnonzero(candidates):
            same = (self.wanted == self.wanted[lane]) & (self.keys == self.keys[lane])
            group: Array = self.blocked & same
            needed = (int(self.wanted[lane]) >> np.arange(LANES)) & 1 != 0
            if not (needed & self.live & ~group).any():
                return group
        return None

    def _release(self, group: Array) -> None:
        """A group goes on: at one place and before others if its key says so."""
        lane = int(np.argmax(group))
        if self.syncing[lane] and is_exclusive(int(self.keys[lane])):
            self.places[group] = self.places[lane]
            self.exclusive = group.copy()
        self.blocked &= ~group
        self.syncing &= ~group

    def leave(self, number: int, gone: int) -> None:
        """Nobody who waits at a BSYNC with this barrier's number waits for `gone` any more."""
        which = self.blocked & ~self.syncing & (self.keys & 15 == number)
        self.wanted[which] &= np.uint32(~gone & 0xFFFF_FFFF)
