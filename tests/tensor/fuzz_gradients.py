"""Random differentiable programs, and their gradients by central differences."""

import numpy as np

from jit.dtype import dtypes
from tensor import Tensor

STEP = 1e-6


class Program:
    """A list of operations drawn once, applied to tensors of any dtype and device."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        rank = int(self.rng.integers(1, 4))
        shape = tuple(int(n) for n in self.rng.integers(2, 5, rank))
        self.inputs = [self.rng.uniform(0.3, 1.7, shape) for _ in range(2)]
        self.seed = int(self.rng.integers(2**31))
        self.steps = int(self.rng.integers(3, 9))

    def loss(self, tensors):
        """One number of the tensors; the same operations at each call."""
        rng = np.random.default_rng(self.seed)
        pool = list(tensors)
        for _ in range(self.steps):
            x = pool[int(rng.integers(len(pool)))]
            made = OPERATIONS[int(rng.integers(len(OPERATIONS)))](x, pool, rng)
            if made.numel() <= 400:
                pool.append(made)
        # Every value counts, with weights that tell its elements apart.
        total = None
        for x in pool:
            weights = rng.uniform(0.5, 1.5, x.shape)
            weight = Tensor(np.asarray(weights), dtype=x.dtype, device=x.device)
            part = (x * weight).sum()
            total = part if total is None else total + part
        return total


def other(x, pool, rng):
    same = [p for p in pool if p.shape == x.shape]
    return same[int(rng.integers(len(same)))]


def axis_of(x, rng):
    return int(rng.integers(x.ndim)) if x.ndim else None


def unary(x, pool, rng):
    names = ["exp", "sin", "cos", "tanh", "sigmoid", "neg", "square", "atan", "erf", "silu"]
    names += ["gelu", "softplus", "sinh", "cosh", "asinh", "exp2", "mish", "elu", "softsign"]
    bounded = x.tanh() if rng.random() < 0.7 else x * 0.1
    return getattr(bounded, names[int(rng.integers(len(names)))])()


def positive(x, pool, rng):
    names = ["log", "sqrt", "rsqrt", "reciprocal", "log2", "log10", "abs", "acosh"]
    return getattr(x.square() + 1.5, names[int(rng.integers(len(names)))])()


def binary(x, pool, rng):
    y = other(x, pool, rng)
    kind = int(rng.integers(9))
    return [
        lambda: x + y,
        lambda: x - y * 0.7,
        lambda: x.tanh() * y.sin(),
        lambda: x / (y.square() + 1),
        lambda: (x.square() + 0.5).pow(y.tanh()),
        lambda: x.maximum(y * 0.9 + 0.013),
        lambda: x.minimum(y * 1.1 - 0.0171),
        lambda: (x > 0.91).where(x, y),
        lambda: (x + 3).atan2(y.square() + 1),
    ][kind]()


def reduction(x, pool, rng):
    axis = axis_of(x, rng)
    kind = int(rng.integers(9))
    bounded = x.tanh()
    return [
        lambda: x.sum(axis),
        lambda: x.mean(axis, keepdim=True).expand(*x.shape),
        lambda: x.max(axis),
        lambda: x.min(axis),
        lambda: (bounded + 1.5).prod(axis),
        lambda: bounded.softmax(axis or 0),
        lambda: bounded.log_softmax(axis or 0),
        lambda: bounded.logsumexp(axis),
        lambda: (bounded + 0.01).layernorm(axis or 0, eps=0.1),
    ][kind]()


def movement(x, pool, rng):
    if not x.ndim:
        return x.reshape(1)
    axis = axis_of(x, rng)
    n = x.shape[axis]
    whole = [slice(None)] * x.ndim
    kind = int(rng.integers(9))
    if kind == 0:
        return x.permute(*(int(a) for a in rng.permutation(x.ndim)))
    if kind == 1:
        return x.flip(axis)
    if kind == 2:
        return x.pad([(int(a), int(b)) for a, b in rng.integers(0, 3, (x.ndim, 2))])
    if kind == 3:
        whole[axis] = slice(None, None, 2)
        return x[tuple(whole)]
    if kind == 4:
        whole[axis] = slice(None, None, -1 if n < 3 else -2)
        return x[tuple(whole)]
    if kind == 5:
        return x.unsqueeze(axis).expand(*x.shape[:axis], 3, *x.shape[axis:])
    if kind == 6:
        return x.unfold(axis, min(2, n), 1)
    if kind == 7:
        return x.cat(x * 0.5, dim=axis)
    return x.flatten()


def gathered(x, pool, rng):
    if not x.ndim:
        return x * 2
    rows = rng.integers(0, x.shape[0], int(rng.integers(1, 6)))
    return x[Tensor(rows.astype(np.int32), device=x.device)]


def product(x, pool, rng):
    if x.ndim < 2:
        return x * 0.5
    return x.tanh() @ x.tanh().transpose(-1, -2)


def spatial(x, pool, rng):
    if x.ndim != 3 or min(x.shape[1:]) < 2:
        return x.sin()
    image = x.unsqueeze(0)
    kind = int(rng.integers(3))
    if kind == 0:
        return image.max_pool2d(2, stride=1)
    if kind == 1:
        return image.avg_pool2d(2, stride=1, padding=1)
    channels = x.shape[0]
    weight = rng.uniform(-1, 1, (2, channels, 2, 2))
    w = Tensor(weight, dtype=x.dtype, device=x.device)
    return image.conv2d(w, stride=int(rng.integers(1, 3)), padding=1)


OPERATIONS = [unary, unary, positive, binary, binary, binary, reduction, reduction, movement]
OPERATIONS += [movement, gathered, product, spatial]


def gradients_of(seed, device, dtype=dtypes.float32):
    """The loss's gradient with respect to every input."""
    program = Program(seed)
    inputs = [Tensor(a, dtype=dtype, device=device, requires_grad=True) for a in program.inputs]
    program.loss(inputs).backward()
    Tensor.realize(*(t.grad for t in inputs))
    return [t.grad.numpy() for t in inputs]


def check_gradients(seed, device):
    """AssertionError where a gradient is not the difference quotient along a random direction."""
    program = Program(seed)
    found = gradients_of(seed, device, dtypes.float64)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        ways = [rng.uniform(-1, 1, a.shape) for a in program.inputs]
        ends = [
            program.loss(
                [
                    Tensor(a + sign * STEP * w, dtype=dtypes.float64, device=device)
                    for a, w in zip(program.inputs, ways, strict=True)
                ]
            ).item()
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * STEP)
        given = sum(float((g * w).sum()) for g, w in zip(found, ways, strict=True))
        assert abs(slope - given) <= 1e-4 * max(1, abs(slope), abs(given)), (seed, slope, given)
