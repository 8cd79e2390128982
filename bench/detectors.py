#!/usr/bin/env python3
"""Measures the detectors of `detect` beside the pattern recognizers of Presidio.

Both read the same labelled sentences: the templates of presidio-evaluator and those of TEMPLATES,
filled by Faker. Prints a table in Markdown:

    npm run -s build
    pip install presidio-analyzer==2.2.366 presidio-evaluator==0.3.2 faker==40.54.0
    python3 bench/detectors.py
"""

import json
import subprocess
from datetime import datetime
from statistics import fmean
from textwrap import wrap
from urllib.parse import quote

import phonenumbers
from faker.providers import BaseProvider
from presidio_analyzer import predefined_recognizers as presidio
from presidio_evaluator.data_generator import presidio_sentence_faker as evaluator

SEED = 24
SENTENCES_OF_A_LOCALE = 1_500
COUNTRY = "US"
OWN_TIMES = 10
LOCALES = ["en_US", "en_GB", "de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL", "pl_PL"]

# By kind. Presidio has no recognizer of URLs with credentials.
PEERS = {
    "email": presidio.EmailRecognizer(),
    "card": presidio.CreditCardRecognizer(),
    "iban": presidio.IbanRecognizer(),
    "phone": presidio.PhoneRecognizer(),
    "ip": presidio.IpRecognizer(),
}
# The providers that fill a place with a value, by its label: a kind, and perhaps more.
PROVIDERS = {
    "email": "email",
    "card": "credit_card_number credit_card_groups",
    "iban": "iban iban_groups",
    "phone (Faker)": "phone_number",
    "phone (valid)": "phone_valid",
    "phone (valid, national)": "phone_national",
    "url": "url_credentials",
    "ip": "ip_address ipv4",
}
LABELS = {name: label for label, names in PROVIDERS.items() for name in names.split()}
TEMPLATES = """
My card is {{credit_card_groups}}, please block it
Please transfer to {{iban_groups}}, thank you
Call me: {{phone_valid}}.
Our office ({{phone_valid}}) is closed, write to {{email}}
I called {{phone_national}} twice
git clone {{url_credentials}} fails with 403
DATABASE_URL={{url_credentials}}
The pool at "{{url_credentials}}" is full, host {{ip_address}}
Connection to {{ipv4}}:8443 refused
{{ip_address}} - - [23/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5316
Order 4539-1488-0343-6468 of 2026-11-23 10:15:30 has the number 20261123101530
Version 10.4.12 of the app, build 1.2.3-beta, since 12.11.2026
Parcel 00340434161094021501 weighs 1.250,00 g and costs 1,250.00
Invoice INV-2026-0001234567, ISBN 978-3-16-148410-0, from 9:00 to 17:30
See https://example.com/a@b?c=1234567890123 or @support
""".strip().splitlines()


class Provider(BaseProvider):
    """What Faker has not: groups of digits, valid telephone numbers, URLs with credentials."""

    def date_time(self, *_: object, **__: object) -> datetime:
        """Faker's own are before now, so they differ from run to run."""
        return self.generator.date_time_between(datetime(1990, 1, 1), datetime(2026, 1, 1))

    def credit_card_groups(self) -> str:
        digits = self.generator.credit_card_number("visa16")
        return self.random_element(" -").join(wrap(digits, 4))

    def iban_groups(self) -> str:
        return " ".join(wrap(self.generator.iban(), 4))

    def phone(self, country: str, form: int) -> str:
        number = phonenumbers.example_number(country)
        example = phonenumbers.format_number(number, form)
        number.national_number += self.random_number(3) - number.national_number % 1_000
        is_valid = phonenumbers.is_valid_number(number)
        return phonenumbers.format_number(number, form) if is_valid else example

    def phone_valid(self) -> str:
        country = self.random_element(sorted(phonenumbers.SUPPORTED_REGIONS))
        return self.phone(country, phonenumbers.PhoneNumberFormat.INTERNATIONAL)

    def phone_national(self) -> str:
        return self.phone(COUNTRY, phonenumbers.PhoneNumberFormat.NATIONAL)

    def url_credentials(self) -> str:
        fake = self.generator
        scheme = self.random_element(["https", "postgres", "redis", "ftp", "amqp"])
        user = f"{fake.user_name()}:{quote(fake.password(), safe='')}"
        return f"{scheme}://{user}@{fake.domain_name()}/{fake.uri_path()}"


