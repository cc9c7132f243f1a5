"""Derived kernels as attention of Hugging Face transformers.

    import monocomp.hf
    monocomp.hf.register(name="monocomp")                      # softmax attention, as models ask
    monocomp.hf.register("windowed.mc", name="windowed")       # a program of one's own
    model.set_attn_implementation("monocomp")

The first three inputs that a program declares are queries, keys and values,
`input Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e]`. It names what else it takes: inputs
`mask[b,h,q,k]: bool` (true where a key is seen) or `mask[b,h,q,k]` (added to logits), `sinks[h]`,
`bias[b,h,q,k]`, parameters `scale`, `softcap`, `dropout` and `seed`. A model that asks for anything
the program does not take is refused. transformers hands over fewer queries than keys while it
generates: the last query is that of the last key, `k <= q + |k| - |q|`. `attention` tests a program
for that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from monocomp.dot_products import Form, draw_seed
from monocomp.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    import torch

    from monocomp.kernel import Kernel

OPTIONAL = ("mask", "sinks", "bias", "scale", "softcap", "dropout", "seed")


def register(
    program: str | os.PathLike[str] | Kernel | None = None,
    name: str = "monocomp",
    *,
    backend: str = "auto",
) -> None:
    """Make a kernel an attention implementation of transformers.

    Both of what transformers needs are registered: the attention, and the mask that it is to get.
    A registration of the attention alone would lose the mask.

    Args:
        program: the text, file or kernel; softmax attention with what a model asks for (a mask,
            shared heads, a cap, sinks), unless given.
        name: for `attn_implementation`.
        backend: as for `monocomp.compile`.
    """
    attentions = _of_transformers("transformers.modeling_utils", "AttentionInterface")
    masks = _of_transformers("transformers.masking_utils", "AttentionMaskInterface")
    sdpa_mask = _of_transformers("transformers.masking_utils", "sdpa_mask")
    function = attention(program, backend=backend)
    attentions.register(name, function)
    masks.register(name, partial(dense_mask, sdpa_mask) if function.takes_mask else no_mask)


def _of_transformers(module: str, name: str) -> Any:
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError):
        raise UnsupportedError(
            "transformers is not installed, or older than 5.4",
            help="pip install 'transformers>=5.4'",
        ) from None


def attention(
    program: str | os.PathLike[str] | Kernel | None = None, *, backend: str = "auto"
) -> Attention:
    """Return the attention that `register` registers, from what it takes."""
    if program is None:
        return Attention(None, backend)
    from monocomp.kernel import Kernel, compile

    kernel = program if isinstance(program, Kernel) else compile(program, backend=backend)
    _require_inputs(kernel)
    _require_alignment(kernel)
    return Attention(kernel, backend)


class Attention:
    """The function that models call.

    Attributes:
        kernel: the kernel of a program; None to compile what each call asks for.
        takes: the inputs and parameters by which a program takes what a model asks for.
        takes_mask: True if a mask reaches the kernel.
    """

    def __init__(self, kernel: Kernel | None, backend: str) -> None:
        self.kernel, self.backend = kernel, backend
        declared = None if kernel is None else kernel.declared
        self.takes = OPTIONAL if declared is None else (*declared.inputs, *declared.params)
        self.takes_mask = "mask" in self.takes

    def __call__(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        """Attend as a model asks.

        Args:
            module: the model's layer.
            query: (b, h, q, d).
            key: (b, g, k, d).
            value: (b, g, k, e).
            attention_mask: bool, true where a key is seen, or floats that are added to logits;
                (b or 1, h or 1, q, k), where k may be larger than there are keys.
            dropout: the share of weights to drop, from 0 to below 1.
            scaling: of logits; 1 / sqrt(d) by default.
            is_causal: without a mask, each query sees the keys up to its own position.

        Returns:
            The result, (b, q, h, e), and None in place of weights.

        Raises:
            UsageError: the program does not take what the model asks for.
            UnsupportedError: the model asks for weights, which no kernel stores.
        """
        if kwargs.get("output_attentions"):
            raise UnsupportedError(
                "the model is to return its weights, and the kernel never has all of them",
                help="set output_attentions=False, or attn_implementation='eager'",
            )
        if kwargs.get("cache") is not None:
            key, value = kwargs["cache"].update(
                key_states=key, value_states=value, layer_idx=module.layer_idx, kwargs=kwargs
            )
        asked = {
            "sinks": kwargs.get("s_aux"),
            "softcap": kwargs.get("softcap"),
            "bias": kwargs.get("position_bias"),
            "scale": query.shape[-1] ** -0.5 if scaling is None else scaling,
        }
        if dropout or (self.kernel is not None and "dropout" in self.takes):
            asked |= {"dropout": dropout, "seed": draw_seed()}
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        asked["mask"] = self._mask(query, attention_mask, key.shape[2], bool(causal))
        asked = {name: value for name, value in asked.items() if value is not None}
        run = self._call_form if self.kernel is None else self._call_program
        return run(query, key, value, asked).transpose(1, 2).contiguous(), None

    def _mask(
        self, query: torch.Tensor, mask: torch.Tensor | None, keys: int, is_causal: bool
    ) -> torch.Tensor | None:
        """Return the mask that the kernel takes, or None if it takes none."""
        if self.takes_mask:
            return _mask(query, mask, keys, is_causal and query.shape[2] > 1)
        if mask is not None:
            raise UsageError(
                "the model has a mask, and the program takes none",
                help=f"declare it: {_DECLARED['mask']}, and filter by it",
            )
        return None

    def _call_program(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, asked: dict[str, Any]
    ) -> torch.Tensor:
        """Run the program, if it takes what is asked for."""
        assert self.kernel is not None
        inputs = self.kernel.declared.inputs
        for name, line in _DECLARED.items():
            if name in asked and name not in self.takes:
                raise UsageError(
                    f"the model asks for '{name}', and the program does not take it",
                    help=f"declare it: {line}",
                )
        if "mask" in asked:
            asked["mask"] = _convert_mask(asked["mask"], inputs["mask"].kind, query.dtype)
        first = dict(zip(inputs, (query, key, value), strict=False))
        more = {name: value for name, value in asked.items() if name in self.takes}
        result: torch.Tensor = self.kernel(**first, **more)
        return result

    def _call_form(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, asked: dict[str, Any]
    ) -> torch.Tensor:
        """Run softmax attention with what is asked for. A bias is added to logits, as a mask of
        floats is, so both are one input."""
        mask, bias = asked["mask"], asked.pop("bias", None)
        if bias is not None:
            mask = _convert_mask(mask, "float", bias.dtype) + bias[..., : key.shape[2]]
        form = Form(
            mask="float" if mask.is_floating_point() else "bool",
            shares=query.shape[1] != key.shape[1],
            softcap="softcap" in asked,
            sinks="sinks" in asked,
            dropout="dropout" in asked,
        )
        return form.call({**asked, "Q": query, "K": key, "V": value, "mask": mask}, self.backend)


_DECLARED = {
    "mask": "input mask[b,h,q,k]: bool",
    "sinks": "input sinks[h]",
    "softcap": "param softcap: float",
    "dropout": "param dropout: float, seed: int",
    "bias": "input bias[b,h,q,k]",
}


def _mask(
    query: torch.Tensor, mask: torch.Tensor | None, keys: int, is_causal: bool
) -> torch.Tensor:
    """Return the mask for all heads, (b, h, q, k). What repeats takes no memory."""
    import torch

    batch, heads, length = query.shape[:3]
    if mask is None:
        mask = torch.ones(length, keys, dtype=torch.bool, device=query.device)
        mask = mask.tril() if is_causal else mask
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise UsageError(
            f"the model's mask has dtype {str(mask.dtype).removeprefix('torch.')}",
            help="pass truth values, true where a key is seen, or floats to add to logits: "
            "mask.bool()",
        )
    return mask[..., :keys].expand(batch, heads, length, keys)


def _convert_mask(mask: torch.Tensor, kind: str, dtype: torch.dtype) -> torch.Tensor:
    """Return the mask as a program declares it: truth values as 0 and -inf for floats.

    Raises:
        UsageError: floats for a program that takes truth values.
    """
    if kind == "float" and not mask.is_floating_point():
        return mask.new_zeros((), dtype=dtype).where(mask, float("-inf"))
    if kind == "bool" and mask.is_floating_point():
        raise UsageError(
            "the model's mask is added to logits, and the program takes truth values",
            help="declare it: input mask[b,h,q,k], and add it to the logits",
        )
    return mask


def dense_mask(sdpa_mask: Callable[..., Any], *args: Any, **kwargs: Any) -> torch.Tensor:
    """Return the mask of a model as truth values, never left out: what it is left out for
    depends on how torch's own kernels count."""
    kwargs |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    mask: torch.Tensor = sdpa_mask(*args, **kwargs)
    return mask


