"""Makes vectors.json again: every expected value in it, from its keys and its inputs.

A second implementation of docs/tokens.md and docs/record-format.md, with the standard library of
Python alone. It shares nothing with the program that the vectors check. A new case needs its inputs
only, and for a sealed one the nonce. To make them again:

python3 test/vectors/vectors.py > new.json && mv new.json test/vectors/vectors.json && npm run -s format
"""

import hashlib
import hmac
import json
import pathlib
import sys
import zlib

from kinds import DEFAULTS, DIGITS, LOWER, UPPER, Bytes, looks_like_card, text_stem, token_of

VECTORS = json.loads(pathlib.Path(__file__).with_name("vectors.json").read_text())
KEYS = {name: bytes.fromhex(key) for name, key in VECTORS["keys"].items()}
TEXT = {**DEFAULTS, "shape": "text", "name": "text"}


def hmac_sha256(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def hkdf(key, info):
    """HKDF-SHA-256 without salt, 32 bytes (RFC 5869)."""
    return hmac_sha256(hmac_sha256(bytes(32), key), info.encode(), b"\x01")


def double(byte):
    return (byte << 1) ^ (0x11B if byte & 0x80 else 0)


def make_sbox():
    """FIPS 197, 5.1.1: the inverse in GF(2^8), found by powers of 3, and an affine map."""
    power, powers = 1, []
    for _ in range(255):
        powers.append(power)
        power ^= double(power)
    inverse = {powers[i]: powers[-i % 255] for i in range(255)}
    rows = []
    for byte in range(256):
        x = inverse.get(byte, 0)
        rows.append(0x63 ^ x ^ (x << 1 | x >> 7) & 255 ^ (x << 2 | x >> 6) & 255
                    ^ (x << 3 | x >> 5) & 255 ^ (x << 4 | x >> 4) & 255)
    return rows


SBOX = make_sbox()


def aes_256(key):
    """The cipher of FIPS 197 for blocks of 16 bytes."""
    words, constant = [list(key[i : i + 4]) for i in range(0, 32, 4)], 1
    for i in range(8, 60):
        word = words[-1]
        if i % 8 == 0:
            word = [SBOX[b] for b in word[1:] + word[:1]]
            word[0] ^= constant
            constant = double(constant)
        elif i % 8 == 4:
            word = [SBOX[b] for b in word]
        words.append([a ^ b for a, b in zip(words[-8], word)])
    rounds = [sum(words[i : i + 4], []) for i in range(0, 60, 4)]

    def encrypt(block):
        state = [a ^ b for a, b in zip(block, rounds[0])]
        for number, round_key in enumerate(rounds[1:], 1):
            state = [SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
            if number < 14:
                state = [
                    double(a) ^ double(b) ^ b ^ c ^ d
                    for column in (state[i : i + 4] for i in range(0, 16, 4))
                    for a, b, c, d in (column[i:] + column[:i] for i in range(4))
                ]
            state = [a ^ b for a, b in zip(state, round_key)]
        return bytes(state)

    return encrypt


def gcm(key, nonce, plaintext, aad):
    """NIST SP 800-38D: ciphertext and tag."""
    encrypt = aes_256(key)
    count = -(-len(plaintext) // 16) + 1
    stream = [encrypt(nonce + i.to_bytes(4, "big")) for i in range(1, count + 1)]
    ciphertext = bytes(a ^ b for a, b in zip(plaintext, b"".join(stream[1:])))
    lengths = (8 * len(aad)).to_bytes(8, "big") + (8 * len(ciphertext)).to_bytes(8, "big")
    data = aad + bytes(-len(aad) % 16) + ciphertext + bytes(-len(ciphertext) % 16) + lengths
    subkey, hashed = int.from_bytes(encrypt(bytes(16)), "big"), 0
    for i in range(0, len(data), 16):
        hashed, product, v = hashed ^ int.from_bytes(data[i : i + 16], "big"), 0, subkey
        for bit in range(127, -1, -1):
            product ^= v if hashed >> bit & 1 else 0
            v = v >> 1 ^ (0xE1 << 120 if v & 1 else 0)
        hashed = product
    return ciphertext + bytes(a ^ b for a, b in zip(hashed.to_bytes(16, "big"), stream[0]))


def fingerprint_of(token, space=""):
    text = token.encode()
    head = b"\x02" if text[:1] in (b"\x00", b"\x01", b"\x02") else b""
    if space:
        head = b"\x01" + bytes([len(space)]) + space.encode()
    return hmac_sha256(KEYS["fingerprint"], head, text)[:16]


class Shape:
    @staticmethod
    def pick(alphabet):
        return "0" if alphabet == DIGITS else "a"


def shape(case):
    case["shape"] = text_stem(TEXT, case["value"], Shape, 0)


def stem(case):
    up = bytes(range(256))
    data = Bytes(lambda block: up[::-1] if block else up)
    drawn = {"a": LOWER, "0": DIGITS}
    case["stem"] = "".join(data.pick(drawn[c]) if c in drawn else c for c in case["shape"])


def token(case):
    case["token"], case["draw"] = token_of(TEXT, case["value"], case["from"])
    text = b"\x00\x00" + case["value"].encode()
    case["value_fingerprint"] = hmac.new(KEYS["token"], text, hashlib.sha512).hexdigest()[96:]


def random_token(case):
    key = hkdf(KEYS["token"], "standin random tokens")
    fingerprint = bytes.fromhex(case["value_fingerprint"])

    def block_of(_kind, _value, draw, block):
        text = (block + 1).to_bytes(4, "big") + key + bytes([draw]) + fingerprint
        return hashlib.sha512(text).digest()[:48]

    case["token"], case["draw"] = token_of(TEXT, case["value"], case["from"], block_of)
    case["token_fingerprint"] = fingerprint_of(case["token"]).hex()


def token_fingerprint(case):
    case["token_fingerprint"] = fingerprint_of(case["token"], case.get("space", "")).hex()


# What is wrong with a record that must not open; the others are right but for what is beside them.
DAMAGE = {
    "a bit of the ciphertext is another": lambda sealed: sealed[:14] + bytes([sealed[14] ^ 1]) + sealed[15:],
    "the tag is 12 bytes long": lambda sealed: sealed[:-4],
}
right = {}


def record(case):
    """A record that must not open is made of the last one that must."""
    if "why" in case:
        damage = DAMAGE.get(case["why"], bytes)
        case["sealed"] = damage(bytes.fromhex(right["sealed"])).hex()
        return
    fingerprint = fingerprint_of(case["token"])
    subkey = hkdf(KEYS["dek"], f"standin record subkey {fingerprint[0]}")
    aad = b"\x01" + case["key_version"].to_bytes(4, "big") + fingerprint
    aad += bytes.fromhex(case["value_fingerprint"])
    nonce = bytes.fromhex(case["sealed"])[:12]
    case["sealed"] = (nonce + gcm(subkey, nonce, case["value"].encode(), aad)).hex()
    right.update(case)


def wrapped_key(case):
    if "why" in case:
        case["wrapped"] = VECTORS["wrapped_keys"]["cases"][0]["wrapped"]
        return
    nonce, key = bytes.fromhex(case["wrapped"])[:12], KEYS[case["purpose"]]
    aad = f"standin key 1 {case['purpose']} {case['version']}".encode()
    case["wrapped"], case["key"] = (nonce + gcm(KEYS["kek"], nonce, key, aad)).hex(), key.hex()


def api_key(case):
    text = case["api_key"]
    check, digits = zlib.crc32(text[:-6].encode()), ""
    for _ in range(6):
        check, digit = divmod(check, 62)
        digits = (DIGITS + UPPER + LOWER)[digit] + digits
    case["is_valid"] = len(text) == 38 and text[-6:] == digits
    if case["is_valid"]:
        case["digest"] = hmac_sha256(KEYS["api-key"], text.encode()).hex()


def card(case):
    case["is_card"] = looks_like_card(case["text"])


MAKERS = {
    "shapes": shape, "stems": stem, "tokens": token, "random_tokens": random_token,
    "token_fingerprints": token_fingerprint, "records": record, "wrapped_keys": wrapped_key,
    "api_keys": api_key, "cards": card,
}
for name, make in MAKERS.items():
    for case in VECTORS[name]["cases"]:
        make(case)
VECTORS["wrapped_keys"]["kek_id"] = hmac_sha256(KEYS["kek"], b"standin kek id")[:8].hex()
json.dump(VECTORS, sys.stdout, indent=2)
print()
