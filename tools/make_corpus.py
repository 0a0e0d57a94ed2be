"""Makes the sample corpus from Debian packages: documents in English, Japanese and Chinese, as train.jsonl and heldout.jsonl.

Sources: the Debian Reference (debian-reference-en, -ja, -zh-cn; a document is a section) and the King James Bible (bible-kjv-text, read by
the program `bible`; a document is a chapter). A hash of its name decides whether a document is held out. The name leaves out the
language, so that no translation of a held-out section is trained on. Files are in the order of another hash: any prefix is a fair mix.

Usage: make_corpus.py OUT_DIR
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

REFERENCE = pathlib.Path("/usr/share/debian-reference")
LANGUAGES = ("en", "ja", "zh-cn")
HELD_OUT_PER_MILLE = 30
MIN_CHARACTERS = 200  # shorter sections are little more than a title
XHTML = "{http://www.w3.org/1999/xhtml}"

LICENCES = """\
train.jsonl and heldout.jsonl were made by tools/make_corpus.py from these Debian packages:

debian-reference-en, debian-reference-ja, debian-reference-zh-cn
    Debian Reference, copyright Osamu Aoki and its translators.
    GNU General Public License, version 2 or later. https://www.debian.org/doc/manuals/debian-reference/

bible-kjv-text
    The King James translation of the Bible of 1611, in the public domain (in the United Kingdom under the Crown's letters patent);
    the package's own terms are in /usr/share/doc/bible-kjv-text/copyright.

The files are made on the user's machine and are no part of Trine.
"""


def squeeze(text):
    """Joins broken lines: with a space between Latin words, with nothing between two wide characters."""
    text = re.sub(r"(?<=[^\x00-\u02ff])[ \t]*\n\s*(?=[^\x00-\u02ff])", "", text)
    return re.sub(r"[ \t\r\n\xa0]+", " ", text).strip()  # titles have a no-break space after their number


def blocks(element):
    """Yields the text blocks of a section in reading order, without the sections inside it."""
    tag = element.tag.removeprefix(XHTML)
    kind = element.get("class", "")
    if tag in ("p", "h1", "h2", "h3", "h4", "h5", "dt"):
        yield squeeze("".join(element.itertext()))
    elif tag == "pre":
        yield "".join(element.itertext()).strip("\n")
    elif tag == "tr":
        cells = (squeeze("".join(cell.itertext())) for cell in element)
        yield " | ".join(cell for cell in cells if cell)
    else:
        for child in element:
            if child.get("class") not in ("section", "toc", "navheader", "navfooter"):
                prefix = "- " if kind == "listitem" and child is element[0] else ""
                for block in blocks(child):
                    yield prefix + block
                    prefix = ""


def reference_documents(language):
    pages = sorted(REFERENCE.glob(f"*.{language}.html"))
    if not pages:
        sys.exit(f"no page of the Debian Reference under {REFERENCE}; is debian-reference-{language} installed?")
    for page in pages:
        for section in xml.parse(page).iter(f"{XHTML}div"):
            if section.get("class") in ("section", "chapter", "preface", "appendix"):
                anchor = section.find(f".//{XHTML}a[@id]")
                text = "\n".join(block for block in blocks(section) if block)
                if anchor is not None and len(text) >= MIN_CHARACTERS:
                    yield f"debian-reference/{anchor.get('id')}", text


def bible_documents():
    command = ["bible", "-l9999", "gen1:1-rev22:21"]  # lines long enough for any verse
    try:
        text = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"cannot run `{' '.join(command)}` ({error}); are bible-kjv and bible-kjv-text installed?")
    title, verses = None, []
    for line in [*text.splitlines(), "end"]:
        verse = re.match(r" +\d+ (.*)", line)
        if verse:
            verses.append(verse[1])
        elif line:
            if title:
                yield f"bible/{title}", "\n".join([title, *verses])
            title, verses = line, []


def main():
    out = pathlib.Path(sys.argv[1])
    sources = {f"debian-reference-{language}": list(reference_documents(language)) for language in LANGUAGES}
    sources["bible-kjv-text"] = list(bible_documents())
    files = {"train": [], "heldout": []}
    for source, documents in sources.items():
        counts = dict.fromkeys(files, 0)
        for name, text in documents:
            key = hashlib.sha256(name.encode()).digest()
            split = "heldout" if int.from_bytes(key[:4], "big") % 1000 < HELD_OUT_PER_MILLE else "train"
            files[split].append((hashlib.sha256(f"{name}/{source}".encode()).digest(), text))
            counts[split] += 1
        if 0 in counts.values():
            sys.exit(f"{source} gave {counts['train']} training and {counts['heldout']} held-out documents; neither may be none")
    out.mkdir(parents=True, exist_ok=True)
    for split, documents in files.items():
        lines = (json.dumps({"text": text}, ensure_ascii=False) + "\n" for _, text in sorted(documents))
        (out / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    (out / "LICENSES.txt").write_text(LICENCES, encoding="utf-8")


if __name__ == "__main__":
    main()
