"""Makes kinds.json: tokens of every kind, from key and value.

A second implementation of docs/operating/kinds.md and docs/record-format.md. It shares nothing with
the program that the vectors check. To make them again:

python3 test/vectors/kinds.py > test/vectors/kinds.json && npm run -s format

With the argument draw, it writes the tokens of the kinds and values that it reads.
"""

import calendar
import functools
import hashlib
import hmac
import itertools
import json
import re
import string
import sys
import uuid

TOKEN_KEY = bytes.fromhex("b6390eb21ea751838973ba6ab5f4ca8b840004a677e7772f99702b23f0250800")
SUFFIX = "tok"
LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
DEFAULTS = {
    "keep": "nothing", "keep_first": 0, "keep_last": 0, "begins_with": "", "check_digits": "none",
    "length": 10, "suffix": True, "space": "",
}


class Bytes:
    """The bytes of one draw, block by block."""

    def __init__(self, block_of):
        self.stream = itertools.chain.from_iterable(map(block_of, itertools.count()))

    def below(self, bound):
        """Uniform: one byte, or two for more than 256 numbers; too high ones are dropped."""
        size = 1 if bound <= 256 else 2
        while True:
            number = int.from_bytes([next(self.stream) for _ in range(size)], "big")
            if number < 256**size // bound * bound:
                return number % bound

    def pick(self, alphabet):
        return alphabet[self.below(len(alphabet))]


def deterministic(kind, value, draw, block):
    head = bytes([draw, block])
    if kind["name"] != "text" or kind["space"]:
        space, name = kind["space"].encode(), kind["name"].encode()
        head = b"\x80" + head + bytes([len(space)]) + space + bytes([len(name)]) + name
    return hmac.new(TOKEN_KEY, head + value.encode(), hashlib.sha512).digest()[:48]


def floor_of(classes, may_grow):
    """How many characters the last drawn run lacks."""
    stems = 1
    for one in classes:
        stems *= len(one)
    if stems >= 10**6:
        return 0
    assert may_grow and classes, "too few possibilities"
    missing = 0
    while stems * len(classes[-1]) ** missing < 10**6:
        missing += 1
    return missing


def digits_stem(kind, value, data, extra):
    places = [i for i, c in enumerate(value) if c in LOWER + UPPER + DIGITS]
    cells = [" " if c.isspace() else c for c in value]
    free = []
    for k, i in enumerate(places):
        if k >= len(places) - kind["keep_last"] or k < kind["keep_first"]:
            continue
        if k < len(kind["begins_with"]):
            cells[i] = kind["begins_with"][k]
            continue
        if kind["check_digits"] == "mod97" and k in (2, 3):
            continue
        free.append(i)
    checks = []
    if kind["check_digits"] == "mod97":
        checks = places[2:4]
    if kind["check_digits"] == "luhn":
        checks = [free.pop()]
    for i in checks:
        cells[i] = None
    classes = [next(a for a in (DIGITS, LOWER, UPPER) if value[i] in a) for i in free]
    may_grow = kind["suffix"] and kind["keep_first"] + kind["keep_last"] == 0
    grown = floor_of(classes, may_grow) + extra
    for i, alphabet in zip(free, classes):
        cells[i] = data.pick(alphabet)
    cells[free[-1]] += "".join(data.pick(classes[-1]) for _ in range(grown))
    if kind["check_digits"] == "luhn":
        return next(s for s in (fill(cells, d) for d in DIGITS) if luhn(s))
    if kind["check_digits"] == "mod97":
        return next(s for s in (fill(cells, f"{n:02}") for n in range(2, 99)) if mod97(s))
    return "".join(cells)


def fill(cells, digits):
    left = iter(digits)
    return "".join(next(left) if cell is None else cell for cell in cells)


def luhn(text):
    digits = [int(c) for c in text if c in DIGITS][::-1]
    return sum(d if i % 2 == 0 else sum(divmod(2 * d, 10)) for i, d in enumerate(digits)) % 10 == 0


