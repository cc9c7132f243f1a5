"""Gradients of calls in torch: by autograd, in what traces calls, and through all that copies."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch._dynamo.testing
from torch import Tensor, nn
from torch.autograd import forward_ad, grad, gradcheck, gradgradcheck
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

import monocomp as mc
from monocomp import library
from monocomp.calls.calls import Calls
from monocomp.calls.operators import operator
from tests.backends import interpreted

CAUSAL = mc.compile(library.load("causal"), name="causal")
WINDOW = mc.compile(library.load("sliding_window"), name="sliding_window")
MIXED = mc.compile("O[q] = sum[k](softmax[k](c * S[q,k]) * V[k])\nparam c: float = 2", name="mixed")
SCALED = mc.compile("param c: float = 2\nO[i] = exp(c * X[i])", name="scaled")
SEVERAL = mc.compile(
    "M[i] = max[k](X[i,k])\nN[i] = argmax[k](X[i,k])\nS[i] = logsumexp[k](X[i,k])\nreturn S, N, M"
)


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield


def float64(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def qkv(n: int = 4, d: int = 3) -> list[Tensor]:
    return [float64(1, 2, n, d) for _ in range(3)]


def reference(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def assert_same_gradients(
    function: Callable[..., Tensor], wanted: Callable[..., Tensor], *inputs: Tensor
) -> None:
    """Of a sum whose terms have weights."""
    found, expected = function(*inputs), wanted(*inputs)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(expected)
    pairs = (grad((x * weights).sum(), inputs) for x in (found, expected))
    torch.testing.assert_close(*pairs)


# --- autograd -----------------------------------------------------------------------------


def test_second_derivatives() -> None:
    """A backward pass is a call like any other."""
    inputs = (float64(2, 3), float64(3), float64())
    assert gradgradcheck(lambda s, v, c: MIXED(S=s, V=v, c=c), inputs, fast_mode=True)


def test_gradients_of_products_of_sums_are_float64() -> None:
    """The sum over one row leaves the product, whose other factor decides no dtype."""
    kernel = mc.compile("input B[k,j], W[j]\nO = sum[j,k](B[k,j] * W[j]) ** 2")
    B, W = float64(1, 3), float64(3)
    (found,) = grad(kernel(B, W), W)
    torch.testing.assert_close(found, 2 * (B @ W) * B[0], rtol=1e-12, atol=0)


@pytest.mark.slow
def test_second_derivatives_of_a_running_sum() -> None:
    """They read no result of the first backward pass that its calls do not keep."""
    kernel = mc.compile("""
        input C[b,t,n], B[b,s,n], X[b,s,h,p], dt[b,s,h], A[h]
        L[b,s,h] = sum[..s](dt[b,s,h] * A[h])
        W[b,t,s,h] = C[b,t,n] * B[b,s,n] * exp(L[b,t,h] - L[b,s,h]) * dt[b,s,h]
        Y[b,t,h,p] = sum[s if s <= t](W[b,t,s,h] * X[b,s,h,p])
    """)
    shapes = (1, 3, 2), (1, 3, 2), (1, 3, 2, 2), (1, 3, 2), (2,)
    assert gradgradcheck(kernel, [float64(*shape) for shape in shapes], fast_mode=True)


def test_some_inputs_need_gradients() -> None:
    """Others get none, whether they are floats or not."""
    q, k, v = qkv()
    k = k.detach()
    assert_same_gradients(lambda q, v: CAUSAL(q, k, v), lambda q, v: reference(q, k, v), q, v)
    CAUSAL(q, k, v).sum().backward()
    assert k.grad is None and q.grad is not None
    with torch.no_grad():
        assert not CAUSAL(q, k, v).requires_grad
    assert not CAUSAL(q.detach(), k, v.detach()).requires_grad


def test_some_results_have_gradients() -> None:
    """Each combination is a program of its own; what is no float has none."""
    x = float64(3, 5)
    s, n, m = SEVERAL(x)
    assert s.requires_grad and m.requires_grad and not n.requires_grad
    torch.testing.assert_close(grad(s.sum(), x, retain_graph=True)[0], x.softmax(1))
    largest = nn.functional.one_hot(x.argmax(1), 5).double()
    torch.testing.assert_close(grad(m.sum(), x, retain_graph=True)[0], largest)
    torch.testing.assert_close(grad(s.sum() + 2 * m.sum(), x)[0], x.softmax(1) + 2 * largest)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_have_the_dtype_of_inputs(dtype: torch.dtype) -> None:
    """What is saved has that of sums."""
    inputs = [torch.randn(1, 2, 4, 3, dtype=dtype, requires_grad=True) for _ in range(3)]
    assert [g.dtype for g in grad(CAUSAL(*inputs).sum(), inputs)] == [dtype] * 3
    forward = CAUSAL.calls.forward(("Q", "K", "V"))
    assert forward.outputs == ("O", "L") and "return O, L: accumulated" in forward.program.text()
    values = dict(zip("QKV", inputs, strict=True))
    with torch.no_grad():
        assert [r.dtype for r in forward.calls.call(values)] == [dtype, torch.float32]


def test_ties_in_a_monoid_have_one_share() -> None:
    """The first of the largest has it, as in a maximum, however many are equal."""
    text = "monoid M(s, x) = unit (0, -inf), combine (s + s', maximum(x, x'))\n"
    text += "O[q] = M[k](S[q,k], S[q,k]).x"
    s = torch.tensor([[1, 1, 1.0], [0, 2, 2], [3, 1, 3]], requires_grad=True)
    found = [grad(mc.compile(t)(S=s).sum(), [s])[0] for t in (text, "O[q] = max[k](S[q,k])")]
    torch.testing.assert_close(*found, rtol=0, atol=0)
    assert found[0].tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]


def test_layouts() -> None:
    """Strides of inputs, and cotangents with strides of 0, as `sum` gives them."""
    inputs = [float64(1, 2, 3, 4).detach().transpose(2, 3).requires_grad_() for _ in range(3)]
    assert_same_gradients(CAUSAL, reference, *inputs)
    pairs = (grad(f(*inputs).sum(), inputs) for f in (CAUSAL, reference))
    torch.testing.assert_close(*pairs)


def test_tensors_that_have_changed_since() -> None:
    """Autograd notices."""
    q, k, v = qkv()
    changed = q * 1
    result = CAUSAL(changed, k, v)
    changed.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_checkpoint_and_autocast() -> None:
    """As torch's own attention."""
    again = lambda *x: checkpoint(CAUSAL, *x, use_reentrant=False)  # noqa: E731
    assert_same_gradients(again, reference, *qkv())
    inputs = [x.detach().float().requires_grad_() for x in qkv()]
    with torch.autocast("cpu", torch.bfloat16):
        found, wanted = CAUSAL(*inputs), reference(*inputs)
        assert found.dtype == wanted.dtype == torch.bfloat16
        for ours, theirs in zip(*(grad(x.sum(), inputs) for x in (found, wanted)), strict=True):
            assert ours.dtype == torch.float32
            torch.testing.assert_close(ours, theirs, atol=0.05, rtol=0.05)
        assert CAUSAL(*(x.detach() for x in inputs)).dtype == torch.bfloat16


