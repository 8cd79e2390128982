import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ADMIN_TOKEN, adminPlace } from '../support/admin.ts';
import { type Body, Mutations, written } from '../support/bodies.ts';
import { isLinux } from '../support/fault.ts';
import { startWithOps } from '../support/ops.ts';
import { type Price, Probe, probeSettings } from '../support/probed.ts';
import { Random } from '../support/random.ts';
import { call, NO_LIMITS, type Place, runJson, type Service } from '../support/service.ts';

/** Minutes of the search. Set SEED to repeat one. */
const MINUTES = Number(process.env.SEARCH_MINUTES ?? 1.5);
/** What no request may cost: processor time of the main thread in one go, and memory. */
const MOST_MS = 50;
const MOST_BYTES_A_BYTE = 20;
/** Garbage that is not collected yet, buffers and threads, whatever the request is. */
const SLACK_BYTES = 24 * 1_048_576;
/** `calibrationMs` of the machine that the bound is for. */
const CALIBRATION_MS = 100;
/** A price counts when so many requests in turn have it: others hit a collection of garbage. */
const REPEATS = 5;
const CERTAIN_SHARE = 4;
/** Cases that are kept of each target, to make others of. */
const KEPT = 8;

const POLICY = `version: 1
kinds:
  person: { shape: word, length: 8 }
  card: { shape: digits, keep_last: 4, check_digits: luhn, mask: { show: ends, last: 4 } }
  phone: { shape: digits, spelling: [e164], country: US }
  code: { shape: digits, suffix: false }
  born: { shape: date, keep: year }
fields:
  name: person
  email: email
  card: card
  customer.phone: phone
  codes[*]: code
  born: born
elsewhere: pass
rights:
  full: { "*": full }
  masked: { "*": masked }
  "*": { "*": none }
`;

/** What callers send, and what parsers fear. */
const WORDS = [
  ...['', 'a', ' ', '\0', '"', '\\', '\n', '\u2028', '/', '.', '@', '_', '-', '+', '*', '~', '#'],
  ...['😀', '👩‍👩‍👧', 'é', 'e\u0301', 'İ', 'ß', '\ud800', '\uffff', '٣'],
  ...['{token}', '{long}', '{nul}', '_tok', 'tok', '{person}', '{person} ', '{card}'],
  ...['Ann Lee', 'ann@example.com', '4111 1111 1111 1111', '+1 650 253 0000', '2001-02-03'],
  ...['name', 'email', 'card', 'customer', 'phone', 'codes', 'born', 'values', 'text', 'spans'],
  ...['person', 'full', 'none', 'masked', 'data', 'more', 'kind', 'start', 'end', 'document'],
  ...['__proto__', 'xxxxxxxx', '0', '1', '12345', 'T00:00:00Z', 'x@y.z ', 'é\0"'],
];
const YAML = [
  ...['version: 1\n', 'kinds:\n', 'fields:\n', 'rights:\n', 'elsewhere: pass\n', '  a#: text\n'],
  ...[
    '  k#: { shape: text }\n',
    '  k#: { shape: text, spelling: [trim] }\n',
    '  c#: { k#: full }\n',
  ],
  ...['[', ']', '{', '}', ',', ': ', '- ', '? ', '- a\n', '|\n', '>\n', '%', '&a ', '*a ', '!a '],
  ...[
    '"',
    "'",
    '\t',
    '#\n',
    '---\n',
    '  ',
    'xxxxxxxxxxxxxxxxxxxx',
    'txt',
    '.a#[*]',
    'text',
    '$schema',
  ],
];

interface Target {
  readonly service: 'plain' | 'ruled';
  readonly path: string;
  /** The client that asks, or `admin`. */
  readonly caller: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly seeds: readonly Body[];
}