def no_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: torch.Tensor | None = None,
    **kwargs: Any,
) -> None:
    """Return no mask: the program says itself which keys are seen. Nothing else may be asked."""
    if attention_mask is not None and not bool(attention_mask.all()):
        raise UsageError(
            "the batch is padded, and the program takes no mask",
            help="declare it: input mask[b,h,q,k]: bool, and filter by it",
        )
    if int(q_offset) + int(q_length) != int(kv_offset) + int(kv_length):
        raise UsageError(
            f"the cache has room for {int(kv_length)} keys, of which fewer are there, and the "
            "program takes no mask",
            help="use a dynamic cache, or declare input mask[b,h,q,k]: bool",
        )


def _require_inputs(kernel: Kernel) -> None:
    declared = kernel.declared
    inputs = list(declared.inputs.values())
    others = [n for n in (*list(declared.inputs)[3:], *declared.params) if n not in OPTIONAL]
    needed = [n for n in others if n not in declared.params or declared.params[n].default is None]
    if len(inputs) < 3 or any(len(at.dims) != 4 for at in inputs[:3]) or needed:
        shown = ", ".join(map(str, (*inputs, *declared.params.values())))
        raise UsageError(
            f"a model calls with queries, keys and values, and the program takes {shown}",
            help="its first three inputs are Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e]; others are "
            f"{', '.join(OPTIONAL)}",
        )
    if not declared.undeclared.isdisjoint(list(declared.inputs)[:3]):
        raise UsageError(
            "a model calls with queries, keys and values, and no `input` line gives their order",
            help="declare them in this order: input Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e]",
        )
    if len(declared.outputs) != 1:
        raise UsageError(
            f"a model takes one result, and the program has {len(declared.outputs)}",
            help="write return O",
        )