# --- operators ----------------------------------------------------------------------------


def compiled(function: Callable[..., Any]) -> tuple[Callable[..., Any], Any]:
    """In one graph, for dynamic shapes; and what counts graphs."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    return torch.compile(function, fullgraph=True, backend=counter, dynamic=True), counter


def test_compiled_in_one_graph() -> None:
    """For several sizes, while the kernel is also called otherwise."""
    function, counter = compiled(lambda q, k, v: CAUSAL(q.sin(), K=k, V=v) * 2)
    for n in (4, 7):
        inputs = qkv(n)
        assert_same_gradients(function, lambda q, k, v: reference(q.sin(), k, v) * 2, *inputs)
        CAUSAL(*(x.detach() for x in inputs))
    function, windows = compiled(lambda q, k, v, n: WINDOW(q, k, v, window=n))
    for n in (2, 3, 4):
        torch.testing.assert_close(function(*inputs, n), WINDOW(*inputs, window=n))
    assert counter.frame_count == windows.frame_count == 1


def test_parameters_as_tensors() -> None:
    """Get gradients, compiled or not."""
    x, c = float64(3), float64()
    for function in (SCALED, compiled(lambda x, c: SCALED(x, c=c))[0]):
        call = (lambda x, c: SCALED(x, c=c)) if function is SCALED else function
        assert_same_gradients(call, lambda x, c: torch.exp(c * x), x, c)
    torch.testing.assert_close(compiled(SCALED)[0](x), torch.exp(2 * x))


def test_errors_while_compiling() -> None:
    """Are those of any call."""
    function, _ = compiled(CAUSAL)
    with pytest.raises(Exception, match="input 'V' is missing"):
        function(*qkv()[:2])


def test_checkpoints_and_autocast_while_compiling() -> None:
    """Are traced with the call."""
    function, _ = compiled(lambda *x: checkpoint(CAUSAL, *x, use_reentrant=False))
    assert_same_gradients(function, reference, *qkv())
    inputs = [x.detach().float() for x in qkv()]
    with torch.autocast("cpu", torch.bfloat16):
        assert compiled(CAUSAL)[0](*inputs).dtype == torch.bfloat16


def total(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *inputs: (function(*inputs) ** 2).sum()


def test_transforms() -> None:
    """`torch.func`: gradients, batches, both ways round, and compiled."""
    inputs = [x.detach() for x in qkv()]
    batch = [torch.stack([x, 2 * x]) for x in inputs]
    ours, theirs = total(CAUSAL), total(reference)
    gradients = torch.func.grad(ours, argnums=(0, 1, 2))
    wanted = torch.func.grad(theirs, argnums=(0, 1, 2))
    torch.testing.assert_close(gradients(*inputs), wanted(*inputs))
    torch.testing.assert_close(compiled(gradients)[0](*inputs), wanted(*inputs))
    pairs = (wanted(*(x[n] for x in batch)) for n in range(2))
    of_batch = tuple(torch.stack(each) for each in zip(*pairs, strict=True))
    torch.testing.assert_close(torch.vmap(gradients)(*batch), of_batch)
    summed = torch.func.grad(lambda *x: torch.vmap(ours)(*x).sum(), argnums=(0, 1, 2))
    torch.testing.assert_close(summed(*batch), of_batch)
    shared = torch.vmap(CAUSAL, in_dims=(1, None, None))(batch[0].transpose(0, 1), *inputs[1:])
    torch.testing.assert_close(shared[1], reference(batch[0][1], *inputs[1:]))
    twice = torch.vmap(torch.vmap(CAUSAL))(*(x[None] for x in batch))
    torch.testing.assert_close(twice[0, 1], reference(*(x[1] for x in batch)))
    x, c = float64(3).detach(), float64(2).detach()
    slopes = torch.vmap(torch.func.grad(lambda c: SCALED(x, c=c).sum()))(c)
    torch.testing.assert_close(slopes, (x * torch.exp(c[:, None] * x)).sum(1))


def test_a_batch_is_one_call() -> None:
    """Of the program with one more index, not a call for each."""
    inputs = [torch.randn(50, *x.shape) for x in qkv()]
    with patch.object(
        Calls, "_run_torch_tensors", autospec=True, side_effect=Calls._run_torch_tensors
    ) as calls:
        torch.vmap(CAUSAL)(*inputs)
    assert calls.call_count == 1


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of torch itself
def test_forward_mode() -> None:
    """Tangents are derivatives of gradients, which are linear in those of results."""
    inputs = [x.detach() for x in qkv()]
    tangents = [torch.randn_like(x) for x in inputs]

    def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        logits = (q @ k.mT / 3**0.5).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
        return logits.softmax(-1) @ v

    ours, theirs = (
        torch.func.jvp(f, tuple(inputs), tuple(tangents)) for f in (CAUSAL, written_out)
    )
    torch.testing.assert_close(ours, theirs)
    pairs = [
        torch.func.jvp(torch.func.grad(total(f)), tuple(inputs), tuple(tangents))
        for f in (CAUSAL, written_out)
    ]
    torch.testing.assert_close(*pairs)
    q, k, v = inputs
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(CAUSAL(forward_ad.make_dual(q, tangents[0]), k, v)).tangent
    still = torch.zeros_like(q)
    (_, wanted) = torch.func.jvp(written_out, (q, k, v), (tangents[0], still, still))
    torch.testing.assert_close(found, wanted)


NORMALISED = """
input Q[q,d], K[k,d], V[k,e], s
A[q,d] = Q[q,d] / sqrt(sum[d](Q[q,d] ** 2))
O[q,e] = softmax[k](exp(s) * A[q,d] * K[k,d]) * V[k,e]
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of torch itself
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (library.load("hedgehog_attention"), ((1, 1, 2, 2), (1, 1, 3, 2), (1, 1, 3, 2))),
        (NORMALISED, ((2, 2), (3, 2), (3, 2), ())),
    ],
)
def test_forward_mode_reads_what_there_is(text: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    """It reads results of the call, and not what other gradients would save; and no gradient, of
    which the derivative of gradients may hold parts."""
    kernel = mc.compile(text, backend="torch")
    x = [(torch.rand(s, dtype=torch.float64) + 0.5).requires_grad_() for s in shapes]
    assert gradcheck(kernel, x, check_forward_ad=True, fast_mode=True)
    assert gradgradcheck(kernel, x, check_fwd_over_rev=True, fast_mode=True)


# --- modules ------------------------------------------------------------------------------


class Attention(nn.Module):
    """Holds a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = WINDOW
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found: Tensor = self.kernel(q * self.scale, k, v, window=2)
        return found


def test_modules_are_copied_saved_and_exported() -> None:
    """With the kernels that they hold."""
    module, inputs = Attention(), [x.detach().float() for x in qkv()]
    wanted = module(*inputs)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    copies = [copy.deepcopy(module), torch.load(file, weights_only=False)]
    for each in copies:
        assert torch.equal(each(*inputs), wanted)
    assert copies[0].kernel is WINDOW and copies[1].kernel.calls.key == WINDOW.calls.key
    n = torch.export.Dim("n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates what its own copying uses
        program = torch.export.export(module, tuple(inputs), dynamic_shapes=({2: n},) * 3)
    assert WINDOW.operator in {node.target for node in program.graph.nodes}
    longer = [torch.randn(1, 2, 9, 3) for _ in range(3)]
    torch.testing.assert_close(program.module()(*longer), module(*longer))


def test_kernels_are_pickled_by_their_text() -> None:
    """With monoids from Python, options, and derived programs."""
    affine = mc.monoid("Affine(a, u) = unit (1, 0), combine (a * a', a' * u + u')")
    text = "H[t] = Affine[..t](g[t], x[t]).u"
    scan = mc.compile(text, monoids=[affine], backend="torch", name="scan")
    derived = mc.Kernel(mc.grad(library.load("causal")).equations)
    for kernel in (scan, derived):
        again = pickle.loads(pickle.dumps(kernel))
        assert again.equations == kernel.equations and again.backend == kernel.backend
        assert again.name == kernel.name


# --- emitted kernels ----------------------------------------------------------------------


def _repeated(backend: str) -> list[Tensor]:
    """Gradients of calls that look like the first, but for one thing each."""
    torch.manual_seed(0)
    kernel = mc.compile(library.load("sliding_window"), backend=backend)
    inputs = [torch.randn(1, 1, 8, 4).requires_grad_() for _ in range(3)]
    found = []

    def add(cotangent: Tensor, wrt: list[Tensor] = inputs, window: int = 5, **how: Any) -> None:
        results = kernel(*inputs, window=window)
        found.extend(g.clone() for g in grad(results, wrt, cotangent, **how))

    plain = torch.randn(1, 1, 8, 4)
    turned = plain.mT.contiguous().mT
    for cotangent in (plain, plain, turned, plain[:, :, :1].expand(1, 1, 8, 4), turned):
        add(cotangent)
    add(torch.complex(plain, plain).conj().imag)  # stored with the other sign
    add(plain, inputs[1:2])
    add(plain, window=3)
    for again in (True, False):
        add(plain, create_graph=again)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x.mT.contiguous().mT):
        add(plain)
        add(plain)
    return [x.detach() for x in found]


BAND = "param w: int\nO[i,k] = where(k <= i and i - k < w, X[i,k] * Y[k], 0)"


def _of_bands(backend: str) -> list[Tensor]:
    torch.manual_seed(0)
    kernel, x, y = mc.compile(BAND, backend=backend), torch.randn(9, 12), torch.randn(12)
    x, y = x.requires_grad_(), y.requires_grad_()
    results = [kernel(X=x, Y=y, w=w) for w in (9, 9, 9, 7, 5, 0)]
    return [t for r in results for t in (r.detach(), *grad(r, (x, y), torch.ones_like(r)))]


def _of_talking_heads(backend: str) -> list[torch.Tensor]:
    kernel = mc.compile(library.load("talking_heads"), backend=backend)
    generator = torch.Generator().manual_seed(0)
    shapes = [(1, 2, 3, 4)] * 3 + [(2, 2)] * 2
    inputs = [torch.randn(s, generator=generator).requires_grad_() for s in shapes]
    return list(torch.autograd.grad(kernel(*inputs).sin().sum(), inputs))


@pytest.mark.parametrize(
    "made",
    [pytest.param(_repeated, marks=pytest.mark.slow), _of_bands, _of_talking_heads],
)
def test_gradients_in_the_interpreter(made: Callable[[str], list[Tensor]]) -> None:
    """Calls are repeated that look the same: in layouts of cotangents, in what hooks make of kept
    tensors, in which gradients are needed. Parameters are those of the call, also of a filter
    that gradients alone have, which may be empty. All heads may be held for known sizes alone."""
    found = interpreted.call(made, "triton")
    torch.testing.assert_close(found, made("torch"), atol=1e-4, rtol=1e-4)


def test_what_is_saved_has_no_say_in_dtypes() -> None:
    """Results of a program that reads a saved logarithm, in float32, are as wide as its inputs."""
    program = mc.grad(library.load("causal"))
    forward = mc.Kernel(program.forward, backend="torch")
    backward = mc.Kernel(program.equations, backend="torch")
    values = {n: torch.randn(1, 2, 4, 3, dtype=torch.bfloat16) for n in "QKV"}
    values |= dict(zip(("O", "L"), forward(**values), strict=True))
    values["dO"] = torch.ones_like(values["O"])
    assert values["L"].dtype == torch.float32
    results = backward(**values)
    traced = operator(backward.calls, {})
    found = traced.overload(*(values[n].to("meta") for n in traced.names))
    assert {r.dtype for r in (*results, *found)} == {torch.bfloat16}
