"""Text in which a tokenizer's rules meet each other: real documents, code, many scripts, and random Unicode."""

import json
import pathlib
import random
import sysconfig
import unicodedata

from paths import ROOT

SCRIPTS = [
    "العربية لغة جميلة، والكتاب على الطاولة. ١٢٣٤ مُحَمَّدٌ ",
    "עִבְרִית היא שפה שֵׁמִית; 25% מהטקסט ",
    "हिन्दी भाषा में लिखा गया पाठ। १२३ क़ख़ग़ ",
    "ภาษาไทยไม่มีการเว้นวรรคระหว่างคำ ๑๒๓ ",
    "한국어 텍스트 예시입니다. ",
    unicodedata.normalize("NFD", "한국어 텍스트; Tiếng Việt có dấu thanh điệu phức tạp. "),
    "Ελληνικά και Русский, Հայերեն, ქართული, አማርኛ; ½ ² Ⅷ ㊿ ",
    "👩‍👩‍👧‍👦🏳️‍🌈 😀😃🇩🇪 👍🏽 #️⃣ ",
    "I'LL can't DON'T 'S 'Re don’t 'ſ x's'D'll've'M't ",
    "f(x)->y; a[i]+=0x1F;\t\t// note\r\n\r\n  if (!ok) { return -1.5e-3; }\n",
]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "<|fim_prefix|>"]
SPECIAL += ["<|im_", "|>", "<", " ", "\n"]


def sample_documents(megabytes):
    """Documents of the sample corpus: English, Japanese and Chinese."""
    documents, size = [], 0
    with open(ROOT / "assets/sample/train.jsonl", encoding="utf-8") as lines:
        for line in lines:
            documents.append(json.loads(line)["text"])
            size += len(documents[-1].encode())
            if size > megabytes * 1e6:
                break
    return documents


def code_documents(megabytes):
    documents, size = [], 0
    for file in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py")):
        documents.append(file.read_text(encoding="utf-8"))
        size += len(documents[-1])
        if size > megabytes * 1e6:
            break
    return documents


def every_character():
    """Assigned and unassigned code points between letters, digits and an apostrophe; of the empty planes every 101st."""
    code_points = [*range(1, 0xD800), *range(0xE000, 0x32400), *range(0x32400, 0xE0000, 101), *range(0xE0000, 0xE0200)]
    documents = []
    for start in range(0, len(code_points), 500):
        documents.append("".join(f"a{chr(c)}1'{chr(c)} {chr(c)}" for c in code_points[start : start + 500]))
    return documents


def random_documents(seed, count):
    draw = random.Random(seed)
    everything = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    marks = [c for c in everything if unicodedata.combining(chr(c))]
    spaces = [9, 10, 11, 12, 13, 32, 32, 32, 32, 0x85, 0xA0, 0x2028, 0x3000, 0x200A]
    ranges = [(33, 127), (97, 123), (48, 58), (0xC0, 0x250), (0x600, 0x700), (0x900, 0x980), (0x1100, 0x1200), (0x3040, 0x3100)]
    ranges += [(0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0x1F300, 0x1F700), (1, 0x3000)]
    pools = [spaces, marks, everything, *[list(range(*r)) for r in ranges]]
    documents = []
    for _ in range(count):
        pieces = ["".join(chr(draw.choice(pool)) for _ in range(draw.randint(0, 5))) for pool in draw.choices(pools, k=150)]
        documents.append("".join(pieces) + "x")
    for _ in range(count // 4):
        documents.append("".join(draw.choice(SPECIAL + SCRIPTS) for _ in range(40)))
    return documents


def mixed_documents():
    """More than 5 MB."""
    scripts = [script * 300 for script in SCRIPTS]
    return [*sample_documents(2.0), *code_documents(1.0), *scripts, *every_character(), *random_documents(7, 600)]
