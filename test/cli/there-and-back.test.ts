import { describe, expect, test } from 'vitest';
import { placeFor, withVault } from '../support/command.ts';
import { pairsFile, pairsIn } from '../support/pairs.ts';
import {
  call,
  createClient,
  newPlace,
  type Place,
  type Service,
  startService,
  usualKinds,
} from '../support/service.ts';
import { detokenizeAll, tokenizeAll } from '../support/vault.ts';

/** Works with a service on a place. */
async function served<T>(place: Place, work: (service: Service) => Promise<T>): Promise<T> {
  const service = await startService(place);
  try {
    return await work(service);
  } finally {
    await service.stop();
  }
}

type Ask = 'tokenize' | 'detokenize';

describe.each(usualKinds())('an export, on %s', (kind) => {
  const at = placeFor('block', () => newPlace(kind), withVault);

  // test/postgres/export.test.ts has the tokens that policies drew.
  test('C35: has the kind, space, use and expiry of each pair, and no alias', async () => {
    const expiresAt = '2099-01-02T03:04:05.000Z';
    const foreign = [
      { token: 'old-1', value: 'carla@example.com' },
      { token: 'old-2', value: 'carla@example.com' },
      { token: 'old-3', value: 'dora', expires_at: expiresAt },
      { token: 'old-4', value: 'emma', kind: 'card', space: 'tenant' },
    ];
    at.write('policy.yaml', 'version: 1\nkinds: { card: { shape: text } }\n');
    await at.result('policy apply policy.yaml --yes');
    expect(await at.result(`import ${pairsFile(at.place, foreign)}`)).toMatchObject({
      imported: 4,
    });
    const made = await at.result('export -o pairs --plain');
    expect(made).toEqual({ is_complete: true, files: 1, pairs: 4, without_token: 0, bad: 0 });
    const pairs = (await pairsIn(at.path('pairs'))).toSorted((a, b) =>
      a.token! < b.token! ? -1 : 1,
    );
    const plain = { kind: 'text', space: '', expires_at: null, use: 'both' };
    expect(pairs).toEqual([
      { ...plain, ...foreign[0] },
      { ...plain, ...foreign[1], use: 'detokenize' },
      { ...plain, ...foreign[2], expires_at: expect.stringMatching(/^2\d{3}-.*Z$/) },
      { ...plain, ...foreign[3] },
    ]);
  });
});

const VALUES_A_KIND = 200;
const KINDS: Readonly<Record<string, string>> = {
  number: '{ shape: digits }',
  card: '{ shape: digits, keep_last: 4, check_digits: luhn, suffix: false }',
  mail: '{ shape: email, keep: domain, normalize: [trim, lower_case] }',
  day: '{ shape: date, keep: year }',
  code: '{ shape: word, length: 6 }',
  id: '{ shape: uuid, suffix: false }',
  note: '{ shape: text, tokens: random }',
};
const NAMES = [...Object.keys(KINDS), 'text'];
const POLICY = `version: 1
kinds:
${Object.entries(KINDS)
  .map(([name, kind]) => `  ${name}: ${kind}\n`)
  .join('')}
fields: { ${NAMES.map((name) => `"${name}[*]": ${name}`).join(', ')} }
elsewhere: refuse
`;
/** Draws other tokens for some kinds, accepts less, and spells more. */
const NEXT_POLICY = POLICY.replace('keep_last: 4', 'keep_last: 2')
  .replace('shape: word, length: 6', 'shape: email')
  .replace('keep: year', 'keep: nothing')
  .replace('note: { shape: text, tokens: random', 'note: { shape: text, normalize: [lower_case]');

/** A value of a kind, another for each number. */
function exampleOf(kind: string, i: number): string {
  const digits = String((i * 7_919) % 999_983).padStart(6, '0');
  const examples: Record<string, string> = {
    number: digits,
    card: `4${digits.padStart(15, '1')}`,
    mail: `person.${i}@example${i % 97}.com`,
    day: new Date(Date.UTC(1900, 0, i + 1)).toISOString().slice(0, 10),
    text: ['', 'Ann\tLee ', ' é€😀 ', 'a @ b.c ', '-- ', '0'][i % 6]! + i,
  };
  return examples[kind] ?? `Any ${kind} ${i}`;
}

describe.each(usualKinds())('an export goes whole into an empty vault, on %s', (kind) => {
  const at = placeFor('test', () => newPlace(kind), withVault);
  const other = placeFor('test', () => newPlace(kind), withVault);

  /** Exports all pairs and imports them into the other vault, after a dry run that must agree. */
  async function move(pairs: number): Promise<void> {
    const folder = at.path('pairs');
    const made = await at.result(`export -o ${folder} --plain --part-size 1000`);
    expect(made).toMatchObject({ pairs, without_token: 0, bad: 0 });
    const counts = { rows: pairs, imported: pairs, already_known: 0, rejected: 0 };
    for (const options of ['a.csv --dry-run', 'b.csv']) {
      const taken = await other.result(`import ${folder} --rejects ${options}`);
      expect(taken).toMatchObject({ ...counts, detokenize_only: 0 });
    }
  }

  test('F43: all four-digit numbers', async () => {
    const values = Array.from({ length: 10_000 }, (_, i) => String(i).padStart(4, '0'));
    const tokens = await served(at.place, (service) => tokenizeAll(service, values));
    await move(values.length);
    await served(other.place, async (there) => {
      expect(await detokenizeAll(there, tokens)).toEqual(values);
      expect(await tokenizeAll(there, values)).toEqual(tokens);
    });
  });

  test('F43: values of every kind and two spaces, also when the kinds have changed', async () => {
    const all = NAMES.map((name) =>
      Array.from({ length: VALUES_A_KIND }, (_, i) => exampleOf(name, i)),
    );
    at.write('policy.yaml', POLICY);
    await at.result('policy apply policy.yaml --yes');
    const tokens = await served(at.place, async (service) => {
      const tenant = (await createClient(at.place, '--space', 'Tenant-1')).api_key;
      const asked = [service.api_key, tenant].map((key) =>
        NAMES.map((name, n) => ofKind(service, 'tokenize', name, all[n]!, key)),
      );
      return Promise.all(asked.map((of) => Promise.all(of)));
    });
    for (const one of [at, other]) {
      one.write('next.yaml', NEXT_POLICY);
      await one.result('policy apply next.yaml --yes');
    }
    await move(2 * NAMES.length * VALUES_A_KIND);
    // Back to the kinds that drew the tokens: what the next ones can give, tokenize gives.
    await served(other.place, async (there) => {
      const tenant = (await createClient(other.place, '--space', 'Tenant-1')).api_key;
      for (const [k, key] of [there.api_key, tenant].entries())
        for (const [n, name] of NAMES.entries()) {
          const own = tokens[k]![n]!;
          expect(await ofKind(there, 'detokenize', name, own, key), name).toEqual(all[n]);
          if (['note', 'code'].includes(name)) continue;
          expect(await ofKind(there, 'tokenize', name, all[n]!, key), name).toEqual(own);
        }
    });
    expect(await other.result('verify')).toMatchObject({ bad: 0 });
  });

  async function ofKind(
    service: Service,
    operation: Ask,
    name: string,
    values: readonly string[],
    apiKey: string,
  ): Promise<string[]> {
    const { status, body } = await call(service, operation, { [name]: values }, apiKey);
    expect(status, `${name}: ${body.message}`).toBe(200);
    return body.data[name];
  }
});
