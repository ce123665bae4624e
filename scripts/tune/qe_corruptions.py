"""Errors planted in translations, for `qe_train.py`: a text that is worse than its original, and where.

Kinds that raters of good systems see too seldom to learn from: numbers, dates, names, negations, wrong words, text that is
left out, added, repeated, in another order or of the source, and translations of other sources.
"""

import collections
import re

SHARES = dict(number=3, date=1, negation=3, name=3, word=3, omission=3, addition=2, source=1, repetition=1, order=1, other=1,
              copy=0.3, letters=0.7)

NEGATIONS = {
    "en": [(r" not\b", ""), (r"n['’]t\b", ""), (r"\bnever\b", "always"), (r"\bno\b", "some"), (r"\bwithout\b", "with"),
           (r"\b(is|are|was|were|will|would|can|could|should|must|has|have|had|does|do|did)\b", r"\1 not"),
           (r"\b(all|every|always)\b", "no")],
    "de": [(r" nicht\b", ""), (r"\b(k|K)ein", "ein"), (r"\bnie\b", "immer"), (r"\bohne\b", "mit"),
           (r"\b(ist|sind|war|waren|wird|werden|hat|haben|kann|können|soll|muss)\b", r"\1 nicht")],
    "ru": [(r"\bне ", ""), (r"\bнет\b", "есть"), (r"\bникогда\b", "всегда"), (r"\bбез\b", "с"),
           (r"\b(был|была|было|были|может|будет|является|есть|должен)\b", r"не \1")],
    "zh": [("不", ""), ("没有", "有"), ("没", ""), ("无法", "可以"), ("从未", "一直"), ("(是|会|能|可以|要|将)", r"不\1")],
}
NUMBERS = {
    "en": "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty sixty eighty ninety",
    "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf fünfzehn zwanzig dreißig vierzig fünfzig achtzig neunzig",
    "ru": "два три четыре пять шесть семь восемь девять десять двадцать тридцать сорок пятьдесят",
    "zh": "二 三 四 五 六 七 八 九",
}
MAGNITUDES = {"en": "hundred thousand million billion trillion", "de": "hundert tausend Millionen Milliarden Billionen",
              "ru": "тысяч миллионов миллиардов", "zh": "百 千 万 亿"}
DATES = {
    "en": ["Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
           "January February March April May June July August September October November December",
           "yesterday today tomorrow", "morning afternoon evening night", "years months weeks days hours minutes",
           "north south east west", "first second third fourth fifth"],
    "de": ["Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
           "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
           "gestern heute morgen", "Jahre Monate Wochen Tage Stunden Minuten", "erste zweite dritte vierte"],
    "ru": ["понедельник вторник среду четверг пятницу субботу воскресенье",
           "января февраля марта апреля мая июня июля августа сентября октября ноября декабря", "вчера сегодня завтра"],
    "zh": ["周一 周二 周三 周四 周五 周六 周日", "昨天 今天 明天", "年 月 日 小时 分钟"],
}
CHINESE = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
NAME = re.compile(r"(?<=[\w,;] )[^\W\d_a-zа-я]\w{2,}")
CLAUSE = re.compile(r"[,;，；、:–-]\s?[^,;，；、:.。!?！？]{8,}")


def cut(text, rng):
    """The ranges of its words; in scripts without spaces, of one to three characters."""
    found = []
    for match in re.finditer(r"\S+", text):
        start, end = match.span()
        if not CHINESE.search(match[0]):
            found.append((start, end))
            continue
        while start < end:
            stop = min(end, start + rng.choice((1, 2, 2, 3)))
            found.append((start, stop))
            start = stop
    return found


def replaced(text, start, end, new):
    return text[:start] + new + text[end:], (start, start + len(new) if new else min(len(text), start + 1))


class Pool:
    """Words, names and translations in one language, to plant."""

    def __init__(self, texts, language, rng):
        words, names = collections.Counter(), collections.Counter()
        shortest = 2 if language == "zh" else 3
        for text in texts:
            for start, end in cut(text, rng):
                word = re.sub(r"^\W+|\W+$", "", text[start:end])
                if len(word) >= shortest and not word.isdigit():
                    words[word] += 1
            names.update(match[0] for match in NAME.finditer(text) if match[0][0].isupper())
        self.texts = texts
        self.words = [word for word, n in words.items() if n >= 3]
        self.names = [name for name, n in names.items() if n >= 2]


def plant(text, source, language, pool, rng):
    """A worse text and the range of its error, in characters (`None`: all of it); or `None`."""
    for _ in range(8):
        (kind,) = rng.choices(list(SHARES), list(SHARES.values()))
        planted = KINDS[kind](text, source, language, pool, rng)
        if planted and planted[0].strip() and planted[0] != text:
            return planted
    return None


def matches_of(table, text, language):
    """All words of a list in a text, each with its list."""
    lists = [words.split(" ") for words in table]
    expression = (lambda word: word) if language == "zh" else (lambda word: rf"\b{word}\b")
    return [(words, match) for words in lists for word in words for match in re.finditer(expression(word), text)]


