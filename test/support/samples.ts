import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseCsv } from './token-rules.ts';

/** Customers as a file and as its rows. */
export interface Sample {
  readonly name: string;
  readonly csv: string;
  readonly rows: Record<string, string>[];
}

const words = (text: string) => text.trim().split(/\n| \| /);
/** First and last names of many scripts, both composed and decomposed. */
const NAMES = words(`
Zoë Brontë | Łukasz Żółć | Đorđe Šćepanović | Ángel Núñez | Åse Bjørnson | Jürgen Groß | İpek Çağlar | Ștefan Țăran
Þór Æsir | Siân O’Neill | Jean-Luc d’Arc | Nguyễn Thị Hạnh | Ольга Щукина | Γιώργος Ξένος | مريم حداد | יעל כהן
अनिता शर्मा | สมชาย ใจดี | 김 민준 | 王 小明 | 佐藤 さくら | Նարե Սարգսյան | ნინო ბერიძე | Ann Lee | Bo X | Max Roth
Zoe\u0308 Nu\u0301n\u0303ez`);
const COMPANIES = [
  '',
  '',
  ...words('Ünder & Söhne GmbH | Lee, Park "and" Co. | ООО Ромашка | 株式会社山田'),
];
const STREETS = words(
  'Rue de l’Église | Große Allee | Calle Peña, 2º | Main St. # | ул. Мира | 中央通り',
);
const CITIES = words(
  'Köln | São Paulo | Kraków | Αθήνα | 東京 | Reykjavík | Al-Qāhira | N. Y. "City"',
);
const DISTRICTS = ['', ...words('Île-de-France | BY | N/A | 北海道')];
/** The digits of a number stand for `#`. */
const PHONES = words(
  '+49 30 2345#### | +1 (212) 555-#### | +44 20 7946 #### | +33 1 42 68 ## ## | +81 3-3224-####',
);
const DOMAINS = words('example.com | example.co.uk | mail.example.org | xn--bcher-kva.example');
const COUNT = 300;
/** Short ones among the telephone numbers. */
export const SHORT_PHONES = 3;

function madeCustomer(i: number): Record<string, string> {
  const at = (list: readonly string[]) => list[(i * 31) % list.length]!;
  const digits = String((i * 7_919) % 10_000).padStart(4, '0');
  const number = (list: readonly string[]) => {
    let next = 0;
    return at(list).replaceAll('#', () => digits[next++]!);
  };
  const [first, ...last] = at(NAMES).split(' ');
  return {
    customer_id: String(i + 1),
    full_name: at(NAMES),
    first_name: first!,
    last_name: last.join(' '),
    company: at(COMPANIES),
    address: `${at(STREETS)} ${i}`,
    city: at(CITIES),
    district: at(DISTRICTS),
    postal_code: ['0', '', 'SW1A '][i % 3] + digits,
    phone: i < SHORT_PHONES ? `0${i}-${digits}` : number(PHONES),
    fax: i % 4 === 0 ? number(PHONES) : '',
    email: `${['kunde.', 'client_', 'news+x'][i % 3]}${i}@${at(DOMAINS)}`,
  };
}

function csvText(rows: readonly Record<string, string>[]): string {
  const cell = (text: string) => (/[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [Object.keys(rows[0]!), ...rows.map((row) => Object.values(row).map(cell))];
  return lines.map((line) => `${line.join(',')}\n`).join('');
}

const made = Array.from({ length: COUNT }, (_, i) => madeCustomer(i));

/** Characters that break software, alone and inside of other texts. */
const CHARACTERS = [
  ...'\0\x01\b\t\n\v\f\r\x7f\x80\x85\xa0\xad\u0301\u0489\u061c\u180e\u200b\u200d\u200e\u2028\u2029',
  ...'\u202e\u2066\u2069\u3000\ufeff\ufff9\ufffd\uffff\ufe0f\ue000😀𝒜𠜎ßẞİıŉǅﬃ½٣５Ⅷ㋿﷽"\'\\`$%&<>{}[]|;,@ ',
  ...['\r\n', '\x1b[31m', '👩‍👩‍👧', '🇩🇪', '👍🏽', '..', '_tok'],
];
const PLACES = words(
  '* | a* | *a | An*n | *Lee, Ann* | ann*@example.com | +49*30 123456 | 4111*111111111111',
);
const TEXTS = [
  ...['', 'a\u0300'.repeat(40), '9'.repeat(60), `${'x'.repeat(300)}@example.com`],
  ...words(String.raw`
null | undefined | NaN | -Infinity | true | __proto__ | constructor | toString | [object Object] | 0 | -0 | +0.0
1e309 | 0x1F | 1_000 | 1,000.00 | 1.000,00 | 00 | 2026-02-30 | 04/04/04 | =1+1 | @SUM(A1) | -2+3 | javascript:alert(1)
' or 1=1; -- | '); drop table records; -- | <script>alert(1)</script> | <!-- ]]> --> | &#0; | {{7*7}} | %s%n%x
$(id) | ../../etc/passwd | C:\nul | file:///dev/zero | \u0000 | %00 | %f0%9f | _tok | qwert_tok | a_tok_tok
@ | a@ | @a.b | a@b@c.de | a b@c.de`),
];
const ownNaughty = [
  ...TEXTS,
  ...CHARACTERS.flatMap((one) => PLACES.map((place) => place.replaceAll('*', () => one))),
];

/** Real rows, where the folder is beside the checkout. */
const folder =
  process.env.SAMPLE_DATA_DIR ?? fileURLToPath(new URL('../../../shared/data/', import.meta.url));
const read = (file: string) => readFileSync(`${folder}/${file}`, 'utf8');
const real = !existsSync(folder)
  ? []
  : ['sakila', 'chinook'].map((name) => ({ name, csv: read(`${name}-customers.csv`) }));

/** Ours, and the real ones that are there. */
export const samples: readonly Sample[] = [{ name: 'made', csv: csvText(made) }, ...real].map(
  (one) => ({ ...one, rows: parseCsv(one.csv) }),
);
export const naughtyStrings: readonly string[] = [
  ...ownNaughty,
  ...(real.length === 0 ? [] : (JSON.parse(read('naughty-strings.json')) as string[])),
];
/** The rows of a real sample; undefined: not there. */
export function realSample(name: 'sakila' | 'chinook'): Sample | undefined {
  return samples.find((one) => one.name === name);
}