def mod97(text):
    plain = re.sub("[^0-9A-Za-z]", "", text)
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


def email_stem(kind, value, data, extra):
    local, domain = value.split("@")
    host, top = domain.rsplit(".", 1)
    drawn_host = kind["keep"] != "domain"
    drawn_top = kind["keep"] == "nothing"
    letters = len(local) + drawn_host * len(host) + drawn_top * len(top)
    assert letters >= 5 or kind["suffix"], "too few possibilities"
    text = "".join(data.pick(LOWER) for _ in range(len(local) + max(0, 5 - letters) + extra))
    text += "@" + ("".join(data.pick(LOWER) for _ in host) if drawn_host else host)
    return text + "." + ("".join(data.pick(LOWER) for _ in top) if drawn_top else top)


ORDERS = {"ymd": (0, 1, 2), "dmy": (2, 1, 0), "mdy": (2, 0, 1)}


def is_date(order, parts):
    year, month, day = (parts[place] for place in ORDERS[order])
    if not re.fullmatch(r"[0-9]{2}|[1-9][0-9]{3}", year) or len(month) > 2 or len(day) > 2:
        return False
    year, month, day = int(year) + (2000 if len(year) == 2 else 0), int(month), int(day)
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]


def readings(text):
    """The parts of a date, its separator, and the orders in which it is real."""
    if re.fullmatch("[0-9]{8}", text):
        parts = [text[:4], text[4:6], text[6:]]
        if is_date("ymd", parts):
            return parts, "", ["ymd"]
        parts = [text[:2], text[2:4], text[4:]]
        return parts, "", [o for o in ("dmy", "mdy") if is_date(o, parts)]
    separator = re.search("[-/.]", text)[0]
    parts = text.split(separator)
    return parts, separator, [o for o in ORDERS if is_date(o, parts)]


def date_stem(kind, value, data, extra):
    text, time = re.fullmatch("([^T ]+)(.*)", value).groups()
    parts, separator, orders = readings(text)
    assert orders, "no date"
    years = {ORDERS[o][0] for o in orders}
    kept = min(years) if kind["keep"] == "year" else None
    assert kept is None or len(years) == 1, "which is the year?"
    short = all(len(p) <= 2 for p in parts)
    padded = all(len(p) >= 2 for p in parts)
    assert kind["suffix"] or (padded and not short), "too few possibilities"
    ranges = []
    for place, part in enumerate(parts):
        low, high = 0, 9999
        for order in orders:
            role = ORDERS[order].index(place)
            limits = [(1000, 9999) if len(part) == 4 else (0, 99), (1, 12), (1, 31)][role]
            low, high = max(low, limits[0]), min(high, limits[1])
        ranges.append((low, high))
    while True:
        new = []
        for place, (low, high) in enumerate(ranges):
            number = int(parts[place]) if place == kept else low + data.below(high - low + 1)
            width = len(parts[place]) if place in years else 2 if padded else 1
            new.append(str(number).zfill(width))
        date = separator.join(new)
        if all(is_date(o, new) for o in orders) and set(orders) <= set(readings(date)[2]):
            break
    letters = (3 if kind["keep"] == "year" else 2 if short else 0) + extra
    clock = draw_clock(time, data)
    return date + clock + ("_" + "".join(data.pick(LOWER) for _ in range(letters)) if letters else "")


def draw_clock(time, data):
    if time == "":
        return ""
    form = "([T ])[0-9]{2}:[0-9]{2}(:[0-9]{2})?([.,])?([0-9]*)(.*)"
    joint, seconds, point, decimals, zone = re.fullmatch(form, time).groups()
    clock = f"{joint}{data.below(24):02}:{data.below(60):02}"
    if seconds:
        clock += f":{data.below(60):02}{point or ''}"
    return clock + "".join(data.pick(DIGITS) for _ in decimals) + zone


