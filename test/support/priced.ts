import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { Agent, type RequestOptions, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect } from 'vitest';
import { ADMIN_TOKEN, admin, adminPlace } from './admin.ts';
import { type Body, textOf, type Words, written } from './bodies.ts';
import { startWithOps } from './ops.ts';
import { inForce } from './policy.ts';
import { call, NO_LIMITS, type Place, ROOT, runJson, type Service } from './service.ts';

/**
 * What no request may cost: processor time of the main thread in one go, of all other threads, and
 * memory.
 */
const MOST_MS = 50;
/** Of a megabyte of text, of 10,000 telephone numbers, and of a policy, read in its own thread. */
const MOST_OTHERS_MS = 2_000;
const MOST_BYTES_A_BYTE = 20;
/** Garbage that is not collected yet, buffers and stacks, whatever the request is. */
const SLACK_BYTES = 24 * 1_048_576;
/** Of the thread that reads policies, one at a time. */
const THREAD_BYTES = 224 * 1_048_576;
/** `Probe.calibrationMs` of the machine that MOST_MS is for. */
const CALIBRATION_MS = 100;

const POLICY = `version: 1
kinds:
  person: { shape: word, length: 8 }
  caller: { shape: word, normalize: [e164], country: DE }
  card: { shape: digits, keep_last: 4, check_digits: luhn, mask: { show: ends, last: 4 } }
  phone: { shape: digits, normalize: [e164], country: US }
  code: { shape: digits, suffix: false }
  born: { shape: date, keep: year }
${numbered(20, (i) => `  word_${i}: { shape: word, length: ${i + 5} }`)}
fields:
${numbered(900, (i) => `  field_${i}.list[*].of_${i}: word_${i % 20}`)}
  name: person
  email: email
  card: card
  customer.phone: phone
  phones[*]: phone
  codes[*]: code
  born: born
elsewhere: pass
detect:
  { email: word, card: word, iban: word, phone: caller, url: word, ip: word, "/K[0-9]{4,9}/": word }
rights:
  full: { "*": full }
  masked: { "*": masked }
  "*": { "*": none }
`;

function numbered(count: number, line: (i: number) => string): string {
  return Array.from({ length: count }, (_, i) => line(i)).join('\n');
}

/** What a request is sent to, and by whom. */
interface Target {
  readonly service: 'plain' | 'ruled';
  readonly path: string;
  /** The whole body of a request; without it, what varies is its `data`. */
  readonly bodyWith?: (body: Body) => Body;
  /** The client that asks, or `admin`. */
  readonly caller: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly seeds: readonly Body[];
}

/** As `data` of a request. */
const mapOf = (members: Record<string, Body>): Body => ({ map: Object.entries(members) });
const NAME = mapOf({ name: 'Ann Lee' });
const VALUES = mapOf({ values: { list: ['Ann Lee'] } });
const TEXT = mapOf({ text: 'Dear Ann Lee' });
const SPAN = mapOf({ start: { from: 5, step: 8 }, end: { from: 8, step: 8 }, kind: 'person' });
const SPANS = mapOf({ text: 'Dear Ann', spans: { list: [SPAN] } });

const FOUND = mapOf({
  text: 'Dear Ann, ann@x.de +49 170 1234567',
  words: mapOf({ Ann: 'person' }),
});

const VERSION = ['version', { from: 1, step: 0 }] as const;
const DOCUMENTS: readonly Body[] = [
  { join: ['version: 1\n'] },
  { json: { map: [VERSION, ['kinds', { map: [['k#', { map: [['shape', 'text']] }]] }]] } },
  { json: { map: [VERSION, ['elsewhere', 'pass'], ['fields', { map: [['a#', 'text']] }]] } },
  { json: { map: [VERSION, ['rights', { map: [['c#', { map: [['text', 'full']] }]] }]] } },
];

