"""Texts from outside, made safe for where they go: HTML and SVG, JSON in a script, a terminal, CUDA.

Example: a profile says that its GPU is `<img src=x onerror=...>`. In a page and in a figure that is the GPU's
name, in angle brackets; on a terminal and in a comment of generated CUDA it is one line without control
characters. A stage called `int`, `threadIdx` or `NULL` gets another word in generated code.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from wavesim.errors import DescriptionError

_KEYWORDS = """
alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool break case
catch char char16_t char32_t char8_t class co_await co_return co_yield compl concept const const_cast
consteval constexpr constinit continue contract_assert decltype default delete do double dynamic_cast else
enum explicit export extern false final float for friend goto if import inline int long module mutable
namespace new noexcept not not_eq nullptr operator or or_eq override private protected public reflexpr
register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast
struct switch synchronized template this thread_local throw true try typedef typeid typename typeof union
unsigned using virtual void volatile wchar_t while xor xor_eq
"""
_MACROS = """
alloca assert assert_perror complex errno far huge imaginary interface linux major makedev math_errhandling
max min minor near offsetof setjmp sigsetjmp small stderr stdin stdout unix va_arg va_copy va_end va_start
"""
_BUILTINS = "blockDim blockIdx gridDim threadIdx warpSize dim3 cuda cusync std wavesim main"
# Functions and types that are global wherever a header of CUDA or C is included. They only hinder namespaces.
_GLOBALS = """
abort abs access acct acos acosh alarm array asin asinh atan atan2 atanh atexit atof atoi atol bind bit
block bool brk bsearch byte calloc cbrt ceil chdir chroot clock close copysign cos cosh cospi creat ctime
daylight difftime div drem dup environ erf erfc erfcinv erfcx erfinv exec exit exp exp10 exp2 expm1 fabs
fclose fdim fdivide feof ferror fflush ffs fgetc fgets finite float_t floor fma fmax fmin fmod fopen fork
fprintf fputc fputs fread free freopen frexp fscanf fseek ftell fwrite gamma getc getchar getenv gets gmtime
half half2 hypot ilogb index ioctl isalnum isalpha isdigit isfinite isinf islower isnan isprint ispunct
isspace isupper j0 j1 jn kill labs ldexp ldiv lgamma link listen llabs lldiv llrint llround localtime lock
log log10 log1p log2 logb longjmp lrint lround lseek malloc memchr memcmp memcpy memmove memset mktime modf
mul24 mulhi nan nanosleep nearbyint nextafter nice norm norm3d norm4d normcdf normcdfinv open pause perror
pipe popen pow powi printf putc putchar putenv puts qsort quick_exit raise rand random rcbrt read realloc
realpath recv remainder remove remquo rename rewind rhypot rindex rint rnorm round rsqrt saturate scalb
scalbln scalbn scanf select send setbuf setenv signal signbit signgam significand sin sincos sinh sinpi
sleep snprintf socket sprintf sqrt srand sscanf stat stime strcat strchr strcmp strcpy strdup strlen strncpy
strstr strtod strtol swab sync syscall system tan tanh tempnam tgamma time times timezone tmpfile tmpnam
toascii tolower toupper trap trunc truncate tzname umask umul24 umulhi uname ungetc unlink usleep utime
vfork vfprintf vprintf vsprintf wait write y0 y1 yn
"""
RESERVED = frozenset(f"{_KEYWORDS} {_MACROS} {_BUILTINS}".split())
GLOBALS = frozenset(_GLOBALS.split())
# Capitals: macros. The rest of the first are macros of C's headers with other letters in them.
_MACRO_NAME = re.compile(r"[A-Z][A-Z0-9_]+|I|(?:M|NV|L|P)_\w+")
_GLOBAL_NAME = re.compile(
    r"(?:cuda|cu[A-Z]|nv|make_|atomic|tex|surf|pthread_)\w*|\w+_[tr]"
    r"|u?(?:char|short|int|long|longlong|float|double)\d\w*"
)


def is_reserved(word: str) -> bool:
    """Whether a word is a keyword, a builtin or a macro, or may be one."""
    return word in RESERVED or _MACRO_NAME.fullmatch(word) is not None


def is_global(word: str) -> bool:
    """Whether CUDA's or C's headers declare the word, or one like it, outside any namespace."""
    singular = word[:-1] if word[-1:] in ("f", "l") else word  # expf and expl beside exp
    return not GLOBALS.isdisjoint((word, singular)) or _GLOBAL_NAME.fullmatch(word) is not None


LONGEST_WORD = 60
WIDTH = 100  # columns of what a command prints for people

# What ends a script element or starts a comment in it; the separators end a line of JavaScript before ES2019.
SCRIPT_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


# Half a surrogate pair in JSON: an escape alone. Whole pairs and escaped backslashes are tried first.
HALF_PAIR = re.compile(r"(\\\\|\\ud[89ab]..\\ud[c-f]..)|\\ud[89a-f]..")
# Read alike by HTML, SVG and plotly's labels, where "$" starts a formula and "%{" a field.
# An attribute stands in double quotes, so that an apostrophe stays one.
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "$": "&#36;", "%": "&#37;"}
SPECIAL = re.compile(r"""[&<>"$]|%(?=\{)""")
# What no document holds, or what turns round the text after it: controls, lone surrogates, bidi overrides.
UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
REPLACEMENT = "\ufffd"