def uuid_stem(kind, value, data, extra):
    return str(uuid.UUID(bytes=bytes(next(data.stream) for _ in range(16)), version=4))


def word_stem(kind, value, data, extra):
    return "".join(data.pick(LOWER) for _ in range(kind["length"]))


SPACES = "[\t\u0020\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]"


def text_stem(kind, value, data, extra):
    head = re.sub(SPACES, " ", value[:256])
    if re.fullmatch(r"[^@ ]+@[^@ ]+\.[^@. ]+", head, re.S):
        return email_stem({**kind, "keep": "nothing"}, head, data, extra)
    left, right = len(head) - len(head.lstrip(" ")), len(head.rstrip(" "))
    drawn = lambda i, c: not left <= i < right or c in LOWER + UPPER or not " " <= c <= "~"
    cells = [
        DIGITS if c in DIGITS else LOWER if drawn(i, c) else c for i, c in enumerate(head)
    ]
    free = [c for c in cells if len(c) > 1]
    last = max((i for i, c in enumerate(cells) if len(c) > 1), default=None)
    if last is None:
        assert kind["suffix"]
        cells += [LOWER] * (8 + extra)
    else:
        shape = "".join(c if len(c) == 1 else c[0] for c in cells)
        place = 0 if re.fullmatch(r"a+@a+\.a+", shape) else last + 1
        cells[place:place] = [cells[last]] * (floor_of(free, kind["suffix"]) + extra)
    return "".join(data.pick(c) if len(c) > 1 else c for c in cells)


STEMS = {
    "text": text_stem, "email": email_stem, "digits": digits_stem, "date": date_stem,
    "uuid": uuid_stem, "word": word_stem,
}


def looks_like_card(text):
    rows = re.findall("[0-9]+", text) + re.findall("[0-9]+(?:[ .-][0-9]+)*", text) + [text]
    plain = [re.sub("[^0-9]", "", row) for row in rows]
    return any(12 <= len(row) <= 19 and luhn(row) for row in plain)