/** As `data` of a request. */
const NAME: Body = { map: [['name', 'Ann Lee']] };
const VALUES: Body = { map: [['values', { list: ['Ann Lee'] }]] };
const TEXT: Body = { map: [['text', 'Dear Ann Lee']] };
const SPAN: Body = {
  map: [
    ['start', { from: 5, step: 8 }],
    ['end', { from: 8, step: 8 }],
    ['kind', 'person'],
  ],
};
const SPANS: Body = {
  map: [
    ['text', { text: 'Dear Ann' }],
    ['spans', { list: [SPAN] }],
  ],
};
const LENIENT = { prefer: 'handling=lenient' };
const DOCUMENTS: Body[] = [
  { map: [['document', { join: ['version: 1\n'] }]] },
  {
    map: [
      [
        'document',
        {
          json: {
            map: [
              ['version', { from: 1, step: 0 }],
              ['kinds', { map: [['k#', { map: [['shape', 'text']] }]] }],
            ],
          },
        },
      ],
    ],
  },
  {
    map: [
      [
        'document',
        {
          json: {
            map: [
              ['version', { from: 1, step: 0 }],
              ['elsewhere', 'pass'],
              ['fields', { map: [['a#', 'text']] }],
            ],
          },
        },
      ],
    ],
  },
  {
    map: [
      [
        'document',
        {
          json: {
            map: [
              ['version', { from: 1, step: 0 }],
              ['rights', { map: [['c#', { map: [['text', 'full']] }]] }],
            ],
          },
        },
      ],
    ],
  },
];

function targets(): Record<string, Target> {
  const all: Record<string, Target> = {};
  for (const [service, caller] of [
    ['plain', 'full'],
    ['ruled', 'full'],
    ['ruled', 'none'],
    ['ruled', 'masked'],
  ] as const) {
    const add = (path: string, seeds: readonly Body[], headers = {}) => {
      const name = [service, caller, path, ...Object.values(headers)].join(' ');
      all[name] = { service, caller, path: `/api/v1/${path}`, seeds, headers };
    };
    add('detokenize', [NAME, VALUES]);
    add('detokenize', [NAME, VALUES], LENIENT);
    add('text/detokenize', [TEXT]);
    if (caller !== 'full') continue;
    add('tokenize', [NAME, VALUES]);
    add('lookup', [NAME, VALUES]);
    add('text/tokenize', [SPANS]);
  }
  const admin = (method: string, path: string, ...seeds: Body[]) => {
    all[`${method} ${path}`] = {
      service: 'ruled',
      caller: 'admin',
      method,
      path: `/admin/v1${path}`,
      seeds,
    };
  };
  admin('POST', '/policy/check', ...DOCUMENTS);
  admin('PUT', '/policy', ...DOCUMENTS);
  admin('PUT', '/clients/made', { map: [['can', { list: ['tokenize'] }]] });
  admin('POST', '/clients/full/api-keys', { map: [['expires_at', '2030-01-31T12:00:00Z']] });
  admin('POST', '/lookup', { map: [['values', { list: ['Ann Lee'] }]] });
  admin('POST', '/forget', {
    map: [
      ['values', { list: ['nobody'] }],
      ['tokens', { list: ['{token}x'] }],
    ],
  });
  return all;
}

interface Case {
  readonly target: string;
  readonly body: Body;
}

/** A service that is measured, with its clients. */
class Measured {
  readonly place: Place;
  readonly #env: Record<string, string>;
  readonly #apiKeys: Readonly<Record<string, string>>;
  named: Record<string, string> = {};
  service!: Service & { readonly opsUrl: string };
  probe!: Probe;

  private constructor(place: Place, apiKeys: Record<string, string>) {
    this.place = place;
    this.#apiKeys = apiKeys;
    this.#env = { ...NO_LIMITS, LOOKUP_LIMIT: '0', LOG_LEVEL: 'info', ...probeSettings(place) };
  }