Found = list[tuple[int, int, str]]


def sentences() -> tuple[list[str], list[Found]]:
    """Texts, and the places and labels of what is in each."""
    shipped = evaluator.presidio_templates_file_path.read_text().splitlines()
    texts, of = [], []
    for seed, locale in enumerate(LOCALES, SEED):
        evaluator.PresidioSentenceFaker.seed(seed)
        faker = evaluator.PresidioSentenceFaker(
            locale,
            lower_case_ratio=0,
            sentence_templates=[*map(str.strip, shipped), *TEMPLATES * OWN_TIMES],
            entity_providers=[*evaluator.presidio_additional_entity_providers, Provider],
            entity_type_mapping=evaluator.PresidioSentenceFaker.ENTITY_TYPE_MAPPING | LABELS,
            random_seed=seed,
        )
        for one in faker.generate_new_fake_sentences(SENTENCES_OF_A_LOCALE):
            spans = [(at.start_position, at.end_position, at.entity_type) for at in one.spans]
            texts.append(one.full_text)
            of.append([span for span in spans if span[2] in PROVIDERS])
    return texts, of


def found_by_presidio(texts: list[str]) -> list[Found]:
    def found(text: str, kind: str) -> Found:
        places = PEERS[kind].analyze(text, PEERS[kind].supported_entities, None)
        return [(one.start, one.end, kind) for one in places]

    return [[one for kind in PEERS for one in found(text, kind)] for text in texts]


# Reads texts as JSON; the detectors count in UTF-16 units, Python in code points.
NODE = """
import { json } from 'node:stream/consumers';
import { chosen, finderOf, foundOf } from './dist/detect/found.js';
const [, country, ...detectors] = process.argv;
const settings = detectors.map((one) => ({ detector: one, kind: one, country }));
const find = finderOf(settings);
const points = (text, unit) => [...text.slice(0, unit)].length;
const found = (text) => chosen(text, foundOf(find(text), settings), [])
  .map(({ from, to, kind }) => [points(text, from), points(text, to), kind]);
console.log(JSON.stringify((await json(process.stdin)).map(found)));
"""


def found_by_standin(texts: list[str]) -> list[Found]:
    command = ["node", "--input-type=module", "-e", NODE, COUNTRY, *PEERS, "url"]
    return json.loads(subprocess.check_output(command, input=json.dumps(texts), text=True))


def row(label: str, of: list[Found], found: list[Found]) -> list[str]:
    """Precision of the kind and recall of the label, in percent.

    A value is found if the finds of its kind cover all of it. A find is right if it touches a
    value, of whatever kind.
    """
    right, whole = [], []
    for places, ones in zip(of, found):
        spans = [range(start, end) for start, end, kind in ones if kind == label.split()[0]]
        covered = set().union(*spans)
        known = set().union(*(range(start, end) for start, end, _ in places))
        right += [not known.isdisjoint(one) for one in spans]
        whole += [covered.issuperset(range(*at)) for *at, one in places if one == label]
    return [f"{fmean(shares):.1%}" if right else "–" for shares in (right, whole)]


def main() -> None:
    texts, of = sentences()
    finds = [found_by_standin(texts), found_by_presidio(texts)]
    print("| Kind | Values | Standin: precision | recall | Presidio: precision | recall |")
    print("|---|---|---|---|---|---|")
    for label in PROVIDERS:
        count = sum(one == label for places in of for *_, one in places)
        cells = [f"{count:,}", *(cell for found in finds for cell in row(label, of, found))]
        print(f"| {label} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
