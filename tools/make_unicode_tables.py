"""Writes src/text/unicode_tables.inc: character classes and canonical composition exactly as the `tokenizers` library has them.

The library mixes several Unicode versions (its regular expressions, Rust's standard library and its normaliser each bring their own), so the
tables are read off the library itself, by asking it about every code point. Combining classes, which it does not show, come from Python and are
kept for those code points that the library reorders; Unicode never changes the class of an assigned character.

Usage: make_unicode_tables.py OUT_FILE      (run again when requirements.txt gets another `tokenizers`; takes half a minute)
"""

import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)  # composed and decomposed by arithmetic
nfc, nfd = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str


def matching(pattern):
    keep = pre_tokenizers.Split(Regex(f"{pattern}+"), "removed", invert=True)
    return sorted({ord(c) for piece, _ in keep.pre_tokenize_str("".join(map(chr, CODE_POINTS))) for c in piece})


def digits():
    split = pre_tokenizers.Digits(individual_digits=True)
    return [c for c in CODE_POINTS if len(split.pre_tokenize_str(f"a{chr(c)}a")) == 3]


def combining_classes(decomposed):
    """{code point: class} of what the library's normaliser moves past a mark of another class."""
    low, high = "\u0334", "\u0345"  # classes 1 and 240, the lowest and the highest
    classes = {}
    for c in CODE_POINTS:
        text = chr(c)
        if c not in decomposed and c not in HANGUL and (nfd(f"a{text}{low}") != f"a{text}{low}" or nfd(f"a{high}{text}") != f"a{high}{text}"):
            classes[c] = unicodedata.combining(text)
            assert classes[c], f"U+{c:04X} is reordered by the library, but Python knows no class for it"
    return classes


def one_step(c):
    """The canonical mapping of `c` to one or two code points; the normaliser only shows the full decomposition."""
    return tuple(int(part, 16) for part in unicodedata.decomposition(chr(c)).split())


def ranges(code_points):
    out = []
    for c in code_points:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def lines(items):
    """Items joined to lines of at most 138 columns."""
    line = ""
    for item in items:
        if len(line) + len(item) > 136:
            yield line.rstrip()
            line = ""
        line += item + " "
    if line:
        yield line.rstrip()


def table(comment, declaration, items):
    return [f"// {comment}", f"{declaration} = {{", *lines(items), "};", ""]


def main():
    decomposed = {c: nfd(chr(c)) for c in CODE_POINTS if c not in HANGUL and nfd(chr(c)) != chr(c)}
    mappings = {c: one_step(c) for c in decomposed}
    for c, text in decomposed.items():  # the steps lead to what the library gives
        assert 1 <= len(mappings[c]) <= 2 and nfd("".join(map(chr, mappings[c]))) == text, f"U+{c:04X}"
    composed = {c for c, text in decomposed.items() if nfc(text) == chr(c)}
    assert all(len(mappings[c]) == 2 for c in composed)
    classes = combining_classes(decomposed)

    def range_table(name, comment, code_points):
        return table(comment, f"constexpr CodePointRange {name}[]", (f"{{0x{a:X},0x{b:X}}}," for a, b in ranges(code_points)))

    class_ranges = [(a, b, value) for value in sorted(set(classes.values())) for a, b in ranges(c for c in classes if classes[c] == value)]
    out = [
        f"// Written by tools/make_unicode_tables.py from tokenizers {tokenizers.__version__}; included by unicode.cpp.",
        "",
        *range_table("kLetters", "\\p{L}", matching(r"\p{L}")),
        *range_table("kNumbers", "\\p{N}", matching(r"\p{N}")),
        *range_table("kSpaces", "\\s", matching(r"\s")),
        *range_table("kDigits", "what the Digits pre-tokenizer splits off", digits()),
        *table(
            "Canonical combining classes other than 0.",
            "constexpr CombiningRange kCombining[]",
            (f"{{0x{a:X},0x{b:X},{value}}}," for a, b, value in sorted(class_ranges)),
        ),
        *table(
            "Canonical mappings {code point, first, second or 0, whether the pair composes again}, without Hangul.",
            "constexpr Mapping kMappings[]",
            (f"{{0x{c:X},{','.join(f'0x{part:X}' for part in (*m, 0)[:2])},{int(c in composed)}}}," for c, m in mappings.items()),
        ),
    ]
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write("\n".join(out).rstrip() + "\n")


if __name__ == "__main__":
    main()