  static async open(policy?: string): Promise<Measured> {
    const place = await adminPlace();
    const apiKeys: Record<string, string> = {};
    for (const name of ['full', 'none', 'masked']) {
      const can = ['--can', 'tokenize,detokenize,lookup'];
      apiKeys[name] = (await runJson(place, 'client', 'create', '--name', name, ...can)).api_key;
    }
    if (policy !== undefined) {
      const file = join(place.folder, 'policy.yaml');
      writeFileSync(file, policy);
      await runJson(place, 'policy', 'apply', file, '--yes');
    }
    const measured = new Measured(place, apiKeys);
    await measured.start();
    return measured;
  }

  async start(): Promise<void> {
    this.service = await startWithOps(this.place, this.#env);
    this.probe = new Probe(this.service);
    const values = { token: 'Ann Lee', long: 'x'.repeat(60_000), nul: '\0'.repeat(65_536) };
    const records = { name: 'Ann Lee', card: '4111 1111 1111 1111' };
    const tokens = await call(this.service, 'tokenize', values, this.#apiKeys.full!);
    const { body } = await call(this.service, 'tokenize', records, this.#apiKeys.full!);
    this.named = { ...tokens.body.data, person: body.data.name, card: body.data.card };
  }

  async price(
    target: Target,
    body: string,
    isExact: boolean,
  ): Promise<Price & { readonly status: number }> {
    const { caller, path, method = 'POST', headers } = target;
    const isAdmin = caller === 'admin';
    const bearer = isAdmin ? ADMIN_TOKEN : this.#apiKeys[caller]!;
    return this.probe.price(
      {
        url: (isAdmin ? this.service.opsUrl : this.service.url) + path,
        method,
        headers: {
          authorization: `Bearer ${bearer}`,
          'content-type': 'application/json',
          ...headers,
        },
        body,
      },
      isExact,
    );
  }

  async close(): Promise<void> {
    this.probe.close();
    await this.service.stop();
  }
}

const TARGETS = targets();
const measured = {} as Record<'plain' | 'ruled', Measured>;

beforeAll(async () => {
  measured.plain = await Measured.open();
  measured.ruled = await Measured.open(POLICY);
});
afterAll(async () => {
  for (const one of Object.values(measured)) {
    await one.close();
    one.place.remove();
  }
});

/** How much of the bounds a request takes: more than 1 is too much. */
function shareOf(price: Price, bodyBytes: number, scale: number): number {
  const mostBytes = SLACK_BYTES + MOST_BYTES_A_BYTE * bodyBytes;
  return Math.max(price.longestMs / (MOST_MS * scale), price.bytes / mostBytes);
}

interface Priced extends Case {
  readonly price: Price & { readonly status: number };
  readonly bodyBytes: number;
  readonly share: number;
}

async function priced(
  { target, body }: Case,
  scale: number,
  isExact = false,
): Promise<Priced | undefined> {
  const { service } = TARGETS[target]!;
  const one = measured[service];
  const isAdmin = TARGETS[target]!.caller === 'admin';
  const text = written(isAdmin ? body : { map: [['data', body]] }, one.named);
  if (text === undefined) return undefined;
  const bodyBytes = Buffer.byteLength(text);
  try {
    const price = await one.price(TARGETS[target]!, text, isExact);
    return { target, body, price, bodyBytes, share: shareOf(price, bodyBytes, scale) };
  } catch {
    // It is gone, or will not end soon.
    one.service.kill();
    await one.service.exit;
    await one.start();
    const price = {
      status: 0,
      longestMs: Infinity,
      busyMs: Infinity,
      bytes: Infinity,
      restBytes: 0,
    };
    return { target, body, price, bodyBytes, share: Infinity };
  }
}

/** The least price of several requests. No neighbour makes it several times too much. */
async function confirmed(one: Case, scale: number): Promise<Priced> {
  let least = await priced(one, scale, true);
  for (let i = 1; i < REPEATS && least!.share < CERTAIN_SHARE && least!.share > 1; i++) {
    const next = (await priced(one, scale, true))!;
    if (next.share < least!.share) least = next;
  }
  return least!;
}

/** Costs much for what it is, so that more of it may cost too much. */
function rateOf({ price, bodyBytes }: Priced): number {
  return price.busyMs / (bodyBytes + 2_000);
}

/** The worst requests of a target, to make others of. Those that fail early are kept apart. */
class Pool {
  readonly #pools: Priced[][] = [[], [], []];

  get worst(): Priced {
    return this.#pools.flat().reduce((a, b) => (a.share > b.share ? a : b));
  }

  add(one: Priced): void {
    const [dear, dense, refused] = this.#pools as [Priced[], Priced[], Priced[]];
    if (one.price.status < 300) {
      keep(dear, one, ({ share }) => share);
      keep(dense, one, rateOf);
    } else keep(refused, one, ({ share }) => share);
  }

  parent(random: Random): Priced {
    const [dear, dense, refused] = this.#pools;
    const pools = [dear!, dear!, dear!, dense!, dense!, dense!, refused!];
    const pool = random.pick(pools.filter(({ length }) => length > 0));
    return pool[Math.min(random.below(pool.length), random.below(pool.length))]!;
  }
}

function keep(pool: Priced[], one: Priced, worthOf: (one: Priced) => number): void {
  pool.push(one);
  pool.sort((a, b) => worthOf(b) - worthOf(a));
  pool.length = Math.min(pool.length, KEPT);
}

async function scaleOf(): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < 5; i++) times.push(await measured.plain.probe.calibrationMs());
  return Math.max(1, Math.min(...times) / CALIBRATION_MS);
}

function inWords({ target, body, price, bodyBytes, share }: Priced): string {
  const { status, longestMs, busyMs, bytes } = price;
  const mib = (bytes / 1_048_576).toFixed(1);
  return `${share.toFixed(2)} ${target}: ${status}, ${bodyBytes} bytes, ${longestMs.toFixed(0)} of ${busyMs.toFixed(0)} ms, ${mib} MiB: ${JSON.stringify(body)}`;
}

test.skipIf(!isLinux)(
  'no request that a search finds holds the event loop for long, or takes much memory',
  async () => {
    const random = new Random();
    const scale = await scaleOf();
    console.log(`scale ${scale}`);
    const endMs = performance.now() + MINUTES * 60_000;
    const pools = new Map(Object.keys(TARGETS).map((name) => [name, new Pool()]));
    const found: Priced[] = [];
    let count = 0;
    const take = async (one: Case) => {
      count++;
      let result = await priced(one, scale);
      if (result !== undefined && result.share > 1 && result.share < CERTAIN_SHARE)
        result = await confirmed(one, scale);
      if (result === undefined) return;
      pools.get(one.target)!.add(result);
      if (result.share <= 1) return;
      found.push(result);
      pools.delete(one.target);
      console.log(
        `${count} ${((MINUTES * 60_000 - endMs + performance.now()) / 1000).toFixed(0)} s FOUND ${inWords(result)}`,
      );
    };
    for (const [target, { seeds }] of Object.entries(TARGETS))
      for (const body of seeds) if (pools.has(target)) await take({ target, body });
    const mutations = new Mutations(random, WORDS);
    const ofPolicies = new Mutations(random, [...WORDS, ...YAML, ...YAML]);
    while (performance.now() < endMs && pools.size > 0) {
      const [a, b] = [random.pick([...pools.keys()]), random.pick([...pools.keys()])];
      const isB = random.below(2) === 0 && pools.get(b)!.worst.share > pools.get(a)!.worst.share;
      const target = isB ? b : a;
      const parent = pools.get(target)!.parent(random);
      const other = random.pick([...pools.values()]).parent(random);
      const by = target.includes('policy') ? ofPolicies : mutations;
      await take({ target, body: by.of(parent.body, [parent.body, other.body]) });
    }
    const worst = [...pools.values()].map((pool) => pool.worst).sort((a, b) => b.share - a.share);
    console.log([`${count} requests`, ...worst.map(inWords)].join('\n'));
    expect(found.map(inWords)).toEqual([]);
  },
  MINUTES * 60_000 + 600_000,
);
