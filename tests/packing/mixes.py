"""Generated hardware and demand, with everything in it that a mix can hold."""

from __future__ import annotations

from hypothesis import strategies as st

from scheduler.packing.hardware import Hardware, Model
from scheduler.packing.mix import Mix, PodClass

KEYS = ("A", "B", "C")
CPU_MILLI = st.sampled_from((0, 1, 500, 3152, 12_000, 96_000, 1 << 25, 1 << 56))
MILLI = st.one_of(st.sampled_from((1, 10, 333, 470, 500, 999)), st.integers(1, 999))


@st.composite
def models(draw: st.DrawFn) -> Model:
    nodes = draw(st.integers(0, 3))
    most = draw(st.integers(1, 10)) if nodes else 0
    return Model(
        key=draw(st.sampled_from(KEYS)),
        card_mib=draw(st.sampled_from((0, 1, 16_384, 40_960, 81_559))),
        nodes=nodes,
        devices=nodes * most,
        cpu_milli=nodes * draw(st.sampled_from((0, 8_000, 96_000))),
        most_devices=most,
        takes_shares=draw(st.booleans()),
    )


@st.composite
def classes(draw: st.DrawFn) -> PodClass:
    kind = draw(st.sampled_from(("plain", "whole", "share", "memory")))
    keys = st.none() if kind == "plain" else st.none() | st.frozensets(st.sampled_from((*KEYS, "gone")))
    milli = {"plain": st.just(0), "whole": st.just(1000), "share": MILLI, "memory": st.just(0)}[kind]
    mib = st.sampled_from((1, 5_000, 16_384, 40_000, 1 << 40)) if kind == "memory" else st.just(0)
    return PodClass(
        cpu_milli=draw(CPU_MILLI),
        memory_bytes=draw(st.sampled_from((0, 1, 1 << 34, 1 << 56))),
        devices=0 if kind == "plain" else draw(st.sampled_from((1, 1, 1, 2, 3, 8, 12))),
        milli=draw(milli),
        share_mib=draw(mib),
        models=draw(keys),
        spec=draw(st.sampled_from(("", "A|B"))),
    )


@st.composite
def mixes(draw: st.DrawFn) -> Mix:
    chosen = draw(st.lists(classes(), max_size=6))
    count = st.lists(
        st.one_of(st.integers(0, 3), st.integers(0, 1 << 40)), min_size=len(chosen), max_size=len(chosen)
    ).map(tuple)
    return Mix(tuple(chosen), draw(count), draw(st.none() | count))


HARDWARE = st.builds(Hardware, st.lists(models(), max_size=4).map(tuple), st.sampled_from((0, 64_000)))
