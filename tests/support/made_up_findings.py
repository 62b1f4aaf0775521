"""A small pair of kernels with findings on it, for what shows reports; and the same under other names.

Example: `report()` is of a consumer whose poll does not acquire, and of a producer that is right.
"""

from collections.abc import Callable

from wavesim.lint.finding import Finding
from wavesim.lint.instruction import Instruction, KernelCode, Listing, Op, SourceLine
from wavesim.lint.report import LintReport

CONSUMER = """ld.param.u64 %rd1, [consumer_param_0];
ld.param.u64 %rd2, [consumer_param_1];
cvta.to.global.u64 %rd3, %rd1;
cvta.to.global.u64 %rd4, %rd2;
mov.u32 %r1, %tid.x;
setp.ne.s32 %p1, %r1, 0;
@%p1 bra $L_ready;
ld.relaxed.gpu.global.u32 %r2, [%rd4];
setp.lt.u32 %p2, %r2, 8;
@%p2 bra $L_poll;
bar.sync 0;
mul.wide.u32 %rd5, %r1, 16;
add.s64 %rd6, %rd3, %rd5;
ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd6];
fma.rn.f32 %f5, %f1, %f2, %f3;
add.f32 %f6, %f5, %f4;
ld.global.v4.f32 {%f7, %f8, %f9, %f10}, [%rd6+512];
st.global.f32 [%rd6+8192], %f6;
ret;""".splitlines()
PRODUCER = """ld.param.u64 %rd1, [producer_param_0];
cvta.to.global.u64 %rd2, %rd1;
mul.wide.u32 %rd3, %r1, 16;
st.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};
bar.sync 0;
red.release.gpu.global.add.u32 [%rd4], 1;
ret;""".splitlines()


def report(name: Callable[[], str] | None = None, *, source: bool = True) -> LintReport:
    """The report, its texts as they are or each by a call of `name`."""

    def said(text: str) -> str:
        return text if name is None else name()

    def code(kernel: str, lines: list[str], first: int) -> KernelCode:
        instructions = [
            Instruction(
                said(line),
                Op.OTHER,
                first + at,
                source=SourceLine(said("pair.cu"), 10 + at // 2) if source else None,
            )
            for at, line in enumerate(lines)
        ]
        labels = {said("$L_poll"): 7, said("$L_ready"): 10} if kernel == "consumer" else {}
        return KernelCode(said(kernel), instructions, labels)

    consumer, producer = code("consumer", CONSUMER, 14), code("producer", PRODUCER, 48)
    where = said("pair.ptx")
    listing = Listing(where, "ptx", said("sm_90a"), (producer, consumer), (said("function f was not found"),))
    poll, loads = consumer.instructions[7], (consumer.instructions[13], consumer.instructions[16])
    post, store = producer.instructions[5], (producer.instructions[3],)
    findings = [
        Finding(
            producer.name,
            "post",
            said("no-release"),
            "right",
            said("red.release.gpu stands behind bar.sync, which all stores of the block come before"),
            instruction=post,
            others=store,
            where=where,
        ),
        Finding(
            consumer.name,
            "spin",
            said("unbounded-spin"),
            "unknown",
            said("%r2 alone ends the loop, and whether another kernel posts it is not in this file"),
            instruction=consumer.instructions[9],
            where=where,
        ),
        Finding(
            consumer.name,
            "wait",
            said("no-acquire"),
            "wrong",
            said("the flag is polled relaxed and no fence stands between the poll and the loads of the data"),
            said("Poll with ld.acquire.gpu, or put __threadfence() between the poll and the first load."),
            instruction=poll,
            others=loads,
            where=where,
        ),
        Finding(
            consumer.name,
            "wait",
            said("load-before-barrier"),
            "right",
            said("bar.sync 0 stands between the one thread's wait and the block's loads"),
            instruction=consumer.instructions[10],
            others=loads,
            where=where,
        ),
    ]
    return LintReport(said("pair.ptx"), (listing,), findings, 0.021)