const MESSAGE = mapOf({ role: 'user', content: 'Write to ann@x.de' });
const CALL = mapOf({ function: mapOf({ name: 'send', arguments: '{"to":"ann@x.de"}' }) });
const GUARDED: readonly Body[] = [
  mapOf({ texts: { list: ['Write to ann@x.de', '{token}'] } }),
  mapOf({ texts: { list: [''] }, structured_messages: { list: [MESSAGE] } }),
  mapOf({ tools: { list: [mapOf({ description: 'ann@x.de' })] }, tool_calls: { list: [CALL] } }),
];

const asData = (body: Body): Body => ({ map: [['data', body]] });

/** By what is in a failure. */
export const TARGETS: Readonly<Record<string, Target>> = Object.fromEntries([
  ...(['plain full', 'ruled full', 'ruled none', 'ruled masked'] as const).flatMap(publicTargets),
  ...adminTargets(),
]);

function publicTargets(who: string): [string, Target][] {
  const [service, caller] = who.split(' ') as ['plain' | 'ruled', string];
  const target = (path: string, seeds: readonly Body[], prefer?: string): [string, Target] => {
    const headers: Record<string, string> = prefer === undefined ? {} : { prefer };
    const all = { service, caller, method: 'POST', path: `/api/v1/${path}`, seeds, headers };
    return [[who, path, ...Object.values(headers)].join(' '), all];
  };
  const ofReaders = [
    target('detokenize', [NAME, VALUES]),
    target('detokenize', [NAME, VALUES], 'handling=lenient'),
    target('text/detokenize', [TEXT]),
  ];
  if (caller !== 'full') return ofReaders;
  return [
    ...ofReaders,
    target('tokenize', [NAME, VALUES]),
    target('lookup', [NAME, VALUES]),
    target('text/tokenize', [SPANS, FOUND]),
    ...(service === 'ruled' ? [guardrailTarget('request'), guardrailTarget('response')] : []),
  ];
}

function guardrailTarget(type: 'request' | 'response'): [string, Target] {
  const name = `ruled full guardrail ${type}`;
  const head: [string, Body][] = [
    ['input_type', type],
    ['litellm_call_id', 'call'],
  ];
  return [
    name,
    {
      ...{ service: 'ruled', caller: 'full', method: 'POST', headers: {}, seeds: GUARDED },
      path: '/beta/litellm_basic_guardrail_api',
      bodyWith: (body) => ({
        map: [...head, ...(isMap(body) ? body.map : [['texts', body] as const])],
      }),
    },
  ];
}

function isMap(body: Body): body is { readonly map: readonly (readonly [string, Body])[] } {
  return typeof body === 'object' && 'map' in body;
}

function adminTargets(): [string, Target][] {
  const target = (method: string, path: string, ...seeds: Body[]): [string, Target] => [
    `${method} ${path}`,
    {
      ...{ service: 'ruled', caller: 'admin', method, seeds, headers: {} },
      bodyWith: (body) => body,
      path: `/admin/v1${path}`,
    },
  ];
  const documents = DOCUMENTS.map((document): Body => ({ map: [['document', document]] }));
  return [
    target('POST', '/policy/check', ...documents),
    target('PUT', '/policy', ...documents),
    target('PUT', '/clients/made', { map: [['token_mode', 'random']] }),
    target('POST', '/clients/full/api-keys', { map: [['expires_at', '2050-01-31T12:00:00Z']] }),
    target('POST', '/lookup', { map: [['values', { list: ['Ann Lee'] }]] }),
    target(
      'POST',
      '/forget',
      mapOf({ values: { list: ['nobody'] }, tokens: { list: ['{token}x'] } }),
    ),
  ];
}

export interface Case {
  readonly target: string;
  readonly body: Body;
  /** Besides those of the target. */
  readonly headers?: Readonly<Record<string, Words>>;
  readonly mostOthersMs?: number | undefined;
}

