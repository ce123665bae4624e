#!/usr/bin/env python3
"""Compares language identifiers by the length of texts.

    pip install lingua-language-detector whatlang-pyo3 whichlang-py
    python scripts/language_identifiers.py $TRIBUNAL_DATA/wmt23 [--sentences DIR]

DIR has a file LANG.txt (two-letter code, a sentence a line) for each language, such as the `testdata/sentences.txt` of
lingua's language models. Each row: the share of texts identified rightly, and after `/` the share that the identifier is
sure of (whatlang: reliable, lingua: above .9) and wrong about; whichlang is never unsure, so that all its errors are sure.
"""

import argparse
import pathlib
import time
from collections import Counter

import whatlang
import whichlang_py
from lingua import LanguageDetectorBuilder

LENGTHS = (20, 50, 100, None)  # characters; None: four sentences, or a whole paragraph of WMT23
MOST = 150  # texts of a length
OF_16 = "ar zh de en fr hi it ja ko nl pt ru es sv tr vi".split()
CODES = dict(zip(
    "af ar az be bg bn ca cs da de el en es et fa fi fr gu he hi hr hu hy id it ja ka ko la lt lv mk mr nb nl pa pl pt ro ru sk "
    "sl sr sv ta te th tl tr uk ur vi zh zu".split(),
    "afr ara aze bel bul ben cat ces dan deu ell eng spa est pes fin fra guj heb hin hrv hun hye ind ita jpn kat kor lat lit lav "
    "mkd mar nob nld pan pol por ron rus slk slv srp swe tam tel tha tgl tur ukr urd vie cmn zul".split(),
))


def by_whatlang(text):
    try:
        found = whatlang.detect(text)
    except ValueError:
        return "", False
    return found.lang, found.is_reliable


def by_whichlang(text):
    try:
        return whichlang_py.detect_language(text), True
    except Exception:  # the binding raises where there is no text
        return "", True


LINGUA = LanguageDetectorBuilder.from_all_languages().build()


def by_lingua(text):
    best = LINGUA.compute_language_confidence_values(text)[0]
    code = best.language.iso_code_639_3.name.lower()
    return {"zho": "cmn", "fas": "pes"}.get(code, code), best.value > 0.9


IDENTIFIERS = {"whatlang": by_whatlang, "whichlang": by_whichlang, "lingua": by_lingua}


def wmt23(folder):
    def lines(path):
        return [line for line in (folder / path).read_text(encoding="utf-8").split("\n") if line.strip()]

    yield "en", "WMT23 sources, en", lines("sources/en-de.txt")
    yield "zh", "WMT23 sources, zh", lines("sources/zh-en.txt")
    yield "de", "WMT23 references, de", lines("references/en-de.refA.txt")
    yield "en", "WMT23 references, en", lines("references/zh-en.refA.txt")
    for pair, lang in (("en-de", "de"), ("zh-en", "en")):
        files = sorted(path for path in (folder / "system-outputs" / pair).glob("*.txt") if "ref" not in path.name)
        yield lang, f"WMT23 systems, {lang}", [line for path in files for line in lines(f"system-outputs/{pair}/{path.name}")[::40]]


def texts(lines, length, paragraphs):
    if length is None:
        return lines[:MOST] if paragraphs else [" ".join(lines[at:at + 4]) for at in range(0, min(len(lines), 4 * MOST), 4)]
    return [line[:length] for line in lines if len(line) >= length][:MOST]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wmt23", type=pathlib.Path)
    parser.add_argument("--sentences", type=pathlib.Path)
    args = parser.parse_args()
    sets = [(lang, name, lines, True) for lang, name, lines in wmt23(args.wmt23)]
    for path in sorted(args.sentences.glob("*.txt")) if args.sentences else []:
        if path.stem in CODES:
            sets.append((path.stem, f"sentences, {path.stem}", path.read_text(encoding="utf-8").split("\n"), False))
    seconds, n_texts = Counter(), Counter()
    print("| texts | characters | n | " + " | ".join(IDENTIFIERS) + " |")
    print("|---|---|---|" + "---|" * len(IDENTIFIERS))
    totals = Counter()
    for lang, name, lines, paragraphs in sets:
        for length in LENGTHS:
            some = texts(lines, length, paragraphs)
            if not some:
                continue
            cells = []
            for identifier, identify in IDENTIFIERS.items():
                if identifier == "whichlang" and lang not in OF_16:
                    cells.append("-")
                    continue
                begun = time.perf_counter()
                found = [identify(text) for text in some]
                seconds[identifier] += time.perf_counter() - begun
                n_texts[identifier] += len(some)
                right = sum(code == CODES[lang] for code, _ in found)
                wrong = sum(code != CODES[lang] and sure for code, sure in found)
                totals[identifier, length, "n"] += len(some)
                totals[identifier, length, "right"] += right
                totals[identifier, length, "wrong"] += wrong
                cells.append(f"{right / len(some):.2f} / {wrong / len(some):.2f}")
            print(f"| {name} | {length or 'all'} | {len(some)} | " + " | ".join(cells) + " |", flush=True)
    for length in LENGTHS:
        of = [{key: totals[identifier, length, key] for key in ("n", "right", "wrong")} for identifier in IDENTIFIERS]
        cells = [f"{one['right'] / one['n']:.3f} / {one['wrong'] / one['n']:.3f}" for one in of if one["n"]]
        print(f"| all | {length or 'all'} | {', '.join(str(one['n']) for one in of)} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
