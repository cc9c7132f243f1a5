"""Derived kernels as attention of transformers: models give what eager attention gives.

Where transformers is not installed, the functions are called as its models call them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from monocomp import hf
from monocomp.errors import UnsupportedError, UsageError

CAUSAL = """
    input Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e]
    param scale: float
    S[b,h,q,k] = scale * (Q[b,h,q,d] * K[b,h // (|h| // |g|),k,d])
    O[b,h,q,e] = softmax[k if k <= q + |k| - |q|](S[b,h,q,k]) * V[b,h // (|h| // |g|),k,e]
"""


def states(queries: int, keys: int, heads: int = 4, groups: int = 2) -> list[torch.Tensor]:
    """Queries, keys and values as models lay them out: heads inside of positions."""
    generator = torch.Generator().manual_seed(queries)
    counts = ((queries, heads), (keys, groups), (keys, groups))
    return [torch.randn(2, n, h, 16, generator=generator).transpose(1, 2) for n, h in counts]


def called(function: Any, tensors: list[torch.Tensor], mask: Any = None, **kwargs: Any) -> Any:
    module = SimpleNamespace(is_causal=True, num_key_value_groups=2, training=False)
    found, weights = function(module, *tensors, mask, dropout=0.0, scaling=0.25, **kwargs)
    assert weights is None and found.is_contiguous()
    return found


@pytest.mark.parametrize("program", [None, CAUSAL])
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (1, 7)])
def test_as_models_call(program: str | None, queries: int, keys: int) -> None:
    function = hf.attention(program)
    tensors = states(queries, keys)
    expected = F.scaled_dot_product_attention(
        *tensors, is_causal=queries > 1, scale=0.25, enable_gqa=True
    )
    found = called(function, tensors, sliding_window=None, position_ids=None)
    torch.testing.assert_close(found, expected.transpose(1, 2))


ADDED = """
    input Q[b,h,q,d], K[b,g,k,d], V[b,g,k,e], mask[b,h,q,k]
    param scale: float, dropout: float, seed: int
    S[b,h,q,k] = scale * (Q[b,h,q,d] * K[b,h // (|h| // |g|),k,d]) + mask[b,h,q,k]
    D[b,h,q,k] = where(uniform(seed, b, h, q, k) < dropout, 0, 1 / (1 - dropout))
    O[b,h,q,e] = D[b,h,q,k] * softmax[k](S[b,h,q,k]) * V[b,h // (|h| // |g|),k,e]
"""


@pytest.mark.parametrize("program", [None, ADDED])
@pytest.mark.parametrize("heads", [None, 1, 4])
def test_a_mask(program: str | None, heads: int | None) -> None:
    """Longer than what there is of keys. Of truth values, left-padded: rows that see nothing are 0;
    or added to logits: the least number over a whole row leaves equal weights, as in torch."""
    mask = torch.ones(2, 1, 7, 9, dtype=torch.bool).tril()
    mask[0, :, :, :3] = False
    if heads is not None:
        mask = torch.randn(2, heads, 7, 9)
        mask[0, :, :, :3] = torch.finfo(torch.float32).min
        mask[1, :, 2] = torch.finfo(torch.float32).min
    tensors = states(7, 7)
    found = called(hf.attention(program), tensors, mask)
    expected = F.scaled_dot_product_attention(
        *tensors, attn_mask=mask[..., :7], scale=0.25, enable_gqa=True
    )
    torch.testing.assert_close(found, expected.nan_to_num(0.0).transpose(1, 2))
    assert heads is not None or not found[0, :3].any()


@pytest.mark.parametrize("program", [None, ADDED])
def test_dropout(program: str | None) -> None:
    """The weights that stay are scaled; torch's generator decides which; gradients agree."""
    function, module = hf.attention(program), SimpleNamespace(is_causal=False, training=True)
    query, key = torch.zeros(2, 2, 4, 64, 16)
    value = torch.eye(64).expand(2, 4, 64, 64).clone().requires_grad_()

    def attend(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return function(module, query, key, value, None, dropout=0.25)[0]

    weights = attend(0)
    assert abs((weights == 0).float().mean() - 0.25) < 0.02
    assert weights.unique().tolist() == pytest.approx([0.0, 1 / 64 / 0.75])
    assert torch.equal(weights, attend(0)) and not torch.equal(weights, attend(1))
    (gradient,) = torch.autograd.grad(weights.sum(), value)
    expected = weights.detach().sum(1)[..., None].expand_as(value)
    torch.testing.assert_close(gradient, expected)


def test_what_a_model_asks_for() -> None:
    function = hf.attention()
    query, key, value = tensors = states(7, 7)
    sinks = torch.randn(4)
    logits = 0.25 * query @ key.repeat_interleave(2, 1).mT
    logits = 5.0 * torch.tanh(logits / 5.0)
    logits = logits.masked_fill(~torch.ones(7, 7, dtype=torch.bool).tril(), -torch.inf)
    logits = torch.cat([logits, sinks.view(1, 4, 1, 1).expand(2, 4, 7, 1)], -1)
    expected = torch.softmax(logits, -1)[..., :-1] @ value.repeat_interleave(2, 1)
    found = called(function, tensors, s_aux=sinks, softcap=5.0)
    torch.testing.assert_close(found, expected.transpose(1, 2))
    bias = torch.randn(1, 4, 7, 7)
    mask = torch.ones(2, 1, 7, 7, dtype=torch.bool).tril()
    expected = F.scaled_dot_product_attention(
        *tensors, attn_mask=bias.masked_fill(~mask, -torch.inf), scale=0.25, enable_gqa=True
    )
    found = called(function, tensors, mask, position_bias=bias)
    torch.testing.assert_close(found, expected.transpose(1, 2))


def test_refused() -> None:
    function, mask = hf.attention(CAUSAL), hf.no_mask
    tensors = states(7, 7)
    for kwargs, says in (
        ({"s_aux": torch.ones(4)}, r"asks for 'sinks', .*\n.*declare it: input sinks\[h\]"),
        ({"softcap": 3.0}, "param softcap: float"),
        ({"output_attentions": True}, "never has all of them"),
    ):
        with pytest.raises((UsageError, UnsupportedError), match=says):
            called(function, tensors, **kwargs)
    with pytest.raises(UsageError, match="the program takes none"):
        called(function, tensors, torch.ones(2, 1, 7, 7, dtype=torch.bool))
    with pytest.raises(UsageError, match="declare it: param dropout: float, seed: int"):
        function(SimpleNamespace(), *tensors, None, dropout=0.1)
    with pytest.raises(UsageError, match=r"mask has dtype int64\n.*mask.bool\(\)"):
        called(hf.attention(), tensors, torch.ones(2, 1, 7, 7, dtype=torch.int64))
    truth = CAUSAL.replace("V[b,g,k,e]\n", "V[b,g,k,e], mask[b,h,q,k]: bool\n", 1)
    truth = truth.replace("k <= q + |k| - |q|", "mask[b,h,q,k]")
    with pytest.raises(UsageError, match=r"declare it: input mask\[b,h,q,k\], and add it"):
        called(hf.attention(truth), tensors, torch.zeros(2, 1, 7, 7))
    assert mask(2, 7, 7) is None and mask(2, 1, 7, q_offset=6) is None
    with pytest.raises(UsageError, match="padded"):
        mask(2, 2, 2, attention_mask=torch.tensor([[0, 1], [1, 1]]))
    with pytest.raises(UsageError, match="room for 16 keys"):
        mask(2, 7, 16)
    for program, says in (
        ("O[q,e] = A[q,k] * V[k,e]", "a model calls with queries, keys and values"),
        (
            CAUSAL.replace(" + |k| - |q|", ""),
            r"count queries from the last key: q \+ \|k\| - \|q\|",
        ),
        (CAUSAL + "\n    return O, S", "takes one result"),
        (CAUSAL.replace(", V[b,g,k,e]", ""), "declare them in this order: input Q"),
    ):
        with pytest.raises(UsageError, match=says):
            hf.attention(program)


# With transformers itself

TINY = {
    "vocab_size": 37,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
}
MODELS: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Gemma2": {"sliding_window": 5, "attn_logit_softcapping": 4.0, "query_pre_attn_scalar": 16},
    "GptOss": {"sliding_window": 5, "num_local_experts": 2, "num_experts_per_tok": 1},
    "Mistral": {"sliding_window": 5},
    "Qwen3": {},
}
SLIDING = {"Gemma2": 1, "GptOss": 1, "Mistral": 2}  # layers whose cache keeps a window
CACHES = {"dynamic": "DynamicSlidingWindowLayer", "static": "StaticSlidingWindowLayer"}


def model_of(name: str, implementation: str) -> Any:
    transformers = pytest.importorskip("transformers", "5.4")
    config = getattr(transformers, f"{name}Config")(**TINY, **MODELS[name])
    config._attn_implementation = implementation
    torch.manual_seed(0)
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


@pytest.fixture(scope="module")
def registered() -> str:
    pytest.importorskip("transformers", "5.4")
    hf.register(name="derived")
    return "derived"


def padded() -> dict[str, torch.Tensor]:
    tokens = torch.randint(1, 37, (2, 9), generator=torch.Generator().manual_seed(1))
    seen = torch.ones_like(tokens)
    seen[0, :4] = 0
    return {"input_ids": tokens * seen, "attention_mask": seen}


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_gradients(name: str, registered: str) -> None:
    batch = padded()
    results = []
    for implementation in ("eager", registered):
        model = model_of(name, implementation)
        logits = model(**batch).logits[batch["attention_mask"] > 0]
        logits.square().sum().backward()
        results.append((logits, {n: p.grad for n, p in model.named_parameters()}))
    (expected, gradients), (found, others) = results
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for n, g in gradients.items():
        torch.testing.assert_close(others[n], g, rtol=1e-3, atol=1e-4, msg=n)


@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
def test_a_caller_s_own_mask(kind: torch.dtype, registered: str) -> None:
    """Two documents packed into one row, as truth values or as what is added to logits."""
    tokens = padded()["input_ids"][1:]
    document = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1])
    mask = (document[:, None] == document) & torch.ones(9, 9, dtype=torch.bool).tril()
    added = torch.zeros(9, 9).masked_fill(~mask, torch.finfo(torch.float32).min)[None, None]
    own = mask[None, None] if kind is torch.bool else added
    found = model_of("Llama", registered)(tokens, attention_mask=own).logits
    expected = model_of("Llama", "eager")(tokens, attention_mask=added).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cache", CACHES)
def test_generation(name: str, cache: str, registered: str) -> None:
    """Also where the cache keeps no more than a window, which what is generated runs over."""
    options = {"max_new_tokens": 8, "do_sample": False, "cache_implementation": cache}
    options |= {"disable_compile": True, "return_dict_in_generate": True}
    found, expected = (
        model_of(name, how).generate(**padded(), **options) for how in (registered, "eager")
    )
    assert torch.equal(found.sequences, expected.sequences)
    layers = [type(layer).__name__ for layer in found.past_key_values.layers]
    assert layers.count(CACHES[cache]) == SLIDING.get(name, 0)


def test_a_program_of_ones_own(registered: str) -> None:
    hf.register(CAUSAL, name="causal of my own")
    tokens = padded()["input_ids"][1:]
    found, expected = (
        model_of("Llama", how)(tokens).logits for how in ("causal of my own", "eager")
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    model = model_of("Llama", "causal of my own")
    options = {"max_new_tokens": 8, "do_sample": False}
    assert torch.equal(
        model.generate(tokens, **options), model_of("Llama", "eager").generate(tokens, **options)
    )


def test_a_model_that_sees_all(registered: str) -> None:
    transformers = pytest.importorskip("transformers", "5.4")
    config = {k: v for k, v in TINY.items() if k not in ("num_key_value_heads", "head_dim")}
    batch, results = padded(), []
    for how in ("eager", registered):
        torch.manual_seed(0)
        made = transformers.BertConfig(**config, attention_probs_dropout_prob=0.0)
        made._attn_implementation = how
        found = transformers.BertModel(made).eval()(**batch).last_hidden_state
        results.append(found[batch["attention_mask"] > 0])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def test_compiled(registered: str) -> None:
    hf.register(CAUSAL, name="causal, compiled")
    batch = padded()
    for name, given in (
        (registered, batch),
        ("causal, compiled", {"input_ids": batch["input_ids"]}),
    ):
        model = model_of("Llama", name)
        expected = model(**given).logits
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(**given).logits, expected, rtol=1e-4, atol=1e-5)