export interface Priced extends Case {
  readonly status: number;
  readonly price: Price;
  readonly bodyBytes: number;
  /** Of the bounds: more than 1 is too much. */
  readonly share: number;
}

/** Characters that Node does not send in a header, and the most that it takes. */
const NO_HEADER = /[^\t\x20-\x7e\x80-\xff]/g;
const MAX_HEADER = 15_000;

/** What a request costs the process that answers it. */
interface Price {
  /** The longest processor time of the main thread between two turns of its event loop. */
  readonly longestMs: number;
  /** Processor time of the main thread in turns that did something. */
  readonly busyMs: number;
  /** Processor time of all other threads. */
  readonly othersMs: number;
  /** The most resident memory, beyond that of the resting process. */
  readonly bytes: number;
}

/** More would only make a search that has found something slower. */
const TIMEOUT_MS = 30_000;

/** Settings of a service that is measured. Young memory is small, so that garbage shows less. */
function probeSettings({ folder }: Place): Record<string, string> {
  const preload = join(ROOT, 'test/support/probe.mjs');
  return {
    PROBE: join(folder, 'probe'),
    NODE_OPTIONS: `--expose-gc --max-semi-space-size=1 --import=${preload}`,
  };
}

/** Measures requests to a service, one at a time. */
class Probe {
  readonly #path: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  #socket: Socket | undefined;

  constructor({ place }: Pick<Service, 'place'>) {
    this.#path = join(place.folder, 'probe');
  }

  /** Resolves to the status and the price. Rejects when no answer comes. */
  async price(url: string, options: RequestOptions, body: string) {
    let status = 0;
    const price = await this.during(async () => {
      status = await this.#send(url, options, body);
    });
    return { status, ...price };
  }

  /** What a piece of work costs. */
  async during(work: () => Promise<void>): Promise<Price> {
    await this.#command('begin');
    await work();
    return this.#command('end');
  }

  /** Processor time of a fixed piece of work. */
  async calibrationMs(): Promise<number> {
    return (await this.#command('calibrate')).ms;
  }

  close(): void {
    this.#socket?.destroy();
    this.#agent.destroy();
  }

  async #command(name: string): Promise<any> {
    this.#socket ??= connect(this.#path);
    const socket = this.#socket;
    const isOver = new AbortController();
    const end = () => isOver.abort();
    socket.once('close', end);
    try {
      socket.write(name);
      return JSON.parse(String(await once(socket, 'data', { signal: isOver.signal })));
    } finally {
      socket.off('close', end);
    }
  }

  #send(url: string, options: RequestOptions, body: string): Promise<number> {
    return new Promise((resolve, reject) => {
      const sent = request(url, { ...options, agent: this.#agent });
      sent.setTimeout(TIMEOUT_MS, () => sent.destroy(new Error('no answer')));
      sent.on('error', reject);
      sent.on('response', (response) => {
        response.on('error', reject);
        response.on('close', () => resolve(response.statusCode!));
        response.resume();
      });
      sent.end(body);
    });
  }
}

/** A service whose requests are measured. */
export class Measured {
  readonly #place: Place;
  readonly #env: Record<string, string>;
  readonly #apiKeys: Readonly<Record<string, string>>;
  #scale = 1;
  #named: Record<string, string> = {};
  #service!: Service & { readonly opsUrl: string };
  #probe!: Probe;

  private constructor(place: Place, apiKeys: Record<string, string>) {
    this.#place = place;
    this.#apiKeys = apiKeys;
    this.#env = {
      ...NO_LIMITS,
      LOOKUP_LIMIT: '0',
      GUARDRAIL: 'true',
      LOG_LEVEL: 'info',
      ...probeSettings(place),
    };
  }

