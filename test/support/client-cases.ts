import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { Front, type Trouble } from './balancer.ts';
import { freePort } from './processes.ts';
import { ROOT } from './program.ts';
import { expectNoSecretIn, noteSecrets } from './secrecy.ts';
import {
  call,
  createClient,
  makeVault,
  type Place,
  runCli,
  type Service,
  startService,
  usualPlace,
} from './service.ts';
import { tokenPattern } from './token-rules.ts';

/**
 * What a case expects. Without `data`, a round trip gives the data of the case. Without `tokens`,
 * each string of the data has a token in its shape. `error` has facts of the error, and `says`, a
 * part of its message. `largest_body_bytes`, `requests` and the like are of the requests, of which
 * the second comes at least `first_pause_ms` after the first.
 */
type Expected = Readonly<Record<string, any>>;

/**
 * A case of cases.json: a call, with options and data, of a client of a service. `troubles`: the
 * responses of a proxy to the first requests. `only_full`: what generated clients lack for it.
 */
interface ClientCase {
  readonly name: string;
  readonly call: string;
  readonly troubles?: readonly Trouble[];
  readonly expect?: Expected;
  readonly expect_generated?: Expected;
  readonly [fact: string]: any;
}

const FILE = JSON.parse(readFileSync(join(ROOT, 'test/clients/cases.json'), 'utf8'));
export const ALL_CASES: readonly ClientCase[] = FILE.cases;
/** The cases of a client that neither splits nor retries. */
export const GENERATED_CASES = ALL_CASES.filter((one) => one.only_full === undefined);

/**
 * What a runner of a language prints for a case: data, tokens, unapplied or error. `text` of the
 * error: all that it shows; `body`: of a generated client, the answer.
 */
type Outcome = { readonly name: string; readonly [fact: string]: any };

/** A case as a runner gets it. */
export interface CaseTask {
  readonly name: string;
  readonly call: string;
  readonly url: string;
  readonly api_key: string;
  readonly options: any;
  readonly data: any;
}

/** The services of the cases, and what stands for values, tokens and clients in them. */
export class CaseServices {
  readonly #services = new Map<string, Service>();
  /** API keys by service and client. */
  readonly #keys = new Map([['usual stranger', 'stk_00000000000000000000000000003W8MOK']]);
  readonly #tokens = new Map<string, string>();
  readonly #places: Place[] = [];

  static async start(folder: string): Promise<CaseServices> {
    const services = new CaseServices();
    await services.#start(folder);
    return services;
  }

