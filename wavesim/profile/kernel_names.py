"""What a kernel's name tells: its kind, the tile it computes, whether it is persistent, and a short name.

Example: `sm90_xmma_gemm_bf16bf16_..._tilesize128x128x64_warpgroupsize1x1x1_...` is a GEMM in tiles of
128 x 128 whose blocks stay and take tile after tile. Names are all a profile has for this, so what is not
recognised stays "other", and nothing is concluded from it.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

# Every pattern takes time linear in the name, whatever it is: names come from outside.
# First match wins: a fused "gemm + all-reduce" communicates.
KINDS = (
    (
        "communication",
        re.compile(
            r"nccl|rccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|all2all|sendrecv"
            r"|broadcast_?kernel_p2p"
            # Expert-parallel dispatch and combine: DeepEP, and what others built after it.
            r"|deep_?ep(?![a-z])|(?<![a-z0-9_])ep::|intranode|internode|notify_dispatch|cached_notify",
            re.IGNORECASE,
        ),
    ),
    (
        "attention",
        re.compile(
            r"flash_(?:fwd|bwd|attn|mla)|flashattn|(?<![a-z0-9_])flash::|fmha|attention|attn_fwd|attn_bwd|mha_",
            re.IGNORECASE,
        ),
    ),
    (
        "gemm",
        re.compile(
            r"gemm|gemv|fused_moe|grouped_mm|nvjet|^(?>.*?cutlass).*kernel|xmma|cijk_|bmm_|matmul|(?<![a-z])mm_kernel|convol|conv\d?d|wgrad|dgrad|fprop|winograd|scudnn",
            re.IGNORECASE,
        ),
    ),
    (
        "memory",
        re.compile(
            r"elementwise|reduce|norm|softmax|copy|cat_?array|fill|index|gather|scatter|pool|bn_[fb]w|transpose|nchw|nhwc"
            r"|silu|gelu|relu|dropout|embedding|quant|cast|triton_(?:poi|red|per)|multi_tensor|add_|mul_|rope|rotary|histogram|finalize|routing|cache|criterion|scale"
            r"|computeoffsets|arange|sort|topk|cumsum|memset",
            re.IGNORECASE,
        ),
    ),
)
# Kernels whose blocks stay and fetch tile after tile: their grid says nothing about their tiles.
PERSISTENT = re.compile(
    r"persistent|stream_?k|sm90_xmma_gemm|segment_k|nvjet|deep_gemm|^(?>.*?fp8_gemm_kernel).*sm90",
    re.IGNORECASE,
)
# Products of as many problems as there are experts: how many tiles each has, only the data says.
GROUPED = re.compile(
    r"group(?:ed)?_?(?:gemm|mm|matmul|problem)|gemm_?grouped|moe_?(?:grouped_?)?gemm|fused_moe",
    re.IGNORECASE,
)
TILE = re.compile(
    r"(?:tile(?:size)?_?|gemm_|nvjet_[a-z]+_|dgrad_|fprop_|wgrad_|_|^)(\d{2,3})x(\d{2,3})(?=[x_])"
)
PREFIXES = re.compile(r"^(?:void|std::enable_if<.*?>::type)\s+")
FUNCTOR = re.compile(
    r"CUDAFunctor(?:OnSelf)?_(\w+)|(?<!\w)(\w+?)_kernel_(?:cuda|impl)\b|(?<!\w)(\w+?)(?:Functor|Ops)\b"
)
# Kernels of CUTLASS that only run what their template argument names, and what wraps that in turn.
HOLLOW = {"Kernel", "Kernel2", "device_kernel"}
SHELL = re.compile(r"^(?:enable_\w+|\w*[Ww]rapper|\w*_adapter)$")
WRAPPERS = {"Binary", "AUnary", "BUnary", "Unary", "gpu", "Reduce", "nocast"}
GENERIC = re.compile(r"elementwise|reduce_kernel|multi_tensor")
SHORT = 44
LONGEST_SHELLS = 400  # letters of a name in which what it wraps is looked for


@dataclass(frozen=True)
class KernelName:
    """`kind` is gemm, attention, memory, communication or other; `tile` (rows, columns) if it is said.

    `is_grouped`: many products in one launch, of sizes that only the data knows.
    """

    full: str
    short: str
    kind: str
    is_persistent: bool
    tile: tuple[int, int] | None
    is_grouped: bool = False


@lru_cache(maxsize=65_536)
def parsed_name(full: str) -> KernelName:
    """What the name of a kernel tells."""
    text = PREFIXES.sub("", full)
    head = _before_arguments(text)
    own = _argument(text) if _last(head) in HOLLOW else head
    kind = _kind(own) or _kind(head) or _kind(full) or "other"
    tile = None
    if kind == "gemm":
        match = TILE.search(full)
        tile = (int(match[1]), int(match[2])) if match else None
        if tile is not None and min(tile) < 8:
            tile = None
    is_grouped = kind == "gemm" and bool(GROUPED.search(full))
    return KernelName(full, _short(full), kind, bool(PERSISTENT.search(full)), tile, is_grouped)


def _kind(text: str) -> str | None:
    return next((word for word, pattern in KINDS if pattern.search(text)), None)


def _short(full: str) -> str:
    text = PREFIXES.sub("", full)
    head = _before_arguments(text)
    own = _last(head) or head.strip() or full
    if own in HOLLOW:
        own = _last(_argument(text)) or own
    if GENERIC.search(own):
        functors = ("".join(groups) for groups in FUNCTOR.findall(text[len(head) :]))
        functor = next((word for word in functors if word not in WRAPPERS), "")
        if functor:
            own = f"{functor.rstrip('_')} ({own.removesuffix('_kernel')})"
    return own if len(own) <= SHORT else f"{own[: SHORT - 1]}…"


def _last(name: str) -> str:
    return name.rsplit("::", 1)[-1].strip()


def _argument(text: str) -> str:
    """The first template argument, of this kernel or within it, that is more than a shell; "" if none is."""
    named = (match[0] for match in re.finditer(r"(?<=<)\s*[\w:]+", text[:LONGEST_SHELLS]))
    return next((name.strip() for name in named if not SHELL.match(_last(name))), "")


def _before_arguments(text: str) -> str:
    """Everything before the first bracket of template or call arguments, "(anonymous namespace)" apart."""
    plain = text.replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", plain, maxsplit=1)[0]
