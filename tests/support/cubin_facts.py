"""What the attributes of a compiled kernel say, where there is no disassembler."""

import struct

REGISTER_COUNT = 0x2F  # EIATTR_REGCOUNT: symbol, registers


def registers_at_launch(cubin):
    """Per thread, of an ELF file's only kernel, from the attributes in its section .nv.info."""
    sections, size, count, names = struct.unpack_from("<Q10xHHH", cubin, 0x28)
    headers = [struct.unpack_from("<IIQQQQ", cubin, sections + i * size) for i in range(count)]
    strings = headers[names][4]
    (info,) = [h for h in headers if cubin[strings + h[0] :].startswith(b".nv.info\0")]
    at, end = info[4], info[4] + info[5]
    while at < end:
        kind, attribute, length = struct.unpack_from("<BBH", cubin, at)
        if attribute == REGISTER_COUNT:
            return struct.unpack_from("<II", cubin, at + 4)[1]
        at += 4 + (length if kind == 4 else 0)  # other kinds hold their value where this one has its length
    raise AssertionError("no register count")
