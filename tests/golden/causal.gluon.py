import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma


@gluon.jit
def in_turns(pid, blocks, places, abreast):
    """The number of a block, counted place by place, that an instance works on: so many places
    abreast take turns, a block each, and then the next ones."""
    if abreast > 1:
        count = gl.minimum(abreast, places)
        first = pid // (blocks * count) * count
        turn = pid - first * blocks
        count = gl.minimum(count, places - first)
        pid = ((first + turn % count) * blocks + turn // count).to(gl.int32)
    return pid


@gluon.jit
def causal_kernel_consumer(
    K_ptr,
    Q_ptr,
    V_ptr,
    O_ptr,
    Q_desc,
    K_desc,
    V_desc,
    stride_K_b,
    stride_K_h,
    stride_K_k,
    stride_K_d,
    stride_Q_b,
    stride_Q_h,
    stride_Q_q,
    stride_Q_d,
    stride_V_b,
    stride_V_h,
    stride_V_k,
    stride_V_e,
    stride_O_b,
    stride_O_h,
    stride_O_q,
    stride_O_e,
    size_b,
    size_h,
    size_q,
    size_e: gl.constexpr,
    size_k,
    size_d: gl.constexpr,
    BLOCK_Q: gl.constexpr,
    BLOCK_E: gl.constexpr,
    BLOCK_K: gl.constexpr,
    BLOCK_D: gl.constexpr,
    EVEN_Q: gl.constexpr,
    EVEN_E: gl.constexpr,
    EVEN_K: gl.constexpr,
    EVEN_D: gl.constexpr,
    INDEX: gl.constexpr,
    PRECISION: gl.constexpr,
    STEP: gl.constexpr,
    ABREAST,
    Q_ring,
    Q_ring_full,
    Q_ring_empty,
    K_ring,
    K_ring_full,
    K_ring_empty,
    V_ring,
    V_ring_full,
    V_ring_empty,
    STAGES: gl.constexpr,
    WARPS: gl.constexpr,
):
    Q_ring_turn = 0
    K_ring_turn = 0
    V_ring_turn = 0
    LAYOUT_Q_K: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, BLOCK_K, 16]
    )
    LAYOUT_Q_E: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, BLOCK_E, 16]
    )
    stride_O_b = stride_O_b // STEP * STEP
    stride_O_h = stride_O_h // STEP * STEP
    stride_O_q = stride_O_q // STEP * STEP
    num_q = gl.cdiv(size_q, BLOCK_Q)
    pid = in_turns(gl.program_id(0), num_q, size_h * size_b, ABREAST)
    start_q = (num_q - 1 - pid % num_q) * BLOCK_Q
    pid = pid // num_q
    last_q = gl.minimum(start_q + BLOCK_Q, size_q) - 1
    offs_q = start_q + gl.arange(0, BLOCK_Q, layout=gl.SliceLayout(1, LAYOUT_Q_K)).to(
        INDEX
    )
    in_q = (offs_q < size_q) | EVEN_Q
    h = pid % size_h
    pid = pid // size_h
    b = pid
    offs_e = gl.arange(0, BLOCK_E, layout=gl.SliceLayout(0, LAYOUT_Q_E)).to(INDEX)
    in_e = (offs_e < size_e) | EVEN_E
    mbarrier.wait(Q_ring_full.index(0), 0)
    Q_tile = Q_ring.index(0).reshape([BLOCK_Q, BLOCK_D])
    scale = 1.4426950408889634 * gl.rsqrt(gl.cast(size_d, gl.float32))
    m_i = gl.full(
        [BLOCK_Q], -float("inf"), gl.float32, layout=gl.SliceLayout(1, LAYOUT_Q_K)
    )
    l_i = gl.full([BLOCK_Q], 0.0, gl.float32, layout=gl.SliceLayout(1, LAYOUT_Q_K))
    acc = gl.full([BLOCK_Q, BLOCK_E], 0.0, gl.float32, layout=LAYOUT_Q_E)
    high_k = gl.minimum(size_k, last_q + 1)
    full_high_k = gl.minimum(size_k, start_q + 1)
    to_k = gl.minimum(high_k, offs_q + 1)
    full_end_k = gl.maximum(0, full_high_k // BLOCK_K * BLOCK_K)
    for part in gl.static_range(1, 3):
        begin = 0 if part == 1 else full_end_k
        end = full_end_k if part == 1 else high_k
        for first_k in range(begin, end, BLOCK_K):
            offs_k = first_k + gl.arange(
                0, BLOCK_K, layout=gl.SliceLayout(0, LAYOUT_Q_K)
            ).to(INDEX)
            mbarrier.wait(K_ring_full.index(K_ring_turn % STAGES), (K_ring_turn // STAGES % 2))
            K_tile = K_ring.index(K_ring_turn % STAGES).reshape([BLOCK_K, BLOCK_D]).permute((1, 0))
            s = warpgroup_mma(
                Q_tile,
                K_tile,
                gl.zeros([BLOCK_Q, BLOCK_K], gl.float32, layout=LAYOUT_Q_K),
                use_acc=False,
            )
            keep = offs_k[None, :] < to_k[:, None]
            keep = keep | (part == 1)
            s_in = gl.where(keep, s, -float("inf"))
            m_i_new = gl.maximum(m_i, gl.max(s_in, 1))
            shift = gl.where(gl.abs(m_i_new) > 1e38, 0.0, m_i_new)
            alpha = gl.exp2(scale * (m_i - shift))
            p = gl.exp2(scale * s_in - scale * shift[:, None])
            mbarrier.wait(V_ring_full.index(V_ring_turn % STAGES), (V_ring_turn // STAGES % 2))
            V_tile = V_ring.index(V_ring_turn % STAGES).reshape([BLOCK_K, BLOCK_E])
            l_i = l_i * alpha + gl.sum(p, 1)
            acc = warpgroup_mma(
                gl.convert_layout(
                    p.to(V_tile.dtype),
                    gl.DotOperandLayout(operand_index=0, parent=LAYOUT_Q_E, k_width=2),
                ),
                V_tile,
                acc * gl.convert_layout(alpha, gl.SliceLayout(1, LAYOUT_Q_E))[:, None],
            )
            m_i = m_i_new
            mbarrier.arrive(K_ring_empty.index(K_ring_turn % STAGES), count=1)
            K_ring_turn += 1
            mbarrier.arrive(V_ring_empty.index(V_ring_turn % STAGES), count=1)
            V_ring_turn += 1
    O_tile = gl.where(
        gl.convert_layout(l_i, gl.SliceLayout(1, LAYOUT_Q_E))[:, None] == 0.0,
        0.0,
        acc / gl.convert_layout(l_i, gl.SliceLayout(1, LAYOUT_Q_E))[:, None],
    )
    gl.store(
        O_ptr
        + gl.cast(b, gl.int64) * stride_O_b
        + gl.cast(h, gl.int64) * stride_O_h
        + gl.convert_layout(offs_q, gl.SliceLayout(1, LAYOUT_Q_E))[:, None] * stride_O_q
        + offs_e[None, :] * stride_O_e,
        O_tile.to(O_ptr.dtype.element_ty),
        mask=gl.convert_layout(in_q, gl.SliceLayout(1, LAYOUT_Q_E))[:, None]
        & in_e[None, :],
    )


@gluon.jit
def causal_kernel_producer(
    K_ptr,
    Q_ptr,
    V_ptr,
    O_ptr,
    Q_desc,
    K_desc,
    V_desc,
    stride_K_b,
    stride_K_h,
    stride_K_k,
    stride_K_d,
    stride_Q_b,
    stride_Q_h,
    stride_Q_q,
    stride_Q_d,
    stride_V_b,
    stride_V_h,
    stride_V_k,
    stride_V_e,
    stride_O_b,
    stride_O_h,
    stride_O_q,
    stride_O_e,
    size_b,
    size_h,
    size_q,
    size_e: gl.constexpr,
    size_k,
    size_d: gl.constexpr,
    BLOCK_Q: gl.constexpr,
    BLOCK_E: gl.constexpr,
    BLOCK_K: gl.constexpr,
    BLOCK_D: gl.constexpr,
    EVEN_Q: gl.constexpr,
    EVEN_E: gl.constexpr,
    EVEN_K: gl.constexpr,
    EVEN_D: gl.constexpr,
    INDEX: gl.constexpr,
    PRECISION: gl.constexpr,
    STEP: gl.constexpr,
    ABREAST,
    Q_ring,
    Q_ring_full,
    Q_ring_empty,
    K_ring,
    K_ring_full,
    K_ring_empty,
    V_ring,
    V_ring_full,
    V_ring_empty,
    STAGES: gl.constexpr,
    WARPS: gl.constexpr,
):
    Q_ring_turn = 0
    K_ring_turn = 0
    V_ring_turn = 0
    num_q = gl.cdiv(size_q, BLOCK_Q)
    pid = in_turns(gl.program_id(0), num_q, size_h * size_b, ABREAST)
    start_q = (num_q - 1 - pid % num_q) * BLOCK_Q
    pid = pid // num_q
    last_q = gl.minimum(start_q + BLOCK_Q, size_q) - 1
    h = pid % size_h
    pid = pid // size_h
    b = pid
    mbarrier.wait(Q_ring_empty.index(0), 0 ^ 1)
    mbarrier.expect(Q_ring_full.index(0), Q_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(
        Q_desc, [b, h, start_q, 0], Q_ring_full.index(0), Q_ring.index(0)
    )
    Q_ring_turn += 1
    high_k = gl.minimum(size_k, last_q + 1)
    full_high_k = gl.minimum(size_k, start_q + 1)
    full_end_k = gl.maximum(0, full_high_k // BLOCK_K * BLOCK_K)
    for part in gl.static_range(1, 3):
        begin = 0 if part == 1 else full_end_k
        end = full_end_k if part == 1 else high_k
        for first_k in range(begin, end, BLOCK_K):
            mbarrier.wait(K_ring_empty.index(K_ring_turn % STAGES), (K_ring_turn // STAGES % 2) ^ 1)
            mbarrier.expect(K_ring_full.index(K_ring_turn % STAGES), K_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(
                K_desc, [b, h, first_k, 0], K_ring_full.index(K_ring_turn % STAGES), K_ring.index(K_ring_turn % STAGES)
            )
            K_ring_turn += 1
            mbarrier.wait(V_ring_empty.index(V_ring_turn % STAGES), (V_ring_turn // STAGES % 2) ^ 1)
            mbarrier.expect(V_ring_full.index(V_ring_turn % STAGES), V_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(
                V_desc, [b, h, first_k, 0], V_ring_full.index(V_ring_turn % STAGES), V_ring.index(V_ring_turn % STAGES)
            )
            V_ring_turn += 1


@gluon.jit
def causal_kernel(
    K_ptr,
    Q_ptr,
    V_ptr,
    O_ptr,
    Q_desc,
    K_desc,
    V_desc,
    stride_K_b,
    stride_K_h,
    stride_K_k,
    stride_K_d,
    stride_Q_b,
    stride_Q_h,
    stride_Q_q,
    stride_Q_d,
    stride_V_b,
    stride_V_h,
    stride_V_k,
    stride_V_e,
    stride_O_b,
    stride_O_h,
    stride_O_q,
    stride_O_e,
    size_b,
    size_h,
    size_q,
    size_e: gl.constexpr,
    size_k,
    size_d: gl.constexpr,
    BLOCK_Q: gl.constexpr,
    BLOCK_E: gl.constexpr,
    BLOCK_K: gl.constexpr,
    BLOCK_D: gl.constexpr,
    EVEN_Q: gl.constexpr,
    EVEN_E: gl.constexpr,
    EVEN_K: gl.constexpr,
    EVEN_D: gl.constexpr,
    INDEX: gl.constexpr,
    PRECISION: gl.constexpr,
    STEP: gl.constexpr,
    ABREAST,
    STAGES: gl.constexpr,
    WARPS: gl.constexpr,
):
    Q_ring = gl.allocate_shared_memory(Q_desc.dtype, [1] + Q_desc.block_type.shape, Q_desc.layout)
    Q_ring_full = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    Q_ring_empty = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    for n in gl.static_range(1):
        mbarrier.init(Q_ring_full.index(n), count=1)
        mbarrier.init(Q_ring_empty.index(n), count=1)
    K_ring = gl.allocate_shared_memory(K_desc.dtype, [STAGES] + K_desc.block_type.shape, K_desc.layout)
    K_ring_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    K_ring_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for n in gl.static_range(STAGES):
        mbarrier.init(K_ring_full.index(n), count=1)
        mbarrier.init(K_ring_empty.index(n), count=1)
    V_ring = gl.allocate_shared_memory(V_desc.dtype, [STAGES] + V_desc.block_type.shape, V_desc.layout)
    V_ring_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    V_ring_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for n in gl.static_range(STAGES):
        mbarrier.init(V_ring_full.index(n), count=1)
        mbarrier.init(V_ring_empty.index(n), count=1)
    gl.warp_specialize(
        [
            (causal_kernel_consumer, (
                K_ptr,
                Q_ptr,
                V_ptr,
                O_ptr,
                Q_desc,
                K_desc,
                V_desc,
                stride_K_b,
                stride_K_h,
                stride_K_k,
                stride_K_d,
                stride_Q_b,
                stride_Q_h,
                stride_Q_q,
                stride_Q_d,
                stride_V_b,
                stride_V_h,
                stride_V_k,
                stride_V_e,
                stride_O_b,
                stride_O_h,
                stride_O_q,
                stride_O_e,
                size_b,
                size_h,
                size_q,
                size_e,
                size_k,
                size_d,
                BLOCK_Q,
                BLOCK_E,
                BLOCK_K,
                BLOCK_D,
                EVEN_Q,
                EVEN_E,
                EVEN_K,
                EVEN_D,
                INDEX,
                PRECISION,
                STEP,
                ABREAST,
                Q_ring,
                Q_ring_full,
                Q_ring_empty,
                K_ring,
                K_ring_full,
                K_ring_empty,
                V_ring,
                V_ring_full,
                V_ring_empty,
                STAGES,
                WARPS,
            )),
            (causal_kernel_producer, (
                K_ptr,
                Q_ptr,
                V_ptr,
                O_ptr,
                Q_desc,
                K_desc,
                V_desc,
                stride_K_b,
                stride_K_h,
                stride_K_k,
                stride_K_d,
                stride_Q_b,
                stride_Q_h,
                stride_Q_q,
                stride_Q_d,
                stride_V_b,
                stride_V_h,
                stride_V_k,
                stride_V_e,
                stride_O_b,
                stride_O_h,
                stride_O_q,
                stride_O_e,
                size_b,
                size_h,
                size_q,
                size_e,
                size_k,
                size_d,
                BLOCK_Q,
                BLOCK_E,
                BLOCK_K,
                BLOCK_D,
                EVEN_Q,
                EVEN_E,
                EVEN_K,
                EVEN_D,
                INDEX,
                PRECISION,
                STEP,
                ABREAST,
                Q_ring,
                Q_ring_full,
                Q_ring_empty,
                K_ring,
                K_ring_full,
                K_ring_empty,
                V_ring,
                V_ring_full,
                V_ring_empty,
                STAGES,
                WARPS,
            )),
        ],
        [1],
        [24],
    )
