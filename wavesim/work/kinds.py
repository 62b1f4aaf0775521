"""The kinds of work there are, a line each; `register_kind` adds one of a user's own.

Example: after `register_kind(WorkKind(Transpose, Path("fields.toml")))` a stage of a description may have a
table `transpose`, which is read, simulated, compared and written like any other.
"""

from collections.abc import Mapping

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Work
from wavesim.work.attention.kind import ATTENTION, DECODE, HEAD_PRODUCT
from wavesim.work.collective.host import FIELDS as HOST_FIELDS
from wavesim.work.convolution.kind import CONVOLUTION
from wavesim.work.description.fields import FILE, read_fields
from wavesim.work.description.table import Field
from wavesim.work.gemm.kind import GEMM
from wavesim.work.grouped.kind import COMBINE, GROUPED
from wavesim.work.kind import WorkKind
from wavesim.work.rows.kind import COPY, NORM, SOFTMAX
from wavesim.work.streamed.kind import STREAMED

KINDS: dict[str, WorkKind] = {
    GEMM.word: GEMM,
    CONVOLUTION.word: CONVOLUTION,
    ATTENTION.word: ATTENTION,
    DECODE.word: DECODE,
    HEAD_PRODUCT.word: HEAD_PRODUCT,
    NORM.word: NORM,
    SOFTMAX.word: SOFTMAX,
    COPY.word: COPY,
    STREAMED.word: STREAMED,
    GROUPED.word: GROUPED,
    COMBINE.word: COMBINE,
}


def register_kind(kind: WorkKind) -> None:
    """Adds a kind of a user's own. Raises `DescriptionError` for a word that is none, or taken."""
    taken = {*KINDS, *(field.name for field in stage_fields())}
    if not kind.word.isidentifier() or kind.word in taken:
        raise DescriptionError(
            f"{kind.work.__name__}: word is {kind.word!r}; it must be a name that no field of a stage has: "
            f"{', '.join(sorted(taken))} are taken"
        )
    KINDS[kind.word] = kind


def kind_of(work: Work) -> WorkKind | None:
    """What is registered of a stage's work; None for a bare kernel and a user's own."""
    return KINDS.get(work.word)


def stage_fields() -> tuple[Field, ...]:
    """All fields of a stage's table, whatever it computes."""
    files = dict.fromkeys((FILE, *(kind.file for kind in KINDS.values())))
    return tuple(field for file in files for field in read_fields(file).get("stages", ()))


def sections() -> Mapping[str, tuple[Field, ...]]:
    """All fields of a description by section; "top" is the file's own table."""
    fields: dict[str, tuple[Field, ...]] = {}
    for file in dict.fromkeys((FILE, *(kind.file for kind in KINDS.values()), HOST_FIELDS)):
        fields |= read_fields(file)
    return {**fields, "stages": stage_fields()}