  async stop(): Promise<void> {
    for (const service of this.#services.values()) await service.stop();
    for (const place of this.#places) place.remove();
  }

  /** For a program that uses a service. */
  environment(service = 'usual'): Record<string, string> {
    const { url } = this.#services.get(service)!;
    return { STANDIN_URL: url, STANDIN_API_KEY: this.#keys.get(`${service} usual`)! };
  }

  /** A run of cases by one client. A rate limit can be spent only once, so clients are new. */
  async prepare(cases: readonly ClientCase[]): Promise<CaseRun> {
    const fronts = new Map<string, Front>();
    const tasks: CaseTask[] = [];
    for (const one of cases) {
      const { name, call: callName, service = 'usual', client = 'usual', options = {} } = one;
      const front = await Front.start(this.#services.get(service)?.url ?? 'http://127.0.0.1:1');
      front.troubles.push(...(one.troubles ?? []));
      fronts.set(name, front);
      const url = service === 'nowhere' ? `http://127.0.0.1:${await freePort()}` : front.url;
      const key = this.#keys.get(`${service} ${client}`) ?? this.#keys.get('usual usual')!;
      const data = this.expand(one.data ?? {});
      tasks.push({ name, call: callName, url, api_key: key, options, data });
    }
    return new CaseRun(this, tasks, fronts);
  }

  /** Puts data in place of `{"$values": 10001}` and the like. */
  expand(json: unknown): any {
    if (Array.isArray(json)) return json.map((one) => this.expand(one));
    if (typeof json !== 'object' || json === null) return json;
    const [first, ...more] = Object.entries(json);
    const make = MAKERS[first?.[0] ?? ''];
    if (make !== undefined && more.length === 0) return make(first![1] as never, this.#tokens);
    return Object.fromEntries(
      Object.entries(json).map(([name, one]) => [name, this.expand(one)] as const),
    );
  }

  async #start(folder: string): Promise<void> {
    for (const [name, env] of Object.entries<Record<string, string>>(FILE.services)) {
      const place = await usualPlace();
      this.#places.push(place);
      await makeVault(place);
      if (FILE.policies[name] !== undefined) {
        const file = join(folder, `${name}.json`);
        writeFileSync(file, JSON.stringify(FILE.policies[name]));
        await succeed(place, 'policy', 'apply', file, '--yes');
      }
      for (const [client, options] of Object.entries<string[]>(FILE.clients[name]))
        this.#keys.set(`${name} ${client}`, (await createClient(place, ...options)).api_key);
      this.#services.set(name, await startService(place, env));
    }
    const answered = async (service: string, client: string, data: object) => {
      const key = this.#keys.get(`${service} ${client}`);
      return (await call(this.#services.get(service)!, 'tokenize', data, key)).body.data;
    };
    await answered('usual', 'spent', {});
    const { cards } = await answered('policy', 'usual', {
      cards: [{ number: '4111 1111 1111 1111' }],
    });
    this.#tokens.set('a card', cards[0].number);
    for (const value of ['Ann Lee', 'Forgotten Person'])
      this.#tokens.set(value, (await answered('usual', 'usual', { value })).value);
    const forgotten = this.#tokens.get('Forgotten Person')!;
    await succeed(this.#services.get('usual')!.place, 'forget', forgotten, '--yes');
  }
}

async function succeed(place: Place, ...command: string[]): Promise<void> {
  const { code, stderr } = await runCli(command, place);
  expect(code, stderr).toBe(0);
}

const MAKERS: Record<string, (given: never, tokens: Map<string, string>) => unknown> = {
  $values: (count: number) => Array.from({ length: count }, (_, i) => `Value no ${i}`),
  $strangers: (count: number) => Array.from({ length: count }, (_, i) => `Stranger no ${i}`),
  $nulls: (count: number) => Array.from({ length: count }, () => null),
  $records: (count: number) =>
    Array.from({ length: count }, (_, i) => ({ name: `Record no ${i}`, city: 'Bern' })),
  $long: (length: number) => 'a'.repeat(length),
  $value: (value: string) => value,
  $token: (value: string, tokens) => tokens.get(value),
  $forgotten: (value: string, tokens) => tokens.get(value),
  $like: (pattern: string) => expect.stringMatching(new RegExp(pattern)),
};

/** One client's way through the cases. */
export class CaseRun {
  readonly tasks: readonly CaseTask[];
  readonly #services: CaseServices;
  readonly #fronts: ReadonlyMap<string, Front>;
  readonly #outcomes = new Map<string, Outcome>();

  constructor(
    services: CaseServices,
    tasks: readonly CaseTask[],
    fronts: ReadonlyMap<string, Front>,
  ) {
    this.#services = services;
    this.tasks = tasks;
    this.#fronts = fronts;
  }

  stop(): void {
    for (const front of this.#fronts.values()) front.stop();
  }

  note(outcomes: Iterable<Outcome>): void {
    for (const outcome of outcomes) this.#outcomes.set(outcome.name, outcome);
  }

  /** Notes what a runner printed: a line of JSON for each case. */
  noteLines(output: string): void {
    this.note(output.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)])));
  }

  /** Fails unless the outcome of a case is as expected. */
  judge(one: ClientCase, isGenerated = false): void {
    const outcome = this.#outcomes.get(one.name);
    const task = this.tasks.find(({ name }) => name === one.name)!;
    const expected = (isGenerated ? one.expect_generated : undefined) ?? one.expect ?? {};
    const text = JSON.stringify(outcome);
    if (outcome === undefined) throw new Error(`no outcome of: ${one.name}`);
    if (expected.error !== undefined) {
      const error = outcome.error ?? {};
      expect(factsOf(error, isGenerated), text).toMatchObject(
        withoutCounts(expected.error, isGenerated),
      );
      expectNoSecretIn(String(error.text ?? ''), task.data);
      expect(error.text ?? '').not.toContain(task.api_key);
      const message = isGenerated && error.body !== undefined ? error.body : error.text;
      expect(message ?? '', text).toContain(expected.error.says ?? '');
      expect(error.attempts ?? 1, text).toBeGreaterThan(expected.error.more_attempts_than ?? -1);
    } else {
      expect(outcome.error, text).toBeUndefined();
      this.#judgeData(one, task, outcome, expected);
    }
    if (!(isGenerated && one.expect_generated === undefined))
      this.#judgeRequests(one.name, expected);
  }

  #judgeData(one: ClientCase, task: CaseTask, outcome: Outcome, expected: Expected): void {
    noteSecrets([task.data, outcome.tokens ?? null]);
    if (expected.data !== undefined)
      expect(outcome.data).toMatchObject(this.#services.expand(expected.data));
    else if (one.call === 'round_trip') expect(outcome.data).toEqual(task.data);
    if (expected.unapplied !== undefined) expect(outcome.unapplied).toEqual(expected.unapplied);
    if (one.call !== 'round_trip' && one.call !== 'tokenize') return;
    const tokens =
      expected.tokens === undefined ? undefined : this.#services.expand(expected.tokens);
    expect(outcome.tokens).toEqual(tokens ?? likeTokens(task.data));
  }

  #judgeRequests(name: string, expected: Expected): void {
    const front = this.#fronts.get(name)!;
    const { requests, more_requests_than: moreThan, first_pause_ms: pauseMs } = expected;
    if (requests !== undefined) expect(front.bodies.length, 'requests').toBe(requests);
    if (moreThan !== undefined) expect(front.bodies.length).toBeGreaterThan(moreThan);
    expect(front.bodies.length).toBeLessThan(expected.fewer_requests_than ?? Infinity);
    for (const body of front.bodies)
      expect(Buffer.byteLength(body)).toBeLessThanOrEqual(expected.largest_body_bytes ?? 1_048_576);
    // Timers may be a little early.
    if (pauseMs !== undefined)
      expect(front.timesMs[1]! - front.timesMs[0]!).toBeGreaterThan(pauseMs - 10);
  }
}

function likeTokens(data: unknown): unknown {
  if (typeof data === 'string') return expect.stringMatching(tokenPattern(data));
  if (Array.isArray(data)) return data.map(likeTokens);
  const fields = Object.entries(data as object);
  return Object.fromEntries(fields.map(([name, one]) => [name, likeTokens(one)]));
}

/** The facts of an error. Those of a generated client are in the body of the answer. */
function factsOf(error: Record<string, any>, isGenerated: boolean): Record<string, unknown> {
  if (!isGenerated || error.body === undefined) return error;
  const { error: code, message = '' } = JSON.parse(error.body);
  const [, path, reason] = /^(data.*?): (.*)$/s.exec(message) ?? [];
  return { code, path, reason, status: error.status };
}

function withoutCounts(expected: any, isGenerated: boolean): object {
  const { more_attempts_than: _, says: __, ...facts } = expected;
  if (!isGenerated || facts.class === 'network') return facts;
  const { class: _class, attempts: _attempts, kind: _kind, ...answer } = facts;
  return answer;
}
