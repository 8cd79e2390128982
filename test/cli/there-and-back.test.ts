import { generateIdentity, identityToRecipient } from 'age-encryption';
import { beforeAll, describe, expect, test } from 'vitest';
import { placeFor, withVault } from '../support/command.ts';
import { pairsIn } from '../support/pairs.ts';
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
const CARDS = ['4111111111111111', '5500005555555559'];
const MAILS = ['ann@example.com', 'bob@example.org'];

describe.each(usualKinds())('export from the %s database', (kind) => {
  const at = placeFor('block', () => newPlace(kind), withVault);
  const policy = `
version: 1
kinds:
  card: { shape: digits, keep_last: 4, suffix: false }
  mail: { shape: email, keep: domain, normalize: [trim, lower_case] }
fields: { "cards[*]": card, "mails[*]": mail, "texts[*]": text }
elsewhere: pass
`;
  let identity: string;
  let tokens: Record<'cards' | 'mails' | 'texts' | 'tenant' | 'random', string[]>;

  beforeAll(async () => {
    identity = await generateIdentity();
    const expiresAt = new Date(Date.now() + 86_400_000).toISOString();
    const foreign = [
      { token: 'old-1', value: 'carla@example.com' },
      { token: 'old-2', value: 'carla@example.com' },
      { token: 'old-3', value: 'dora', expires_at: expiresAt },
    ];
    at.write('foreign.ndjson', foreign.map((pair) => `${JSON.stringify(pair)}\n`).join(''));
    await at.result(['import', 'foreign.ndjson', '--space', '']);
    // The kind draws other tokens from the next version on: those from before need the version before.
    at.write('policy.yaml', policy);
    at.write('next.yaml', policy.replace('keep_last: 4', 'keep_last: 2'));
    await at.result('policy apply policy.yaml --yes');
    tokens = await served(at.place, async (service) => {
      const ask = async (data: object, ...options: string[]) => {
        const client = await createClient(at.place, ...options);
        return (await call(service, 'tokenize', data, client.api_key)).body.data;
      };
      const { mails: tenant } = await ask({ mails: MAILS }, '--space', 'tenant');
      const { texts: random } = await ask({ texts: ['x'] }, '--token-mode', 'random');
      return { ...(await ask({ cards: CARDS, mails: MAILS, texts: ['x'] })), tenant, random };
    });
    await at.result('policy apply next.yaml --yes');
  });

  test('C35: every value is there with its token: drawn, imported, of kinds, spaces and older policies', async () => {
    const recipient = await identityToRecipient(identity);
    const made = await at.result(`export -o pairs --recipient ${recipient}`);
    expect(made).toEqual({ is_complete: true, files: 1, pairs: 11, without_token: 0, bad: 0 });
    const pairs = await pairsIn(at.path('pairs'), identity);
    const has = (token: string, value: string, ofKind = 'text', space = '', use = 'both') =>
      expect(pairs).toContainEqual(
        expect.objectContaining({ token, value, kind: ofKind, space, use }),
      );
    for (const [i, value] of CARDS.entries()) has(tokens.cards[i]!, value, 'card');
    for (const [i, value] of MAILS.entries()) has(tokens.mails[i]!, value, 'mail');
    for (const [i, value] of MAILS.entries()) has(tokens.tenant[i]!, value, 'mail', 'tenant');
    has(tokens.texts[0]!, 'x');
    has('old-1', 'carla@example.com');
    has('old-2', 'carla@example.com', 'text', '', 'detokenize');
    has('old-3', 'dora');
    has(tokens.random[0]!, 'x', 'text', '', 'detokenize');
    const ending = pairs.filter((pair) => pair.expires_at !== null);
    expect(ending.map(({ token }) => token)).toEqual(['old-3']);
  });
});

const VALUES_A_KIND = 500;
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
