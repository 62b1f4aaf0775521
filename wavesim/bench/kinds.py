"""What a row of a case list describes: a chain of GEMMs, a layer's stages, convolutions, or plain fields.

Example: {"part": "pair", "size": 28, "channels": 128, "images": 11, "tile": [128, 128, 1]} is two 3 x 3
convolutions on 28 x 28 images. A kind that only the GPU side can build has no pipeline here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wavesim.bench.blind_sizes import BlindSize
from wavesim.bench.foreign_pairs import pair_of
from wavesim.errors import RecordingError
from wavesim.model.device import Device
from wavesim.model.link import load_link
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import parse_order
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.work.collective import Collective
from wavesim.work.collective.host import Host
from wavesim.workloads.catalogue import parse_tile
from wavesim.workloads.conv_networks import Convolution, basic_block, bottleneck, chain_of_convolutions
from wavesim.workloads.decode_steps import TILE_ROWS, decode_step
from wavesim.workloads.layer_backends import with_backends, with_chained_products
from wavesim.workloads.layers import chain_of, transformer_layer
from wavesim.workloads.moe import moe_layer

Fields = Mapping[str, Any]
SYMMETRIC = "symmetric "  # before the names of PyTorch's all-reduces in results


class CaseKind(ABC):
    """How rows become cases: `needs` are the fields a row must have, `spread` those that may be lists."""

    needs: frozenset[str] = frozenset()
    spread: Sequence[str] = ()
    is_told = False  # predicted from recordings as `wavesim predict` does

    @abstractmethod
    def name(self, fields: Fields) -> str:
        """Of a case, for files and people."""

    def pipeline(self, fields: Fields) -> Pipeline:
        """The case's stages. Raises `RecordingError` where a kind has none."""
        raise RecordingError(f"{self.name(fields)}: its kernels are built on the GPU side only")

    def plan(self, fields: Fields, word: str, order: str) -> Plan:
        """The plan of a word with all tiles in an order."""
        del fields
        return parse_plan(word, order)

    def times(self, fields: Fields, device: Device) -> Mapping[str, int] | None:
        """Simulated ns by way, of a kind whose ways are no plans; the baseline's first."""
        del fields, device
        return None


class Gemms(CaseKind):
    """Pairs and chains of GEMMs of one of our backends: `BlindSize` has the fields."""

    needs = frozenset({"kernels", "workload", "tokens", "tiles"})
    spread = ("tokens",)
    is_told = True

    def name(self, fields: Fields) -> str:
        return self._size(fields).name

    def pipeline(self, fields: Fields) -> Pipeline:
        return self._size(fields).pipeline()

    def plan(self, fields: Fields, word: str, order: str) -> Plan:
        return self._size(fields).plan(word, order)

    @staticmethod
    def _size(fields: Fields) -> BlindSize:
        tiles = tuple((rows, columns) for rows, columns in fields["tiles"])
        splits = tuple(fields.get("split_k", (1,) * len(tiles)))
        return BlindSize(fields["kernels"], fields["workload"], fields["tokens"], tiles, splits)


class Layers(CaseKind):
    """Part of a transformer layer of a model; `tokens` are sequences where the part is "decode"."""

    needs = frozenset({"part", "model", "tokens"})
    spread = ("tokens", "model")
    parts: Mapping[str, tuple[str, ...]] = {
        "chain": ("qkv", "attention", "out"),
        "into": ("qkv", "attention"),
        "from": ("attention", "out"),
        "norm": ("out", "mlp_norm", "up"),
        "chained": ("qkv", "attention", "out"),
    }
    cached = 2047  # keys before a decode step

    def name(self, fields: Fields) -> str:
        return f"{fields['part']} {fields['model']} {fields['tokens']}"

    def pipeline(self, fields: Fields) -> Pipeline:
        part, is_decode = fields["part"], fields["part"] == "decode"
        tile = fields.get("tile")
        layer = transformer_layer(
            fields["model"],
            fields["tokens"],
            phase="decode" if is_decode else "prefill",
            cached=self.cached if is_decode else 0,
            tiles=dict.fromkeys(("qkv", "out", "up", "down"), tuple(tile)) if tile else None,
        )
        stages = chain_of(layer, self.parts[part]) if part in self.parts else layer
        return with_chained_products(stages) if part.startswith("chained") else with_backends(stages)

    def plan(self, fields: Fields, word: str, order: str) -> Plan:
        """The order is of attention's tiles, which are not all alike."""
        plan = parse_plan(word)
        return plan if order == "row" else replace(plan, orders={"attention": parse_order(order)})


