"""What is put between a program's instructions, as PTX: a delay, a store kept back, arrays read early.

Example: `DELAY` sleeps for a part of the longest delay where the site is on and the dice say so. All names
begin with %ws, which no compiler writes; each piece is a block of its own, so that its registers are its own.
"""

TABLE = "wavesim_shake"
# Words of the table: seed, longest delay in ns, mask of the chance, delays per thread; then the arrays that
# are read early, an address and a count of 32-byte sectors each; then a bit for each site.
HEAD_WORDS, MOST_ARRAYS, MOST_SITES = 4, 8, 4096
ARRAY_WORDS = 4
SITES_AT = HEAD_WORDS + ARRAY_WORDS * MOST_ARRAYS
TABLE_WORDS = SITES_AT + MOST_SITES // 32
SECTOR = 32
MOST_BITS = 128  # of a store that is kept back
GRANULE_BITS = 5  # of an access: none is wider than 32 bytes, and each is aligned

ENTRY = f"""
.reg .b32 %ws_id, %ws_left, %ws_w<4>, %ws_width;
.reg .b64 %ws_at;
mov.u32 %ws_width, 0;
mov.u64 %ws_at, 0;
mov.u32 %ws_w0, 0;
mov.u32 %ws_w1, 0;
mov.u32 %ws_w2, 0;
mov.u32 %ws_w3, 0;
{{
.reg .b32 %wsa, %wsb;
mov.u32 %ws_id, %tid.z;
mov.u32 %wsa, %ntid.y;
mov.u32 %wsb, %tid.y;
mad.lo.u32 %ws_id, %ws_id, %wsa, %wsb;
mov.u32 %wsa, %ntid.x;
mov.u32 %wsb, %tid.x;
mad.lo.u32 %ws_id, %ws_id, %wsa, %wsb;
shr.u32 %ws_id, %ws_id, 5;
mul.lo.u32 %ws_id, %ws_id, 0x9E3779B1;
mov.u32 %wsa, %ctaid.x;
mad.lo.u32 %ws_id, %wsa, 0x27D4EB2F, %ws_id;
mov.u32 %wsa, %ctaid.y;
mad.lo.u32 %ws_id, %wsa, 0x165667B1, %ws_id;
mov.u32 %wsa, %ctaid.z;
mad.lo.u32 %ws_id, %wsa, 0xC2B2AE3D, %ws_id;
ld.const.u32 %wsa, [{TABLE}];
mul.lo.u32 %wsa, %wsa, 0x2545F491;
xor.b32 %ws_id, %ws_id, %wsa;
ld.const.u32 %ws_left, [{TABLE}+12];
}}
"""
# %wsp: whether the site is on, the thread has delays left and the dice say so; %wsh: 32 random bits.
CHOICE = f"""ld.const.u32 %wst, [{TABLE}+{{at}}];
and.b32 %wst, %wst, {{bit}};
setp.ne.u32 %wsp, %wst, 0;
setp.ne.and.u32 %wsp, %ws_left, 0, %wsp;
mad.lo.u32 %wsh, %ws_left, 0x7FEB352D, {{salt}};
xor.b32 %wsh, %wsh, %ws_id;
shr.u32 %wst, %wsh, 16;
xor.b32 %wsh, %wsh, %wst;
mul.lo.u32 %wsh, %wsh, 0x7FEB352D;
shr.u32 %wst, %wsh, 15;
xor.b32 %wsh, %wsh, %wst;
mul.lo.u32 %wsh, %wsh, 0x846CA68B;
shr.u32 %wst, %wsh, 16;
xor.b32 %wsh, %wsh, %wst;
ld.const.u32 %wst, [{TABLE}+8];
and.b32 %wst, %wst, %wsh;
setp.eq.and.u32 %wsp, %wst, 0, %wsp;"""
DELAY = f"""
{{{{
.reg .pred %wsp;
.reg .b32 %wsh, %wst;
{{choice}}
ld.const.u32 %wst, [{TABLE}+4];
mul.hi.u32 %wst, %wst, %wsh;
@%wsp sub.u32 %ws_left, %ws_left, 1;
@%wsp nanosleep.u32 %wst;
}}}}
"""
FLUSH = """
{
.reg .pred %wsp;
setp.eq.u32 %wsp, %ws_width, 2;
@%wsp st.global.b16 [%ws_at], %ws_w0;
setp.eq.u32 %wsp, %ws_width, 4;
@%wsp st.global.b32 [%ws_at], %ws_w0;
setp.eq.u32 %wsp, %ws_width, 8;
@%wsp st.global.v2.b32 [%ws_at], {%ws_w0, %ws_w1};
setp.eq.u32 %wsp, %ws_width, 16;
@%wsp st.global.v4.b32 [%ws_at], {%ws_w0, %ws_w1, %ws_w2, %ws_w3};
mov.u32 %ws_width, 0;
}
"""
ALWAYS = "setp.eq.u32 %wsr, 0, 0;"
# In place of a plain store: kept back (%wsp), or performed at once (%wsq).
KEEP = """
{{
.reg .pred %wsp, %wsq, %wsr;
.reg .b32 %wsh, %wst;
{choice}
setp.eq.and.u32 %wsp, %ws_width, 0, %wsp;
{guard}
not.pred %wsq, %wsp;
and.pred %wsp, %wsp, %wsr;
and.pred %wsq, %wsq, %wsr;
@%wsp add.s64 %ws_at, {base}, {offset};
{values}
@%wsp mov.u32 %ws_width, {width};
@%wsp sub.u32 %ws_left, %ws_left, 1;
@%wsq {instruction};
}}
"""
LATE = f"""
{{
.reg .pred %wsp;
.reg .b32 %wst;
ld.const.u32 %wst, [{TABLE}+4];
setp.ne.u32 %wsp, %ws_width, 0;
@%wsp nanosleep.u32 %wst;
}}
"""
SAME = f"""
{{{{
.reg .pred %wsp, %wsq;
.reg .b64 %wsd;
add.s64 %wsd, {{base}}, {{offset}};
xor.b64 %wsd, %wsd, %ws_at;
shr.u64 %wsd, %wsd, {GRANULE_BITS};
setp.eq.u64 %wsq, %wsd, 0;
"""
FLUSH_SAME = """setp.eq.and.u32 %wsp, %ws_width, 2, %wsq;
@%wsp st.global.b16 [%ws_at], %ws_w0;
setp.eq.and.u32 %wsp, %ws_width, 4, %wsq;
@%wsp st.global.b32 [%ws_at], %ws_w0;
setp.eq.and.u32 %wsp, %ws_width, 8, %wsq;
@%wsp st.global.v2.b32 [%ws_at], {%ws_w0, %ws_w1};
setp.eq.and.u32 %wsp, %ws_width, 16, %wsq;
@%wsp st.global.v4.b32 [%ws_at], {%ws_w0, %ws_w1, %ws_w2, %ws_w3};
@%wsq mov.u32 %ws_width, 0;
}
"""
# How a block reads early: all threads at its beginning, or the one that is behind a fence.
ALL_OF_BLOCK = {"first": "%tid.x", "step": "%ntid.x", "most": 4096, "meet": "bar.sync 0;"}
ONE_THREAD = {"first": "0", "step": "1", "most": 16, "meet": ""}
EARLY = f"""
{{{{
.reg .pred %wsp;
.reg .b32 %wsh, %wst, %wsb, %wsi, %wsn, %wss, %wsr;
.reg .b64 %wsd, %wse;
{{choice}}
@!%wsp bra {{label}}_end;
sub.u32 %ws_left, %ws_left, 1;
mov.u32 %wsr, 0;
mov.u32 %wss, 0;
{{label}}_array:
mad.lo.u32 %wst, %wsr, {4 * ARRAY_WORDS}, {4 * HEAD_WORDS};
cvt.u64.u32 %wsd, %wst;
mov.u64 %wse, {TABLE};
add.u64 %wse, %wse, %wsd;
ld.const.u64 %wsd, [%wse];
ld.const.u32 %wsn, [%wse+8];
min.u32 %wsn, %wsn, {{most}};
mov.u32 %wsi, {{first}};
{{label}}_sector:
setp.ge.u32 %wsp, %wsi, %wsn;
@%wsp bra {{label}}_next;
mul.wide.u32 %wse, %wsi, {SECTOR};
add.u64 %wse, %wse, %wsd;
ld.global.u32 %wsb, [%wse];
xor.b32 %wss, %wss, %wsb;
mov.u32 %wsb, {{step}};
add.u32 %wsi, %wsi, %wsb;
bra {{label}}_sector;
{{label}}_next:
add.u32 %wsr, %wsr, 1;
setp.lt.u32 %wsp, %wsr, {MOST_ARRAYS};
@%wsp bra {{label}}_array;
setp.eq.u32 %wsp, %wss, 0x5EED5EED;
@%wsp nanosleep.u32 1;
{{label}}_end:
{{meet}}
}}}}
"""