def of_lists(table, text, language, rng):
    found = matches_of(table, text, language)
    if not found:
        return None
    words, match = rng.choice(found)
    return replaced(text, *match.span(), rng.choice([word for word in words if word != match[0]]))


def number(text, source, language, pool, rng):
    table = [words[language] for words in (NUMBERS, MAGNITUDES) if language in words]
    digits = list(re.finditer(r"\d+", text))
    if not digits or rng.random() < 0.3:
        return of_lists(table, text, language, rng)
    match = rng.choice(digits)
    old = match[0]
    at, how = rng.randrange(len(old)), rng.random()
    new = old[:at] + str(rng.randrange(10)) + old[at + 1 :] if how < 0.6 else old + "0" if how < 0.8 else old[:-1] or "7"
    return replaced(text, *match.span(), new) if new.strip("0") else None


def date(text, source, language, pool, rng):
    return of_lists(DATES.get(language, []), text, language, rng)


def negation(text, source, language, pool, rng):
    found = [(new, match) for old, new in NEGATIONS.get(language, []) for match in re.finditer(old, text)]
    if not found:
        return None
    new, match = rng.choice(found)
    return replaced(text, *match.span(), match.expand(new))


def name(text, source, language, pool, rng):
    found = [match for match in NAME.finditer(text) if match[0][0].isupper()]
    if language == "de":
        found = [match for match in found if match[0] in source]
    if not found or not pool.names:
        return None
    return replaced(text, *rng.choice(found).span(), rng.choice(pool.names))


def word(text, source, language, pool, rng):
    words = cut(text, rng)
    if len(words) < 4:
        return None
    start, end = rng.choice(words)
    behind = re.search(r"[\W_]*$", text[start:end])[0]
    return replaced(text, start, end - len(behind), rng.choice(pool.words))


def omission(text, source, language, pool, rng):
    words, clauses = cut(text, rng), list(CLAUSE.finditer(text))
    if len(words) < 4:
        return None
    n = max(1, int(len(words) * rng.uniform(0.1, 0.5)))
    first = rng.randrange(len(words) - n + 1)
    start, end = words[first][0], words[first + n - 1][1]
    if clauses and rng.random() < 0.5:
        start, end = rng.choice(clauses).span()
    left = text[end:].lstrip() if start == 0 else text[:start].rstrip() + text[end:]
    at = min(start, len(left) - 1)
    return (left, (max(0, at - 1), at + 1)) if len(left) >= 5 else None


def inserted(text, end, new):
    space = "" if CHINESE.search(text) else " "
    return text[:end] + space + new + text[end:], (end, end + len(space + new))


def addition(text, source, language, pool, rng):
    other = rng.choice(pool.texts)
    words, places = cut(other, rng), cut(text, rng)
    if min(len(words), len(places)) < 4:
        return None
    n = rng.randrange(2, min(8, len(words)))
    first = rng.randrange(len(words) - n + 1)
    return inserted(text, rng.choice(places)[1], other[words[first][0] : words[first + n - 1][1]])


def of_source(text, source, language, pool, rng):
    words, of_text = cut(source, rng), cut(text, rng)
    if len(words) < 3 or len(of_text) < 4:
        return None
    n = rng.randrange(1, min(6, len(words)))
    first = rng.randrange(len(words) - n + 1)
    k = min(n, len(of_text))
    at = min(len(of_text) - k, int(first / len(words) * len(of_text)))
    return replaced(text, of_text[at][0], of_text[at + k - 1][1], source[words[first][0] : words[first + n - 1][1]])


def repetition(text, source, language, pool, rng):
    words = cut(text, rng)
    if len(words) < 4:
        return None
    n = rng.randrange(1, min(6, len(words)))
    first = rng.randrange(len(words) - n + 1)
    start, end = words[first][0], words[first + n - 1][1]
    return inserted(text, end, text[start:end])


def order(text, source, language, pool, rng):
    words = cut(text, rng)
    if len(words) < 4:
        return None
    at = rng.randrange(len(words) - 1)
    (a, b), (c, d) = words[at], words[min(len(words) - 1, at + rng.randrange(1, 5))]
    return text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:], (a, d)


def letters(text, source, language, pool, rng):
    words = [range_ for range_ in cut(text, rng) if range_[1] - range_[0] >= 4]
    if not words:
        return None
    start, end = rng.choice(words)
    at = rng.randrange(start + 1, end - 1)
    swapped = "" if rng.random() < 0.4 else text[at + 1] + text[at]
    return text[:at] + swapped + text[at + 1 + bool(swapped) :], (start, end)


KINDS = dict(number=number, date=date, negation=negation, name=name, word=word, omission=omission, addition=addition,
             source=of_source, repetition=repetition, order=order, letters=letters,
             other=lambda text, source, language, pool, rng: (rng.choice(pool.texts), None),
             copy=lambda text, source, language, pool, rng: (source, None))
