#!/usr/bin/env python3
# /// script
# dependencies = ["sacrebleu"]
# ///
"""How many planted errors a judge sees: references of a test set, each with one error made by rule.

    python3 scripts/planted.py make --testset WMT23 -l en-de > en-de.jsonl
    tribunal score --input en-de.jsonl --out RUN
    python3 scripts/planted.py table --planted en-de.jsonl --testset WMT23 NAME=RUN ...

`make` takes 200 references and writes each as it is (system `original`) and with an error of each kind that it has a place
for (system: the kind), as lines for `tribunal score --input`. `table` prints for each kind the share of the versions that
score below their original; a tie is not below. Beside the runs stand chrF against another system's translation of the same
source, and a random score. `make` needs Python alone, `table` sacrebleu for chrF.
"""

import argparse
import hashlib
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

# Characters of a reference: a shorter one has no place for most kinds, in a longer one a single word is a small part.
SHORTEST, LONGEST = 40, 500

MONTHS = {
    "en": "January February March April June July August September October November December".split(),
    "de": "Januar Februar März April Juni Juli August September Oktober November Dezember".split(),
    # In the genitive, which dates have.
    "cs": "ledna února března dubna května června července srpna září října listopadu prosince".split(),
}
WEEKDAYS = {
    "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag".split(),
    "cs": "pondělí úterý středu čtvrtek pátek sobotu neděli".split(),
}
NUMBERS = {
    "en": "two three four five six seven eight nine ten twelve twenty thirty forty fifty".split(),
    "de": "zwei drei vier fünf sechs sieben acht neun zehn zwölf zwanzig dreißig vierzig fünfzig".split(),
    "cs": "tři čtyři pět šest sedm osm devět deset dvanáct dvacet třicet čtyřicet padesát".split(),
}
# What is negated, and how: a pattern and its replacement, the first that applies.
DROPPED = {
    "en": [
        (r"\b([Cc])annot\b", r"\1an"),
        (r"\b([Cc])an['’]t\b", r"\1an"),
        (r"\b([Ww])on['’]t\b", r"\1ill"),
        (r"\b(\w+)n['’]t\b", r"\1"),
        (r" not\b", ""),
        (r"\b([Nn])ever\b", lambda m: "Always" if m[1] == "N" else "always"),
        (r"\b(N|n)o (?=[a-z])", lambda m: "Some " if m[1] == "N" else "some "),
        (r"\b([Ww])ithout\b", r"\1ith"),
    ],
    "de": [
        (r" nicht\b", ""),
        (r"\b([Kk])ein(?=(e|en|em|er|es)?\b)", lambda m: "Ein" if m[1] == "K" else "ein"),
        (r"\b([Nn])ie(mals)?\b", lambda m: "Immer" if m[1] == "N" else "immer"),
        (r"\b([Oo])hne\b", lambda m: "Mit" if m[1] == "O" else "mit"),
    ],
    "cs": [
        (r"\b([Nn])ení\b", lambda m: "Je" if m[1] == "N" else "je"),
        (r"\bne(jsou|jsem|jsme|byl[aoiy]?|bude|budou|může|mohou|mohl[aoiy]?|má|mají|měl[aoiy]?|chce|chtěl[aoiy]?|smí|ví)\b", r"\1"),
        (r"\b([Nn])ikdy\b", lambda m: "Vždy" if m[1] == "N" else "vždy"),
    ],
}
ADDED = {
    "en": [(r"\b(is|are|was|were|will|would|should|could|must|can|may|might)\b(?! not|n['’]t)", r"\1 not")],
    "de": [
        (r"\b(ist|sind|war|waren|wird|werden|würde|kann|können|konnte|konnten|muss|müssen|soll|sollte|hat|haben|hatte|hatten)\b(?! nicht| kein)", r"\1 nicht"),
    ],
    "cs": [
        (r"\bje\b", "není"),
        (r"\b(jsou|byl[aoiy]?|bude|budou|může|mohou|mohl[aoiy]?|má|mají|měl[aoiy]?|chce|chtěl[aoiy]?)\b", r"ne\1"),
    ],
}
NOT_NAMES = {
    "en": set("I I'm I've I'll I'd Mr Mrs Ms Dr OK TV".split()),
    "de": set(),
    "cs": set(),
}


