"""Words that mean something in CUDA C++ before a header says anything: no name from a description may be one.

Example: a stage called `int`, `assert`, `threadIdx` or `NULL` gets another word in generated code. Macros of
any header are written in capitals, so that every such name counts as one.
"""

import re

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
