"""Layers, optimisers and weight files."""

import json

import numpy as np
import pytest

from hcq.errors import FileFormatError
from tensor import Tensor, TensorError, dtypes, nn


def values(t):
    return t.numpy().astype(np.float64)


@pytest.fixture(autouse=True)
def _on_cpu(monkeypatch):
    monkeypatch.setenv("DEVICE", "CPU")
    Tensor.manual_seed(0)


def test_linear():
    layer = nn.Linear(5, 3)
    x = Tensor.randn(2, 5)
    expected = values(x) @ values(layer.weight).T + values(layer.bias)
    np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_batch_norm_uses_batch_statistics_in_training_and_running_ones_after():
    layer = nn.BatchNorm(3)
    x = Tensor.randn(8, 3, 2, 2)
    a = values(x)
    mean, var = a.mean((0, 2, 3)), a.var((0, 2, 3))
    with Tensor.train():
        found = layer(x).numpy()
    shape = (1, 3, 1, 1)
    expected = (a - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean * 0.1, rtol=1e-4, atol=1e-6)
    running = 0.9 + 0.1 * a.var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(layer.running_var.numpy(), running, rtol=1e-4)
    assert layer.num_batches_tracked.item() == 1
    after = layer(x).numpy()
    expected = (a - mean.reshape(shape) * 0.1) / np.sqrt(running.reshape(shape) + 1e-5)
    np.testing.assert_allclose(after, expected, rtol=1e-4, atol=1e-5)


def test_two_training_batches_update_running_statistics_twice():
    layer = nn.BatchNorm(1, affine=False)
    with Tensor.train():
        a, b = layer(Tensor([[1.0], [3.0]])), layer(Tensor([[5.0], [7.0]]))
    a.realize(b)
    assert layer.running_mean.item() == pytest.approx(0.9 * 0.2 + 0.1 * 6)
    assert layer.num_batches_tracked.item() == 2


def test_embedding_gradient_counts_each_use():
    layer = nn.Embedding(4, 2)
    layer.weight.requires_grad_()
    layer(Tensor([1, 3, 1])).sum().backward()
    assert layer.weight.grad.tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]


def steps(optimizer_of, update, count=5):
    """Losses of w -> sum(w^2) with an optimiser, against a numpy rule."""
    w = Tensor([1.0, -2.0, 3.0])
    optimizer = optimizer_of([w])
    a, state = np.array([1.0, -2.0, 3.0]), {}
    with Tensor.train():
        for step in range(1, count + 1):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            a = update(a, 2 * a, state, step)
    np.testing.assert_allclose(w.numpy(), a, rtol=1e-5)


def sgd(a, g, state, step):
    state["b"] = state.get("b", 0) * 0.9 + g + 0.01 * a
    return a - 0.1 * (g + 0.01 * a + 0.9 * state["b"])


def adam(decay):
    def rule(a, g, state, step):
        state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
        state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
        m, v = state["m"] / (1 - 0.9**step), state["v"] / (1 - 0.999**step)
        return a - 0.1 * (m / (np.sqrt(v) + 1e-8) + decay * a)

    return rule


def test_sgd_with_momentum_and_decay():
    steps(lambda p: nn.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, nesterov=True), sgd)


def test_plain_sgd():
    steps(lambda p: nn.optim.SGD(p, 0.1), lambda a, g, state, step: a - 0.1 * g)


def test_adam():
    steps(lambda p: nn.optim.Adam(p, 0.1), adam(0.0))


def test_adamw():
    steps(lambda p: nn.optim.AdamW(p, 0.1, weight_decay=0.05), adam(0.05))


@pytest.mark.refusal
def test_step_without_gradient_names_the_parameter():
    optimizer = nn.optim.SGD([Tensor.zeros(2, 3)])
    with Tensor.train(), pytest.raises(TensorError, match=r"without gradient: #0 float32\[2, 3\]"):
        optimizer.step()


@pytest.mark.refusal
def test_step_outside_training_is_refused():
    with pytest.raises(TensorError, match="outside training mode"):
        nn.optim.SGD([Tensor.zeros(2)]).step()


class Model:
    def __init__(self):
        self.layers = [nn.Linear(2, 3), nn.Linear(3, 1, bias=False)]
        self.table = {"scale": Tensor([2.0])}


def test_state_names_follow_the_object():
    names = ["layers.0.weight", "layers.0.bias", "layers.1.weight", "table.scale"]
    assert list(nn.state.get_state_dict(Model())) == names


def test_weights_survive_a_file(tmp_path):
    first, second = Model(), Model()
    path = str(tmp_path / "w.safetensors")
    nn.state.safe_save(nn.state.get_state_dict(first), path)
    nn.state.load_state_dict(second, nn.state.safe_load(path))
    x = Tensor.randn(4, 2)
    np.testing.assert_array_equal(second.layers[0](x).numpy(), first.layers[0](x).numpy())


def test_files_are_what_the_reference_reader_reads(tmp_path):
    from safetensors.numpy import load_file, save_file

    path = str(tmp_path / "w.safetensors")
    state = {"a": Tensor([[1.5, 2.5]]), "b": Tensor([1, 2, 3])[::-1], "c": Tensor(True)}
    nn.state.safe_save(state, path)
    found = load_file(path)
    assert {k: v.tolist() for k, v in found.items()} == {
        "a": [[1.5, 2.5]], "b": [3, 2, 1], "c": True,
    }  # fmt: skip
    save_file({"x": np.arange(3, dtype=np.int64)}, path)
    assert nn.state.safe_load(path)["x"].tolist() == [0, 1, 2]


def test_bfloat16_weights_survive_a_file(tmp_path):
    path = str(tmp_path / "w.safetensors")
    x = Tensor([1.5, -2.0, 3.140625]).cast(dtypes.bfloat16)
    nn.state.safe_save({"x": x}, path)
    found = nn.state.safe_load(path)["x"]
    assert found.dtype is dtypes.bfloat16
    assert found.tolist() == [1.5, -2.0, 3.140625]


@pytest.mark.refusal
def test_missing_and_extra_weights_are_named():
    state = nn.state.get_state_dict(Model())
    state["extra"] = state.pop("table.scale")
    with pytest.raises(TensorError, match=r"missing=\['table.scale'\] left_over=\['extra'\]"):
        nn.state.load_state_dict(Model(), state)


@pytest.mark.refusal
def test_wrong_shape_is_named():
    state = nn.state.get_state_dict(Model())
    state["table.scale"] = Tensor([1.0, 2.0])
    with pytest.raises(
        TensorError, match=r"table.scale: the model has shape \[1\], the state \[2\]"
    ):
        nn.state.load_state_dict(Model(), state)


def crafted(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(**changes):
    return {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} | changes


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"abc", "shorter than its 8-byte header length"),
        (b"\xff" * 8 + b"{}", "the header does not fit"),
        (crafted(b"{not json"), "the header is not JSON"),
        (crafted([1]), "not a JSON object"),
        (crafted({"a": entry()}, b"12"), "a tensor's bytes do not fit"),
        (crafted({"a": entry(dtype="X9")}, b"1234"), "unknown dtype 'X9'"),
        (crafted({"a": entry(shape=[-1])}, b"1234"), "not a whole number"),
        (crafted({"a": 5}, b"1234"), "lacks dtype, shape or data_offsets"),
        (crafted({"a": entry(), "b": entry()}, b"1234"), "tensors overlap"),
        (crafted({"a": entry(shape=[2**62])}, b"1234"), "do not fit"),
    ],
)
def test_bad_weight_files_are_refused(tmp_path, content, text):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=text):
        nn.state.safe_load(str(path))
