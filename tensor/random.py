"""Counter-based random numbers: Threefry-2x32 with 20 rounds, the same bits on every device.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC11), section 4.

Element i of the n-th draw is a function of (seed, numbers drawn before, i) alone.
The numbers drawn before are fixed when a tensor is made, so the order of reading
does not matter.
"""

import math
import threading
import time
from typing import Any, Self

from jit import graph
from jit.dtype import DType, default_float, default_int, dtypes, to_dtype
from jit.graph import Node, Op
from tensor.core import whole
from tensor.creation import Creation, device_name, upload
from tensor.errors import TensorError
from tensor.movement import shape_of

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


class _Generator:
    """Seed and the count of numbers drawn so far, of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seed = time.time_ns() % 2**63
        self.drawn = 0

    def reseed(self, seed: int) -> None:
        with self.lock:
            self.seed, self.drawn = seed % 2**64, 0

    def take(self, count: int) -> tuple[int, int]:
        """(seed, place of the first of count numbers)."""
        with self.lock:
            first = self.drawn
            self.drawn += count
            return self.seed, first


GENERATOR = _Generator()


def _op(op: Op, a: Node, b: Node | int) -> Node:
    other = b if isinstance(b, Node) else graph.const(b, a.dtype, a.shape, a.device)
    return graph.elementwise(op, a, other)


def threefry(key: tuple[Node, Node], counter: tuple[Node, Node]) -> tuple[Node, Node]:
    """Two uint32 nodes of random bits from a key and a counter of two uint32 nodes each."""
    k0, k1 = key
    keys = (k0, k1, _op(Op.XOR, _op(Op.XOR, k0, k1), PARITY))
    x0, x1 = _op(Op.ADD, counter[0], k0), _op(Op.ADD, counter[1], k1)
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x0 = _op(Op.ADD, x0, x1)
            turned = _op(Op.OR, _op(Op.SHL, x1, turn), _op(Op.SHR, x1, 32 - turn))
            x1 = _op(Op.XOR, turned, x0)
        x0 = _op(Op.ADD, x0, keys[(group + 1) % 3])
        x1 = _op(Op.ADD, _op(Op.ADD, x1, keys[(group + 2) % 3]), group + 1)
    return x0, x1


def random_bits(shape: tuple[int, ...], device: str) -> tuple[Node, Node]:
    """Two independent uint32 random words per element."""
    import numpy

    size = math.prod(shape)
    seed, first = GENERATOR.take(size)
    # Seed and place travel as data, so that one compiled kernel serves every draw.
    words = [seed & 0xFFFFFFFF, seed >> 32, first & 0xFFFFFFFF, first >> 32]
    state = upload(numpy.array(words, numpy.uint32), dtypes.uint32, device)

    def word(i: int) -> Node:
        one = graph.slice_(state, ((i, 1, 1),))
        return graph.expand(graph.reshape(one, (1,)), (size,))

    place = graph.iota((size,), 0, dtypes.uint32, device)
    low = _op(Op.ADD, place, word(2))
    carry = graph.cast(_op(Op.LT, low, place), dtypes.uint32)
    high = _op(Op.ADD, carry, word(3))
    bits = threefry((word(0), word(1)), (low, high))
    return graph.reshape(bits[0], shape), graph.reshape(bits[1], shape)


def _known(options: dict[str, Any]) -> None:
    strange = options.keys() - {"dtype", "device", "requires_grad"}
    if strange:
        raise TypeError(f"unknown argument {min(strange)!r} of a random tensor")


def uniform_float(bits: Node) -> Node:
    """uint32 bits -> float32 in [0, 1), a multiple of 2^-24."""
    top = graph.cast(_op(Op.SHR, bits, 8), dtypes.float32)
    return _op(Op.MUL, top, graph.const(2.0**-24, dtypes.float32, top.shape, top.device))


class Random(Creation):
    """Random tensors."""

    __slots__ = ()

    @staticmethod
    def manual_seed(seed: int = 0) -> None:
        """Start the sequence of random numbers of this process anew."""
        GENERATOR.reseed(whole(seed, "a seed"))

    @classmethod
    def _draw(cls, shape: tuple[int, ...], options: dict[str, Any]) -> tuple[Self, Self, DType]:
        """Two uniform float32 tensors in [0, 1) and the dtype asked for."""
        _known(options)
        dtype = to_dtype(options.get("dtype") or default_float())
        if not dtype.is_float:
            raise TensorError(f"random numbers of dtype {dtype.name}: only floats")
        first, second = random_bits(shape, device_name(options.get("device")))
        return cls.of(uniform_float(first)), cls.of(uniform_float(second)), dtype

    def _finished(self, dtype: DType, options: dict[str, Any]) -> Self:
        # In memory of its own: the bits cost far more than a load.
        made = self.cast(dtype).contiguous()  # type: ignore[attr-defined]
        made.requires_grad = options.get("requires_grad")
        return made  # type: ignore[no-any-return]

    @classmethod
    def rand(cls, *shape: Any, **options: Any) -> Self:
        """Uniform in [0, 1)."""
        first, _, dtype = cls._draw(shape_of(shape), options)
        return first._finished(dtype, options)

    @classmethod
    def randn(cls, *shape: Any, **options: Any) -> Self:
        """Normal with mean 0 and deviation 1, by Box and Muller."""
        first, second, dtype = cls._draw(shape_of(shape), options)
        radius = ((1 - first).log() * -2).sqrt()
        return (radius * (second * (2 * math.pi)).cos())._finished(dtype, options)

    def rand_like(self, **options: Any) -> Self:
        return self.rand(*self.shape, **{"dtype": self.dtype, "device": self.device, **options})

    def randn_like(self, **options: Any) -> Self:
        return self.randn(*self.shape, **{"dtype": self.dtype, "device": self.device, **options})

    @classmethod
    def randint(cls, *shape: Any, low: int = 0, high: int = 10, **options: Any) -> Self:
        """Whole numbers in [low, high)."""
        if high <= low:
            raise TensorError(f"randint: nothing in [{low}, {high})")
        _known(options)
        dtype = to_dtype(options.get("dtype") or default_int())
        first, second = random_bits(shape_of(shape), device_name(options.get("device")))
        wide = _op(Op.OR, _op(Op.SHL, graph.cast(first, dtypes.uint64), 32),
                   graph.cast(second, dtypes.uint64))  # fmt: skip
        made = cls.of(_op(Op.MOD, wide, high - low)).cast(dtypes.int64) + low
        return made._finished(dtype, options)

    @classmethod
    def uniform(cls, *shape: Any, low: float = 0.0, high: float = 1.0, **options: Any) -> Self:
        first, _, dtype = cls._draw(shape_of(shape), options)
        return (first * (high - low) + low)._finished(dtype, options)

    @classmethod
    def normal(cls, *shape: Any, mean: float = 0.0, std: float = 1.0, **options: Any) -> Self:
        drawn = cls.randn(*shape, **options)
        made = drawn * std + mean
        made.requires_grad = options.get("requires_grad")
        return made

    @classmethod
    def scaled_uniform(cls, *shape: Any, **options: Any) -> Self:
        """Uniform in [-1, 1) over the root of the number of elements."""
        bound = math.prod(shape_of(shape)) ** -0.5
        return cls.uniform(*shape, low=-bound, high=bound, **options)

    @classmethod
    def glorot_uniform(cls, *shape: Any, **options: Any) -> Self:
        sizes = shape_of(shape)
        bound = math.sqrt(6 / (sizes[0] + math.prod(sizes[1:])))
        return cls.uniform(*shape, low=-bound, high=bound, **options)

    @classmethod
    def kaiming_uniform(cls, *shape: Any, a: float = 0.01, **options: Any) -> Self:
        bound = math.sqrt(3) * cls._kaiming(shape_of(shape), a)
        return cls.uniform(*shape, low=-bound, high=bound, **options)

    @classmethod
    def kaiming_normal(cls, *shape: Any, a: float = 0.01, **options: Any) -> Self:
        return cls.normal(*shape, std=cls._kaiming(shape_of(shape), a), **options)

    @staticmethod
    def _kaiming(sizes: tuple[int, ...], a: float) -> float:
        return math.sqrt(2 / (1 + a**2) / math.prod(sizes[1:]))

    @classmethod
    def randperm(cls, n: int, **options: Any) -> Self:
        """The numbers 0 to n-1 in random order."""
        import numpy

        first, second = random_bits((n,), device_name(options.get("device")))
        keys = (cls.of(x).numpy().astype(numpy.uint64) for x in (first, second))  # type: ignore[attr-defined]
        high, low = keys
        order = numpy.argsort((high << numpy.uint64(32)) | low, kind="stable")
        dtype = to_dtype(options.get("dtype") or default_int())
        return cls(order.astype(dtype.numpy), device=options.get("device"))  # type: ignore[call-arg]

    def dropout(self, p: float = 0.5) -> Self:
        """In training, zero each element with probability p and scale the rest by 1/(1-p)."""
        from hcq.settings import get

        if not 0 <= p <= 1:
            raise TensorError(f"dropout: probability {p} is not in [0, 1]")
        if not get("TRAINING") or p == 0:
            return self
        if p == 1:
            return self.zeros_like()
        kept = self.rand_like(dtype=dtypes.float32) >= p
        return kept.where(self, 0) * (1 / (1 - p))