def draw(*key):
    """A number that depends on the key alone."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, key)).encode()).digest()[:8])


def pick(choices, *key):
    return choices[draw(*key) % len(choices)]


def substituted(text, rules):
    for pattern, replacement in rules:
        if re.search(pattern, text):
            return re.sub(pattern, replacement, text, count=1)
    return None


def negation(text, lang, **_):
    return substituted(text, DROPPED[lang]) or substituted(text, ADDED[lang])


def dates(lang):
    words = "|".join(MONTHS[lang] + WEEKDAYS[lang])
    return re.compile(rf"\b(?:{words})\b|\b(?:19|20)\d\d\b")


def number(text, lang, key, **_):
    years = {match.span() for match in dates(lang).finditer(text)}
    found = [match for match in re.finditer(r"(?<![^\W\d_])\d+", text) if match.span() not in years]
    if found:
        match = pick(found, key, "which number")
        first = pick([digit for digit in "123456789" if digit != match[0][0]], key, "digit")
        return text[: match.start()] + first + match[0][1:] + text[match.end() :]
    words = NUMBERS[lang]
    match = re.search(rf"\b(?:{'|'.join(words)})\b", text)
    if not match:
        return None
    other = pick([word for word in words if word != match[0]], key, "number word")
    return text[: match.start()] + other + text[match.end() :]


def date(text, lang, key, **_):
    found = list(dates(lang).finditer(text))
    if not found:
        return None
    match = pick(found, key, "which date")
    if match[0].isdigit():
        other = str(int(match[0]) + pick([-11, -7, -4, -3, -2, 2, 3, 5], key, "year"))
    else:
        like = MONTHS[lang] if match[0] in MONTHS[lang] else WEEKDAYS[lang]
        other = pick([word for word in like if word != match[0]], key, "date word")
    return text[: match.start()] + other + text[match.end() :]


def names_of(text, source, lang):
    """Places of names: words with a capital inside a sentence, but in English those that the source has as well."""
    no_dates = set(sum([*MONTHS.values(), *WEEKDAYS.values()], []))
    found = []
    for match in re.finditer(r"(?<=[\w,;:)] )([A-ZÄÖÜÁČĎÉÍŇŘŠŤÚŽ][\w’'-]*[^\W\dA-ZÄÖÜ_]\w*)", text):
        word = re.sub(r"['’]s$", "", match[0])
        if word in no_dates or word in NOT_NAMES[lang] or len(word) < 3:
            continue
        if lang != "en" and not re.search(rf"(?<=[a-z,;] ){re.escape(word)}\b", source):
            continue
        found.append((match.start(), word))
    return found


def name(text, lang, source, key, pools, **_):
    found = names_of(text, source, lang)
    others = sorted(set(pools["names"]) - {word for _, word in found})
    if not found or not others:
        return None
    at, word = pick(found, key, "which name")
    return text[:at] + pick(others, key, "name") + text[at + len(word) :]


def clauses(text):
    """Parts between two commas, or between a comma and the end of a sentence, of 4 to 14 words."""
    found = []
    for match in re.finditer(r",\s+([^,.;:!?()\"“”„]+?)(?=[,.;!?])", text):
        if 4 <= len(match[1].split()) <= 14:
            found.append(match)
    return found


def omission(text, key, **_):
    found = clauses(text)
    if not found:
        return None
    match = pick(found, key, "which clause")
    end = match.end() + (text[match.end()] == ",")
    return text[: match.start()] + text[end:] if end < len(text) else None


def addition(text, key, pools, **_):
    places = [match.start() for match in re.finditer(r"[.,;!?](?=\s|$)", text)]
    others = [clause for clause, of in pools["clauses"] if of != key]
    if not places or not others:
        return None
    at = pick(places, key, "where")
    return f"{text[:at]}, {pick(others, key, 'clause')}{text[at:]}"


def other_source(text, key, pools, **_):
    alike = [other for other, of in pools["texts"] if of != key and 0.7 < len(other) / len(text) < 1.4]
    return pick(alike, key, "text") if alike else None


def source_words(text, source, key, **_):
    """Three words of the target become what stands about there in the source: three words, or four characters of Chinese."""
    words = text.split(" ")
    if len(words) < 8:
        return None
    at = draw(key, "source words") % (len(words) - 3)
    share = at / len(words)
    if " " in source.strip():
        of = source.split(" ")
        if len(of) < 6:
            return None
        first = min(int(share * len(of)), len(of) - 3)
        kept = " ".join(of[first : first + 3])
    else:
        of = re.findall(r"[\u4e00-\u9fff]+", source)
        joined = "".join(of)
        if len(joined) < 8:
            return None
        first = min(int(share * len(joined)), len(joined) - 4)
        kept = joined[first : first + 4]
    return " ".join(words[:at] + [kept] + words[at + 3 :])


KINDS = {
    "negation": negation,
    "number": number,
    "date": date,
    "name": name,
    "omission": omission,
    "addition": addition,
    "other source": other_source,
    "source words": source_words,
}


def read(path):
    return path.read_text(encoding="utf-8-sig").split("\n")


def make(args):
    src_lang, lang = args.pair.split("-")
    if lang not in NUMBERS:
        sys.exit(f"error: no rules for `{lang}`; hint: pairs into {', '.join(NUMBERS)}")
    sources = read(args.testset / f"sources/{args.pair}.txt")
    references = read(args.testset / f"references/{args.pair}.refA.txt")
    docs = [line.split("\t")[1] for line in read(args.testset / f"documents/{args.pair}.docs") if line]
    is_there = lambda seg: sources[seg].strip() and docs[seg] != "canary"
    texts = {seg: text for seg, text in enumerate(references) if SHORTEST <= len(text) <= LONGEST and is_there(seg)}
    pools = {
        "names": [word for seg, text in texts.items() for _, word in names_of(text, sources[seg], lang)],
        "clauses": [(match[1], seg) for seg, text in texts.items() for match in clauses(text)],
        "texts": [(text, seg) for seg, text in texts.items()],
    }
    versions = {}
    for seg, text in texts.items():
        made = {kind: rule(text=text, lang=lang, source=sources[seg], key=seg, pools=pools) for kind, rule in KINDS.items()}
        versions[seg] = {kind: new for kind, new in made.items() if new and new != text}
    order = sorted(versions, key=lambda seg: draw("order", args.pair, seg))
    chosen = []
    # First some that have the rare kinds, so that no share is of a few.
    for kind in sorted(KINDS, key=lambda kind: sum(kind in made for made in versions.values())):
        have = sum(kind in versions[seg] for seg in chosen)
        more = [seg for seg in order if kind in versions[seg] and seg not in chosen]
        chosen += more[: max(0, min(60 - have, args.n - len(chosen)))]
    chosen += [seg for seg in order if seg not in chosen][: args.n - len(chosen)]
    for seg in sorted(chosen):
        for system, text in {"original": texts[seg], **versions[seg]}.items():
            row = {"source": sources[seg], "hypothesis": text, "src_lang": src_lang, "tgt_lang": lang}
            print(json.dumps({**row, "system": system, "doc": docs[seg], "seg": seg}, ensure_ascii=False))


def shares(scores):
    """Kind -> (versions below their original, versions). `scores` is (system, seg) -> score or None."""
    found = defaultdict(lambda: [0, 0])
    for (system, seg), score in scores.items():
        if system != "original":
            original = scores[("original", seg)]
            found[system][0] += score is not None and original is not None and score < original
            found[system][1] += 1
    return found


def table(args):
    rows = [json.loads(line) for line in args.planted.read_text(encoding="utf-8").splitlines()]
    pair = f"{rows[0]['src_lang']}-{rows[0]['tgt_lang']}"
    columns = {}
    for run in args.runs:
        label, _, folder = run.partition("=")
        verdicts = [json.loads(line) for line in (Path(folder) / "verdicts.jsonl").open(encoding="utf-8")]
        columns[label] = shares({(v["system"], v["seg"]): v["score"] for v in verdicts})
    if args.testset:
        from sacrebleu.metrics import CHRF

        other = read(args.testset / f"system-outputs/{pair}/{args.system}.txt")
        chrf = CHRF()
        of = {(row["system"], row["seg"]): chrf.sentence_score(row["hypothesis"], [other[row["seg"]]]).score for row in rows}
        columns[f"chrF to {args.system}"] = shares(of)
    columns["random"] = shares({(row["system"], row["seg"]): draw("random", row["system"], row["seg"]) for row in rows})
    print(f"| {pair} | n | " + " | ".join(columns) + " |")
    print("|---|---|" + "---|" * len(columns))
    for kind in KINDS:
        n = next(iter(columns.values()))[kind][1]
        print(f"| {kind} | {n} | " + " | ".join(f"{of[kind][0] / max(of[kind][1], 1):.2f}" for of in columns.values()) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("make")
    making.add_argument("--testset", type=Path, required=True)
    making.add_argument("-l", "--pair", required=True)
    making.add_argument("-n", type=int, default=200, help="references (default: 200)")
    making.set_defaults(run=make)
    printing = commands.add_parser("table")
    printing.add_argument("--planted", type=Path, required=True)
    printing.add_argument("--testset", type=Path, help="for chrF")
    printing.add_argument("--system", default="GPT4-5shot", help="whose translations chrF compares with (default: GPT4-5shot)")
    printing.add_argument("runs", nargs="+", metavar="NAME=RUN")
    printing.set_defaults(run=table)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
