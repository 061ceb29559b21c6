"""Weights of a model by name, and safetensors files.

Source: huggingface/safetensors README, section Format.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from hcq.errors import FileFormatError
from jit.dtype import DType, dtypes
from tensor.errors import TensorError
from tensor.tensor import Tensor

_NAMES = {
    "BOOL": dtypes.bool, "I8": dtypes.int8, "U8": dtypes.uint8, "I16": dtypes.int16,
    "U16": dtypes.uint16, "I32": dtypes.int32, "U32": dtypes.uint32, "I64": dtypes.int64,
    "U64": dtypes.uint64, "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32,
    "F64": dtypes.float64,
}  # fmt: skip
_SHORT = {dtype.name: short for short, dtype in _NAMES.items()}
HEADER_LIMIT = 100_000_000


def get_state_dict(obj: Any, prefix: str = "", tensor_type: type = Tensor) -> dict[str, Tensor]:
    """Every tensor an object holds, by its path: lists, tuples, dicts and attributes."""
    return dict(_named(obj, prefix, tensor_type, set()))


def _named(obj: Any, prefix: str, kind: type, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    if isinstance(obj, kind):
        yield prefix.rstrip("."), obj  # type: ignore[misc]
        return
    if id(obj) in seen:
        return
    seen.add(id(obj))
    if isinstance(obj, list | tuple):
        parts: Mapping[Any, Any] = dict(enumerate(obj))
    elif isinstance(obj, dict):
        parts = obj
    else:
        parts = getattr(obj, "__dict__", {})
    for name, part in parts.items():
        yield from _named(part, f"{prefix}{name}.", kind, seen)


def get_parameters(obj: Any) -> list[Tensor]:
    """Every tensor an object holds."""
    return list(get_state_dict(obj).values())


def load_state_dict(
    model: Any,
    state_dict: dict[str, Tensor],
    strict: bool = True,
    verbose: bool = True,
    consume: bool = False,
) -> list[Tensor]:
    """Put values into a model's tensors by name; what was loaded is returned.

    strict: a missing or left-over name is a TensorError. consume: loaded entries
    leave state_dict.
    """
    own = get_state_dict(model)
    missing, extra = sorted(own.keys() - state_dict), sorted(state_dict.keys() - own)
    if strict and (missing or extra):
        raise TensorError(
            "the state does not fit the model", facts={"missing": missing, "left_over": extra}
        )
    loaded = []
    for name, target in own.items():
        if name not in state_dict:
            continue
        value = state_dict[name]
        if value.shape != target.shape:
            raise TensorError(
                f"{name}: the model has shape {list(target.shape)}, the state {list(value.shape)}"
            )
        target.replace(value.to(target.device).cast(target.dtype).contiguous()).realize()
        loaded.append(target)
        if consume:
            del state_dict[name]
    return loaded


def safe_save(tensors: dict[str, Tensor], fn: str, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file. It appears whole or not at all."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    place = 0
    for name, t in tensors.items():
        if not isinstance(t, Tensor):
            raise TensorError(f"safe_save: {name!r} is no tensor but {type(t).__name__}")
        end = place + t.nbytes()
        short = _SHORT[t.dtype.name]
        header[name] = {"dtype": short, "shape": list(t.shape), "data_offsets": [place, end]}
        place = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = f"{fn}.part{os.getpid()}"
    try:
        with open(partial, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for t in tensors.values():
                file.write(t.data())
        os.replace(partial, fn)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


def safe_load(fn: str, device: str | None = None) -> dict[str, Tensor]:
    """Read a safetensors file through a read-only map; FileFormatError when it is not one."""
    import numpy

    size = os.path.getsize(fn)
    if size < 8:
        raise _bad(fn, "shorter than its 8-byte header length", found=size)
    with open(fn, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, HEADER_LIMIT):
            raise _bad(fn, "the header does not fit", header=length, file_size=size)
        header = _header(fn, file.read(length))
    body = size - 8 - length
    header.pop("__metadata__", None)
    entries = {name: _entry(fn, name, value, body) for name, value in header.items()}
    _check_cover(fn, {name: (start, end) for name, (_, _, start, end) in entries.items()})
    if not body:
        return {n: Tensor.empty(s, dtype=d, device=device) for n, (d, s, _, _) in entries.items()}
    data = numpy.memmap(fn, numpy.uint8, "r", 8 + length)
    return {
        name: _mapped(data[start:end], dtype, device).reshape(shape)
        for name, (dtype, shape, start, end) in entries.items()
    }


def _mapped(data: Any, dtype: DType, device: str | None) -> Tensor:
    return Tensor(memoryview(data), dtype=dtype, device=device)


def _bad(fn: str, what: str, **facts: Any) -> FileFormatError:
    return FileFormatError(f"{fn} is not a safetensors file: {what}", facts=facts)


def _header(fn: str, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise _bad(fn, f"the header is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise _bad(fn, "the header is not a JSON object")
    return header


def _entry(fn: str, name: str, value: Any, body: int) -> tuple[DType, tuple[int, ...], int, int]:
    """One tensor's (dtype, shape, start, end), checked against the file."""
    try:
        short, shape = value["dtype"], tuple(value["shape"])
        start, end = value["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise _bad(fn, "an entry lacks dtype, shape or data_offsets", tensor=name) from None
    if short not in _NAMES:
        raise _bad(fn, f"unknown dtype {short!r}", tensor=name, known=sorted(_NAMES))
    numbers = (*shape, start, end)
    if any(not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in numbers):
        raise _bad(fn, "a size or offset is not a whole number", tensor=name)
    dtype = _NAMES[short]
    wanted = math.prod(shape) * dtype.itemsize
    if end - start != wanted or end > body:
        raise _bad(
            fn, "a tensor's bytes do not fit", tensor=name, wanted=wanted, found=end - start,
            end=end, file_has=body,
        )  # fmt: skip
    return dtype, shape, start, end


def _check_cover(fn: str, spans: dict[str, tuple[int, int]]) -> None:
    """Tensors lie side by side without overlap."""
    last, before = 0, ""
    for name, (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        if start < last:
            raise _bad(fn, "tensors overlap", first=before, second=name)
        last, before = end, name
