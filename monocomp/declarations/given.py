"""Check the tensors and parameters that a call is given, before anything runs on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from monocomp.declarations.dtypes import FLOATS, INTEGERS, NARROW, is_narrow, kind_of
from monocomp.declarations.records import Input
from monocomp.errors import DeviceError, InputError, UnsupportedDtypeError, UnsupportedError

if TYPE_CHECKING:
    import torch


_LARGEST = 3.4028234663852886e38  # float of 32 bits


def check_params(params: Mapping[str, int | float]) -> None:
    """Refuse parameters that kernels cannot take."""
    for name, value in params.items():
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            shown = str(value) if value.bit_length() < 128 else f"of {value.bit_length()} bits"
            raise InputError(
                f"parameter '{name}' is {shown}, and kernels take integers of 64 bits",
                help=f"give {name} a value from -2**63 to 2**63 - 1",
            )


def check_floats(params: Mapping[str, int | float], backend: str) -> None:
    """Parameters that are finite, where kernels compute in float32, are finite there too."""
    for name, value in params.items():
        if isinstance(value, float) and not is_in_float32(value):
            raise InputError(
                f"parameter '{name}' is {value}, and backend '{backend}' computes in float32, "
                "which ends at 3.4e38",
                help=f"give {name} a smaller value, or math.inf; "
                "with inputs of float64 backend 'torch' computes in float64",
            )


def is_in_float32(value: float) -> bool:
    """True if the magnitude of a float is at most that of the largest finite float of 32 bits, or
    if it is NaN or infinite."""
    return not _LARGEST < abs(value) < math.inf


def check_no_gradients(values: Mapping[str, Any], backend: str) -> None:
    """Refuse tensors whose gradients would be lost."""
    for name, value in values.items():
        if getattr(value, "requires_grad", False):
            import torch

            if torch.is_grad_enabled():
                raise UnsupportedError(
                    f"{name} requires a gradient, and backend '{backend}' has none",
                    help=f"compile with backend='torch', or pass {name}.detach()",
                )


def check_dense(name: str, tensor: Any) -> None:
    """Refuse tensors that have not all their elements."""
    layout = "nested" if getattr(tensor, "is_nested", False) else getattr(tensor, "layout", None)
    if layout is not None and str(layout) != "torch.strided":
        raise InputError(
            f"input {name} has the layout {str(layout).removeprefix('torch.')}",
            help=f"pass a dense tensor, such as {name}.to_dense()",
        )
    if getattr(tensor, "shape", None) is None:
        raise InputError(
            f"input {name} is a {type(tensor).__name__}, not a tensor",
            help="pass torch tensors, or NumPy arrays with backend='numpy'",
        )


def shape_of(name: str, tensor: Any) -> tuple[int, ...]:
    """Return the shape of a dense tensor."""
    check_dense(name, tensor)
    return tuple(int(n) for n in tensor.shape)


def check_dtype(declared: Input, tensor: Any) -> None:
    """Refuse dtypes that are not supported, or not of the kind that the program needs."""
    name = declared.name
    dtype = str(tensor.dtype).removeprefix("torch.")
    kind = kind_of(dtype)
    if kind is None:
        raise UnsupportedDtypeError(
            f"cannot load {name} with dtype {dtype}",
            notes=["supported inputs: " + ", ".join((*FLOATS, *INTEGERS))],
            help=f"convert it first: {name}.to(torch.float32)",
        )
    if kind != declared.kind:
        to = {"float": "torch.float32", "int": "torch.int64", "bool": "torch.bool"}[declared.kind]
        raise UnsupportedDtypeError(
            f"input {name} has dtype {dtype}, and the program needs {declared.kind}",
            help=f"convert it, {name}.to({to}), or declare it in the program: "
            f"input {name}[{','.join(d.lstrip('.') for d in declared.dims)}]: {kind}",
        )


def check_conversion(device: torch.device, narrow: Mapping[str, str]) -> None:
    """Refuse e4m3 before compute capability 8.9, which has no instruction that converts it."""
    import torch

    if device.type != "cuda" or torch.version.hip is not None or NARROW[0] not in narrow.values():
        return
    major, minor = torch.cuda.get_device_capability(device)
    if (major, minor) < (8, 9):
        name = next(n for n, d in narrow.items() if d == NARROW[0])
        raise UnsupportedDtypeError(
            f"cannot load {name} with dtype {NARROW[0]} on a GPU of compute capability "
            f"{major}.{minor}",
            notes=["it takes 8.9 or more"],
            help=f"convert it, {name}.to(torch.bfloat16), or use torch.{NARROW[1]}",
        )


def check_tensors(inputs: Mapping[str, Any], torch: Any) -> None:
    """Require torch tensors on one device."""
    devices: dict[str, str] = {}
    for name, tensor in inputs.items():
        if not isinstance(tensor, torch.Tensor):
            raise InputError(
                f"input {name} is a {type(tensor).__name__}, not a torch tensor",
                help=f"convert it, torch.as_tensor({name}), or compile with backend='numpy'",
            )
        devices[name] = str(tensor.device)
    if len(set(devices.values())) > 1:
        listed = ", ".join(f"{n} on {d}" for n, d in devices.items())
        raise DeviceError(
            "the inputs are on different devices",
            notes=[listed],
            help="move them to one device with .to(device)",
        )
    if "meta" in devices.values():
        raise DeviceError(
            "the inputs are on device meta, where tensors have no elements",
            help="move them to a GPU or to the CPU",
        )


def in_autocast(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the inputs in the dtype that autocast asks for, as for torch's own attention."""
    import torch

    if not torch._C._is_any_autocast_enabled():
        return inputs
    return {n: cast(t) for n, t in inputs.items()}


def cast(value: Any) -> Any:
    """Return an argument in the dtype that autocast asks for."""
    import torch

    if not isinstance(value, torch.Tensor) or not value.dim() or not value.is_floating_point():
        return value
    device = value.device.type
    if not torch.is_autocast_enabled(device) or value.dtype == torch.float64 or is_narrow(value):
        return value
    return value.to(torch.get_autocast_dtype(device))


def host_array(tensor: Any) -> Any:
    """Return a tensor as NumPy takes it, floats as float64; anything else as it is."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        return tensor.double().numpy() if tensor.is_floating_point() else tensor.numpy()
    return tensor