def token_of(kind, value, start=0, block_of=deterministic):
    grows = kind["suffix"] and kind["shape"] not in ("uuid", "word")
    for draw in range(start, 64):
        data = Bytes(functools.partial(block_of, kind, value, draw))
        stem = STEMS[kind["shape"]](kind, value, data, draw // 8 if grows else 0)
        token = f"{stem}_{SUFFIX}" if kind["suffix"] else stem
        is_card = kind["check_digits"] != "luhn" and looks_like_card(token)
        if value not in (stem, token) and not is_card:
            return token, draw
    raise ValueError("no token")


CARD, IBAN = "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00"
SHORT = {"suffix": False}
LUHN = {"check_digits": "luhn"}
MOD97 = {"check_digits": "mod97"}
CASES = [
    ("text", {}, ["Ann Lee", "ann@example.com", "", "7", "李小龍", "---"]),
    ("text", SHORT, ["Ann Lee", "+1 (555) 010-0199"]),
    ("email", {}, ["ann@example.com", "a@b.c", "José+x@mail.example.co.uk"]),
    ("email", {"keep": "domain"}, ["ann@example.com", "Ann.Lee@Example.COM"]),
    ("email", {"keep": "top_level_domain"}, ["ann@example.com", "a@b.co", "x@1.2.3"]),
    ("email", {"keep": "domain", **SHORT}, ["ann.lee@example.com"]),
    ("email", {"keep": "top_level_domain", **SHORT}, ["ann@mail.example.co.uk"]),
    ("digits", {}, [CARD, IBAN, "7", "(12)", "+49 (711) 123-45", "AB-1", "x9Y", "1\u00a02\u00a03"]),
    ("digits", {"keep_first": 6, "keep_last": 4, **SHORT}, [CARD, "4111-1111-1111-1111"]),
    ("digits", {"keep_first": 4, "keep_last": 4}, [CARD, "4111.1111.1111.1111.111"]),
    ("digits", {"begins_with": "000", **SHORT}, ["123-45-6789"]),
    ("digits", {"begins_with": "9"}, ["12", "+49 711 123456"]),
    ("digits", LUHN, [CARD, "12", "411111111111"]),
    ("digits", {**LUHN, "keep_first": 5, "keep_last": 4, **SHORT}, [CARD, "378282246310005000"]),
    ("digits", {**LUHN, "begins_with": "9999", **SHORT}, [CARD]),
    ("digits", MOD97, [IBAN, "GB82WEST12345698765432", "rf18 5390 0754 7034"]),
    ("digits", {**MOD97, "keep_first": 8, **SHORT}, [IBAN, "NO93 8601 1117 9470 1"]),
    ("digits", {**MOD97, "begins_with": "XX", **SHORT}, [IBAN]),
    ("digits", {**MOD97, "keep_last": 4}, [IBAN]),
    ("date", {}, ["1985-04-12", "12.04.1985", "31/12/1985", "12/31/1985", "19850412", "31121985",
                  "04071985", "4/7/1985", "4/17/1985", "31.12.85", "85-04-12", "05-04-03", "1985/4/7"]),
    ("date", {}, ["1985-04-12T10:20:30Z", "1985-04-12 10:20:30.123+02:00", "1985-04-12T10:20",
                  "12.04.1985 10:20:30,5-0330"]),
    ("date", {}, ["%02d121985" % day for day in range(13, 32)]),
    ("date", {"keep": "year"}, ["1985-04-12", "2024-02-29", "4/17/85", "12.04.1985 10:20"]),
    ("date", SHORT, ["1985-04-12", "04/07/1985", "2000-02-29 23:59:59.999999+00"]),
    ("uuid", {}, ["any", "", "6c994e01-d30e-46ea-a222-8f8cec775a4e"]),
    ("uuid", SHORT, ["any"]),
    ("word", {}, ["any", "Ann Lee"]),
    ("word", {"length": 5, **SHORT}, ["any"]),
]


def vectors():
    for shape, settings, values in CASES:
        name = "text" if shape == "text" and not settings else f"{shape}_1"
        for value in values:
            yield vector({**DEFAULTS, "shape": shape, "name": name, **settings}, settings, value, 0)
    for shape, settings, value in [
        ("text", {}, "Ann Lee"), ("email", {"keep": "top_level_domain"}, "ann@example.com"),
        ("digits", LUHN, CARD), ("digits", {"keep_first": 6, "keep_last": 4}, CARD),
        ("digits", MOD97, IBAN), ("date", {}, "1985-04-12"), ("date", {"keep": "year"}, "4/17/85"),
        ("word", {}, "any"), ("uuid", {}, "any"), ("digits", {**SHORT, "keep_last": 4}, CARD),
    ]:
        for start in (1, 9, 63):
            yield vector({**DEFAULTS, "shape": shape, "name": "later", **settings}, settings, value, start)
    for space, name in [("acme", "text"), ("acme", "mail"), ("", "mail"), ("a" * 32, "m" * 32)]:
        kind = {**DEFAULTS, "shape": "email", "name": name, "space": space}
        yield vector(kind, {}, "ann@example.com", 0)


def vector(kind, settings, value, start):
    token, draw = token_of(kind, value, start)
    place = {"space": kind["space"], "name": kind["name"], "shape": kind["shape"]}
    return {**place, "settings": settings, "value": value, "from": start, "token": token, "draw": draw}


ABOUT = (
    "Tokens of kinds, for any language: the suffix is tok, the token key that of vectors.json. "
    "Made by kinds.py, a second implementation. Settings that are not here have their defaults."
)
if __name__ == "__main__":
    if sys.argv[1:] == ["draw"]:
        cases = ({**DEFAULTS, **kind, "value": value} for kind, value in json.load(sys.stdin))
        json.dump([token_of(case, case["value"])[0] for case in cases], sys.stdout)
    else:
        json.dump({"about": ABOUT, "cases": list(vectors())}, sys.stdout, indent=1)
        print()
