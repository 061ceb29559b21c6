"""Optimisers: one in-place update of all parameters per step."""

from collections.abc import Sequence
from typing import Any

from jit.dtype import dtypes
from tensor.errors import TensorError
from tensor.tensor import Tensor, assign_all


class Optimizer:
    """Base: holds the parameters, and a learning rate that lives on the device."""

    def __init__(self, params: Sequence[Tensor], lr: float, device: str | None = None) -> None:
        unique = list({id(p): p for p in params}.values())
        strange = [type(p).__name__ for p in unique if not isinstance(p, Tensor)]
        if strange:
            raise TensorError(f"an optimizer takes tensors, not {strange[0]}")
        if not unique:
            raise TensorError("an optimizer without parameters")
        for p in unique:
            if p.requires_grad is None:
                p.requires_grad_()
        self.params = [p for p in unique if p.requires_grad]
        self.buffers = [p for p in unique if not p.requires_grad]
        self.device = device or self.params[0].device
        self.lr = Tensor([float(lr)], device=self.device, dtype=dtypes.float32)

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for p in self.params:
            p.grad = None

    def step(self) -> None:
        """Update every parameter from its gradient."""
        self.schedule_step()

    def schedule_step(self) -> list[Tensor]:
        """Carry out one update; returns what was written."""
        if not Tensor.training:
            raise TensorError(
                "an optimizer step outside training mode",
                hint="set Tensor.training = True, or use `with Tensor.train():`",
            )
        missing = [i for i, p in enumerate(self.params) if p.grad is None]
        if missing:
            raise TensorError(
                "parameters without gradient: "
                + ", ".join(_name(self.params[i], i) for i in missing),
                hint="call backward() on a loss that depends on them",
            )
        grads = [p.grad for p in self.params if p.grad is not None]
        pairs = [(target, value.node) for target, value in self._update(grads)]
        assign_all(pairs)
        return [target for target, _ in pairs]

    def _update(self, grads: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """(tensor to overwrite, its new value) pairs for one step."""
        raise NotImplementedError(f"{type(self).__name__} has no update rule")

    def _state(self) -> list[Tensor]:
        """A zero tensor per parameter, in float32 at least."""
        made = [p.zeros_like(dtype=_wide(p)).contiguous() for p in self.params]
        made[0].realize(*made[1:])
        return made


def _name(p: Tensor, place: int) -> str:
    return f"#{place} {p.dtype.name}{list(p.shape)}"


def _wide(p: Tensor) -> Any:
    return dtypes.float64 if p.dtype is dtypes.float64 else dtypes.float32


class SGD(Optimizer):
    """Stochastic gradient descent with momentum and weight decay."""

    def __init__(
        self,
        params: Sequence[Tensor],
        lr: float = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        classic: bool = False,
        device: str | None = None,
    ) -> None:
        """classic: the learning rate scales what enters the momentum, not what leaves it."""
        super().__init__(params, lr, device)
        self.momentum, self.weight_decay = momentum, weight_decay
        self.nesterov, self.classic = nesterov, classic
        self.b = self._state() if momentum else []

    def _update(self, grads: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        pairs: list[tuple[Tensor, Tensor]] = []
        for i, (p, grad) in enumerate(zip(self.params, grads, strict=True)):
            lr = self.lr.to(p.device)
            g = grad.cast(_wide(p))
            if self.weight_decay:
                g = g + p.detach() * self.weight_decay
            if self.classic:
                g = g * lr
            if self.momentum:
                moved = self.b[i] * self.momentum + g
                pairs.append((self.b[i], moved))
                g = g + moved * self.momentum if self.nesterov else moved
            pairs.append((p, p.detach().cast(g.dtype) - (g if self.classic else g * lr)))
        return pairs


class AdamW(Optimizer):
    """Adam with decoupled weight decay."""

    def __init__(
        self,
        params: Sequence[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        device: str | None = None,
    ) -> None:
        super().__init__(params, lr, device)
        self.b1, self.b2, self.eps, self.weight_decay = b1, b2, eps, weight_decay
        self.b1_t = Tensor([1.0], device=self.device, dtype=dtypes.float32)
        self.b2_t = Tensor([1.0], device=self.device, dtype=dtypes.float32)
        self.m, self.v = self._state(), self._state()

    def _update(self, grads: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        b1_t, b2_t = self.b1_t * self.b1, self.b2_t * self.b2
        pairs = [(self.b1_t, b1_t), (self.b2_t, b2_t)]
        for p, grad, m, v in zip(self.params, grads, self.m, self.v, strict=True):
            g = grad.cast(_wide(p))
            old = p.detach().cast(g.dtype)
            lr = self.lr.to(p.device)
            moved = m * self.b1 + g * (1 - self.b1)
            spread = v * self.b2 + g * g * (1 - self.b2)
            first = moved / (1 - b1_t.to(p.device))
            second = (spread / (1 - b2_t.to(p.device))).sqrt()
            step = first / (second + self.eps) + old * self.weight_decay
            pairs += [(m, moved), (v, spread), (p, old - step * lr)]
        return pairs


class Adam(AdamW):
    """Adam: no weight decay."""

    def __init__(
        self,
        params: Sequence[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        device: str | None = None,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, 0.0, device)
