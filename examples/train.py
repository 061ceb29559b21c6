"""Train a small network on handwritten digits: DEVICE=NV (or AMD, CPU) python examples/train.py"""

import argparse
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO

import numpy

from hcq.errors import HcqError
from tensor import Device, Tensor, nn

BATCH = 128
STEPS = {"mlp": 500, "conv": 150}


class Mlp:
    """64 pixels -> 128 -> 128 -> 10 classes."""

    def __init__(self) -> None:
        self.layers = [nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 10)]

    def __call__(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x).relu().dropout(0.3)
        return self.layers[-1](x)


class Conv:
    """Two convolutions with batch normalisation and pooling, then one layer."""

    def __init__(self) -> None:
        self.first, self.norm1 = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm(16)
        self.second, self.norm2 = nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm(32)
        self.last = nn.Linear(32 * 2 * 2, 10)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.norm1(self.first(x.reshape(-1, 1, 8, 8))).relu().max_pool2d()
        x = self.norm2(self.second(x)).relu().max_pool2d()
        return self.last(x.flatten(1))


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Shuffled images in [0, 1] and labels: four fifths to train on, one to test."""
    data = numpy.load(Path(__file__).parent / "data" / "digits.npz")
    order = Tensor.randperm(len(data["labels"])).numpy()
    images = data["images"].reshape(-1, 64)[order].astype(numpy.float32) / 16
    labels = data["labels"][order].astype(numpy.int32)
    held = len(labels) // 5
    parts = (images[held:], labels[held:], images[:held], labels[:held])
    return tuple(Tensor(part) for part in parts)


def train(model: Callable[[Tensor], Tensor], steps: int, log: TextIO | None) -> float:
    """Run the steps; the accuracy on the held-out digits is returned."""
    images, labels, test_images, test_labels = digits()
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=0.005)
    said = start = time.monotonic()
    with Tensor.train():
        for step in range(steps):
            chosen = Tensor.randint(BATCH, high=len(images))
            x, y = images[chosen], labels[chosen]
            optimizer.zero_grad()
            guess = model(x)
            loss = guess.sparse_categorical_crossentropy(y).backward()
            right = (guess.argmax(1) == y).mean()
            optimizer.step()
            if log:
                print(json.dumps({"step": step, "loss": loss.item()}), file=log)
            if time.monotonic() - said > 1:
                seen = f"loss {loss.item():.4f} accuracy {right.item():.3f}"
                Device[Device.DEFAULT].synchronize()  # what is queued is no step done yet
                said = time.monotonic()
                rate = (step + 1) / (said - start)
                print(f"step {step:4d} {seen} {rate:.1f} steps/s", flush=True)
    return (model(test_images).argmax(1) == test_labels).mean().item()


def count(text: str) -> int:
    """A number of steps, from the command line."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("mlp", "conv"), default="mlp")
    parser.add_argument("--steps", type=count, help="default: 500 for mlp, 150 for conv")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="one JSON line per step")
    options = parser.parse_args()
    try:
        log = options.log.open("w") if options.log else None
    except OSError as error:
        parser.error(f"--log: {error}")
    with log or nullcontext():
        device = Device[Device.DEFAULT]
        print(f"device {device.name} {device.arch}", flush=True)
        Tensor.manual_seed(options.seed)
        model = Mlp() if options.model == "mlp" else Conv()
        steps = options.steps if options.steps is not None else STEPS[options.model]
        print(f"test accuracy {train(model, steps, log):.4f}")


if __name__ == "__main__":
    try:
        main()
    except HcqError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None