class Convolutions(CaseKind):
    """Pairs and chains of convolutions and blocks of ResNets, in tiles of (rows, columns, splits of K)."""

    needs = frozenset({"part", "size", "channels", "images", "tile"})
    spread = ("images",)
    counts: Mapping[str, int] = {"pair": 2, "chain": 4}
    down = "-down"

    def name(self, fields: Fields) -> str:
        rows, columns, splits = fields["tile"]
        tile = f"{rows}x{columns}" + (f"x{splits}" if splits > 1 else "")
        return f"{fields['part']} {fields['size']}x{fields['channels']} batch {fields['images']} {tile}"

    def pipeline(self, fields: Fields) -> Pipeline:
        """Of more than two convolutions those kernels whose blocks leave as they end."""
        part, (rows, columns, splits) = fields["part"], fields["tile"]
        layers = tuple(self._layers(part, fields["size"], fields["channels"]))
        tiles = {layer.name: (rows, min(columns, layer.filters), splits) for layer in layers}
        stages = chain_of_convolutions(part, layers, fields["images"], tiles)
        return with_backends(stages) if part in ("pair", "squeeze") else with_chained_products(stages)

    def _layers(self, part: str, size: int, channels: int) -> Iterator[Convolution]:
        if part == "squeeze":  # 1 x 1, to four times the channels and back
            yield Convolution("conv1", size, channels, 4 * channels, kernel_size=1)
            yield Convolution("conv2", size, 4 * channels, channels, kernel_size=1, reads="conv1")
        elif part in self.counts:
            for number in range(1, self.counts[part] + 1):
                reads = f"conv{number - 1}" if number > 1 else ""
                yield Convolution(f"conv{number}", size, channels, channels, reads=reads)
        else:
            block, times = (basic_block, 1) if part.startswith("basic") else (bottleneck, 4)
            if part.endswith(self.down):
                yield from block("conv", 2 * size, channels * times // 2, channels, 2, "")
            else:
                yield from block("conv", size, channels * times, channels, 1, "")

    def plan(self, fields: Fields, word: str, order: str) -> Plan:
        """All tiles are alike, so that there is one order."""
        del fields, order
        return parse_plan(word)


class Foreign(CaseKind):
    """Pairs of kernels that share no code with ours; `foreign_pairs` has the fields."""

    needs = frozenset({"m", "k", "n1", "n2", "tile"})

    def name(self, fields: Fields) -> str:
        return pair_of(fields).name


class CrossoverSize(CaseKind):
    """A model's MLP on one of `tp` GPUs, in tiles of one shape for both products, at `m` tokens."""

    needs = frozenset({"model", "tp", "tile", "m", "backend"})
    spread = ("m",)

    def name(self, fields: Fields) -> str:
        return f"{fields['model']} tp{fields['tp']} {fields['tile']} M={fields['m']}"

    def pipeline(self, fields: Fields) -> Pipeline:
        from wavesim.tuning.crossover.family import mlp_of  # noqa: PLC0415  # needs simpy

        family = mlp_of(fields["model"], fields["tp"], parse_tile(fields["tile"]), fields["backend"])
        return family.pipeline(fields["m"])


class DecodeSteps(CaseKind):
    """Layers of a decode step in one kernel; `keys` count the step's own, `splits` are attention's."""

    needs = frozenset({"model", "batch", "keys", "layers"})
    spread = ("batch", "keys")

    def name(self, fields: Fields) -> str:
        return f"{fields['model']} batch {fields['batch']} keys {fields['keys']} layers {fields['layers']}"

    def pipeline(self, fields: Fields) -> Pipeline:
        return decode_step(
            fields["model"],
            fields["batch"],
            fields["keys"] - 1,
            layers=fields["layers"],
            splits={"attention": fields["splits"]} if "splits" in fields else None,
            tile_rows=fields.get("tile_rows", TILE_ROWS),
        )


class MoeLayers(CaseKind):
    """A MoE layer of a model for so many tokens, routed by a draw; its tiles as our kernels have them."""

    needs = frozenset({"model", "tokens", "skew"})
    spread = ("model", "tokens", "skew")

    def name(self, fields: Fields) -> str:
        return f"{fields['model']} {fields['tokens']} skew {fields['skew']:g}"

    def pipeline(self, fields: Fields) -> Pipeline:
        return moe_layer(fields["model"], fields["tokens"], skew=float(fields["skew"]))


class Mlps(CaseKind):
    """An MLP of a model for so many tokens, and which of torch's `forms` it is compared with."""

    needs = frozenset({"model", "k", "n1", "n2", "dtype", "activation", "tokens", "forms"})
    spread = ("tokens",)

    def name(self, fields: Fields) -> str:
        return f"{fields['model']} M={fields['tokens']}"


class OnTheGpu(CaseKind):
    """A case whose kernels only the GPU side knows: a row has a name and what that side reads."""

    needs = frozenset({"name"})

    def name(self, fields: Fields) -> str:
        return str(fields["name"])


class SeveralGpus(OnTheGpu):
    """A product whose outputs are summed over GPUs, `devices` of them, (m, k) x (k, n) on each.

    `ways`, where there are some, are those measured; all-reduces over PyTorch's symmetric memory by its name.
    """

    def times(self, fields: Fields, device: Device) -> Mapping[str, int] | None:
        from wavesim.predict.peer_forecast import TRIED, product_forecast  # noqa: PLC0415  # needs simpy

        collective = Collective(fields["collective"])
        host = Host(len(fields.get("devices", (0, 1))), load_link(device.name), {"gemm": collective})
        names = {way.removeprefix(SYMMETRIC): way for way in fields.get("ways", ())}
        size = fields["m"], fields["n"], fields["k"]
        forecast = product_forecast(size, host, device, tuple(names) or TRIED, both_shots=not names)
        return {names.get(time.word, time.word): time.time_ns for time in forecast.times}


# What `kind` of a list may be.
KINDS: Mapping[str, CaseKind] = {
    "gemms": Gemms(),
    "layers": Layers(),
    "convolutions": Convolutions(),
    "foreign": Foreign(),
    "decode-steps": DecodeSteps(),
    "two-gpus": SeveralGpus(),
    "crossover": CrossoverSize(),
    "lab": OnTheGpu(),
    "moe-layers": MoeLayers(),
    "mlps": Mlps(),
}