class Markup(str):
    """Text that is markup already; whatever else goes into an element, a template or a list is escaped."""

    __slots__ = ()

    def format(self, *values: Any, **named: Any) -> "Markup":
        """The template with texts in its braces, escaped; attributes need double quotes."""
        names = {name: _escaped(value) for name, value in named.items()}
        return Markup(super().format(*map(_escaped, values), **names))

    def join(self, parts: Iterable[str], /) -> "Markup":
        """The parts, escaped, with this markup between them."""
        return Markup(super().join(map(markup, parts)))


BREAK = Markup("<br>")


def element(tag: str, *children: str, **attributes: str | float | None) -> Markup:
    """One element. Attributes: `class_` is class, `stroke_width` stroke-width; those of None are left out."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{named}>{''.join(map(markup, children))}</{tag}>")


def markup(text: str) -> Markup:
    """A text as markup for HTML, SVG and plotly: escaped, unless it is markup already."""
    if isinstance(text, Markup):
        return text
    return Markup(SPECIAL.sub(lambda match: ENTITIES[match[0]], shown(text)))


def shown(text: str) -> str:
    """A text without what no document can hold, or what turns round the text after it."""
    return UNSHOWN.sub(REPLACEMENT, text)


def _escaped(value: Any) -> Any:
    return markup(value) if isinstance(value, str) else value


def _value(value: str | float) -> str:
    return markup(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def script_json(value: Any, default: Callable[[Any], Any] | None = None) -> Markup:
    """A value as JSON that may stand anywhere in a script element."""
    text = json.dumps(value, separators=(",", ":"), default=default).translate(SCRIPT_ESCAPES)
    return Markup(HALF_PAIR.sub(lambda match: match[1] or r"\ufffd", text))


def one_line(text: str, longest: int = 200) -> str:
    """A text for a terminal or a comment: one line, no control or formatting characters, cut to a length."""
    line = text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def whole_line(text: str) -> str:
    """A text for a terminal in one line, however long."""
    return one_line(text, len(text))


def lines(text: str) -> str:
    """A text of several lines for a terminal, without any other control or formatting character."""
    return "\n".join(map(whole_line, text.split("\n")))


def cuda_comment(text: str, longest: int = 200) -> str:
    """What may stand in a comment of CUDA text: one line that neither goes on in the next nor ends early.

    Compilers join lines at a backslash, also one with blanks behind it or one that is written `??/`.
    """
    shown = one_line(text, longest).replace("*/", "* /").replace("??/", "? ?/")
    return shown.rstrip("\\ ")


def identifier(name: str, is_taken: Callable[[str], bool] = is_reserved) -> str:
    """A C++ name made of any text: its letters and digits, with `named_` before what is taken or no name.

    Neither underscores that C++ keeps for itself nor more than `LONGEST_WORD` letters; texts that are the
    same in their letters and digits give the same name.
    """
    word = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    if len(word) > LONGEST_WORD:
        word = f"{word[: LONGEST_WORD - 9]}_{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
    is_name = word[:1].isalpha() and not is_taken(word)
    return word if is_name else f"named_{word}".rstrip("_")


def literal(number: object) -> str:
    """An integer as C++ takes it for an int. Raises `DescriptionError` for one that is none or too large."""
    if not isinstance(number, int) or not -(2**31) < number < 2**31:
        shown = one_line(repr(number), 40)
        raise DescriptionError(f"{shown} goes into generated code; it must be an integer below 2,147,483,648")
    return format(int(number), "d")