def _require_alignment(kernel: Kernel) -> None:
    """The last query, given alone, must see what it sees among all: so models generate."""
    import torch

    declared, length, heads = kernel.declared, 5, 4
    dims = [[declared.extent_of[i] for i in at.dims] for at in declared.inputs.values()]
    groups = heads if dims[0][1] == dims[1][1] else 2
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    names = list(declared.inputs)
    query, key, value = (draw(1, n, length, 64) for n in (heads, groups, groups))
    params = {"scale": 0.125, "softcap": 30.0}
    params |= {"dropout": 0.0, "seed": 0}
    more: dict[str, Any] = {n: v for n, v in params.items() if n in declared.params}
    if "sinks" in names:
        more["sinks"] = draw(heads)

    def last(count: int) -> torch.Tensor:
        square = {"mask": torch.ones(1, heads, count, length, dtype=torch.bool)}
        square["bias"] = torch.zeros(1, heads, count, length)
        here = {n: t for n, t in square.items() if n in names}
        if "mask" in here:
            here["mask"] = _convert_mask(here["mask"], declared.inputs["mask"].kind, query.dtype)
        first = dict(zip(names, (query[:, :, length - count :], key, value), strict=False))
        found: torch.Tensor = kernel(**first, **here, **more)
        return found[:, :, -1]

    if not torch.allclose(last(1), last(length), atol=1e-4):
        raise UsageError(
            "the last query alone gives another result than among all, and models generate with "
            "one query at a time",
            help="count queries from the last key: q + |k| - |q| in place of q",
        )