  static async open(service: Target['service']): Promise<Measured> {
    const place = await adminPlace();
    const apiKeys: Record<string, string> = {};
    for (const name of ['full', 'none', 'masked']) {
      const can = ['--can', 'tokenize,detokenize,lookup'];
      apiKeys[name] = (await runJson(place, 'client', 'create', '--name', name, ...can)).api_key;
    }
    if (service === 'ruled') {
      const file = join(place.folder, 'policy.yaml');
      writeFileSync(file, POLICY);
      await runJson(place, 'policy', 'apply', file, '--yes');
    }
    const measured = new Measured(place, apiKeys);
    await measured.#start();
    return measured;
  }

  async close(): Promise<void> {
    this.#probe.close();
    await this.#service.stop();
    this.#place.remove();
  }

  /** undefined: no listener takes a body of this size. */
  async priced(one: Case): Promise<Priced | undefined> {
    const { target, body } = one;
    const { caller, path, method, headers, bodyWith = asData } = TARGETS[target]!;
    const isAdmin = caller === 'admin';
    const text = written(bodyWith(body), this.#named);
    if (text === undefined) return undefined;
    const bodyBytes = Buffer.byteLength(text);
    const authorization = `Bearer ${isAdmin ? ADMIN_TOKEN : this.#apiKeys[caller]}`;
    const url = (isAdmin ? this.#service.opsUrl : this.#service.url) + path;
    const length = { 'content-length': String(bodyBytes) };
    const json = { authorization, 'content-type': 'application/json', ...length };
    const sent: Record<string, string> = { ...json, ...headers };
    for (const [name, words] of Object.entries(one.headers ?? {}))
      sent[name] = textOf(words, this.#named).replaceAll(NO_HEADER, '?').slice(0, MAX_HEADER);
    try {
      const price = await this.#probe.price(url, { method, headers: sent }, text);
      const mostBytes =
        SLACK_BYTES + (path.includes('policy') ? THREAD_BYTES : 0) + MOST_BYTES_A_BYTE * bodyBytes;
      const shares = [
        price.longestMs / (MOST_MS * this.#scale),
        price.othersMs / ((one.mostOthersMs ?? MOST_OTHERS_MS) * this.#scale),
        price.bytes / mostBytes,
      ];
      // An answer that nobody meant.
      if (price.status === 500) shares.push(Number.POSITIVE_INFINITY);
      const share = Math.max(...shares);
      return { ...one, status: price.status, price, bodyBytes, share };
    } catch {
      // It is gone, or will not end soon.
      this.#service.kill();
      await this.#service.exit;
      await this.#start();
      const all = Number.POSITIVE_INFINITY;
      const price = { longestMs: all, busyMs: all, othersMs: all, bytes: all };
      return { ...one, status: 0, price, bodyBytes, share: all };
    }
  }

  /** The price of a document from its application until the node follows it, as a share. */
  async shareOfPolicy(document: Body): Promise<number> {
    const sent = { document: JSON.parse(written(document, {})!), confirmed: ['*'] };
    const { longestMs } = await this.#probe.during(async () => {
      const { status, body } = await admin(this.#service.opsUrl, 'PUT', '/policy', sent);
      expect(status, JSON.stringify(body)).toBe(200);
      await inForce({ url: this.#service.url, api_key: this.#apiKeys.full! }, body.version);
    });
    return longestMs / (MOST_MS * this.#scale);
  }

  async #start(): Promise<void> {
    this.#service = await startWithOps(this.#place, this.#env);
    this.#probe = new Probe(this.#service);
    const values = ['Ann Lee', 'x'.repeat(60_000), '\0'.repeat(65_536)];
    const records = { name: 'Ann Lee', card: '4111 1111 1111 1111' };
    const key = this.#apiKeys.full!;
    const { body } = await call(this.#service, 'tokenize', { values, ...records }, key);
    const { name: person, card } = body.data;
    const [token, long, nul] = body.data.values;
    this.#named = { token, long, nul, person, card };
    const times: number[] = [];
    for (let i = 0; i < 5; i++) times.push(await this.#probe.calibrationMs());
    this.#scale = Math.max(1, Math.min(...times) / CALIBRATION_MS);
  }
}
