import { hostname, userInfo } from 'node:os';
import { gzipSync } from 'node:zlib';
import { describe, expect, test, vi } from 'vitest';
import { POLICY_LEASE_MS } from '../../src/timeouts.ts';
import { openIn, readAudit } from '../support/audit.ts';
import { commandsOf, placeFor, withVault } from '../support/command.ts';
import { pairsFile, pairsIn } from '../support/pairs.ts';
import { servedVault } from '../support/served.ts';
import {
  call as callService,
  createClient,
  type Kind,
  kinds,
  usualKinds,
} from '../support/service.ts';
import { sql } from '../support/vault.ts';

interface Pair {
  readonly token: string;
  readonly value: string;
}

/** As Vault's transform and transit engines, Skyflow, and Standin itself make them. */
const FOREIGN: Pair[] = [
  { token: '4929-0000-1111-2222', value: '4111-1111-1111-1111' },
  { token: 'vault:v1:8SDd3WHDOjf7mq69CyCqYjBXAiQQAVZRkFM13ok481zoCmHnSeDX9vyf7w==', value: 'a' },
  { token: '2c8b1a3e-0d5f-4f0e-9d5b-0c1d2e3f4a5b', value: 'ann@example.com' },
  { token: 'qkw@zhtrlpa.mfc_tok', value: 'bob@example.com' },
  { token: '"a, b" \'c\' <d>', value: 'a "quoted", value\nof two lines' },
  { token: 'x', value: 'é€😀' },
  { token: 'blank', value: '' },
];
const HOUR_MS = 3_600_000;
const inHours = (hours: number) => new Date(Date.now() + hours * HOUR_MS).toISOString();

let files = 0;
const nameOf = (ending: string) => `pairs-${++files}.${ending}`;

/** A vault with a service, and what tests ask them. */
function imports(kind: Kind) {
  const vault = servedVault(kind);
  const at = commandsOf(() => vault.place);
  /** Asks for one string, or several. */
  const call = async (
    operation: 'tokenize' | 'detokenize',
    data: string | readonly string[],
    apiKey = vault.service.api_key,
  ) => {
    const { status, body } = await callService(vault.service, operation, { data }, apiKey);
    return status === 200 ? body.data.data : status;
  };
  const expectPairs = async (pairs: readonly Pair[], apiKey?: string) => {
    const [tokens, values] = [pairs.map(({ token }) => token), pairs.map(({ value }) => value)];
    expect(await call('tokenize', values, apiKey)).toEqual(tokens);
    expect(await call('detokenize', tokens, apiKey)).toEqual(values);
  };
  const importPairs = (pairs: readonly object[], options = '') =>
    at.result(`import ${pairsFile(at.place, pairs)}${options}`);
  return { vault, at, call, expectPairs, importPairs };
}

describe.each(kinds())('import into the %s database', (kind) => {
  const { at, call, expectPairs, importPairs } = imports(kind);

  test('A49: tokens of other vaults go on working, both ways, and a second run changes nothing', async () => {
    const counts = { is_complete: true, rows: 7, rejected: 0, detokenize_only: 0 };
    const first = { ...counts, imported: 7, already_known: 0 };
    expect(await importPairs(FOREIGN)).toMatchObject(first);
    await expectPairs(FOREIGN);
    const second = { ...counts, imported: 0, already_known: 7 };
    expect(await importPairs(FOREIGN)).toMatchObject(second);
    await expectPairs(FOREIGN);
    expect(await at.result('verify')).toMatchObject({
      bad: 0,
      aliases: 7,
    });
  });

  test('a value that has a token of this vault keeps it; the old one is detokenized', async () => {
    const value = 'carla@example.com';
    const own = await call('tokenize', value);
    const file = pairsFile(at.place, [{ token: 'carla-1', value }]);
    expect(await at.ok(`import ${file}`)).toMatch(
      /^1 pair imported, 0 known before, 0 rejected; 1 for detokenize only, .* another token; [\d.]+ s\.\n$/,
    );
    await expectPairs([{ token: own, value }]);
    expect(await call('detokenize', 'carla-1')).toBe(value);
  });

  test('of two tokens of a value, the first in the file is the one that tokenize gives', async () => {
    const value = 'dora@example.com';
    const pairs = ['dora-1', 'dora-2', 'dora-1'].map((token) => ({ token, value }));
    const counts = { imported: 2, already_known: 1, detokenize_only: 1 };
    expect(await importPairs(pairs, ' --dry-run')).toMatchObject(counts);
    expect(await importPairs(pairs)).toMatchObject({ detokenize_only: 1, rejected: 0 });
    await expectPairs([{ token: 'dora-1', value }]);
    expect(await call('detokenize', 'dora-2')).toBe(value);
    const twice = ['dora-3', 'dora-3'].map((token) => ({ token, value, use: 'detokenize' }));
    const found = { imported: 1, already_known: 1, rejected: 0 };
    for (const options of [' --dry-run', ''])
      expect(await importPairs(twice, options)).toMatchObject(found);
  });
});

describe.each(usualKinds())('import, on %s', (kind) => {
  const { vault, at, call, expectPairs, importPairs } = imports(kind);
  const verified = () => at.result('verify');

  /** The reasons in the rejects file, by line. */
  async function rejected(pairs: readonly object[], options = '') {
    const rejects = nameOf('csv');
    const command = `import ${pairsFile(at.place, pairs)} --rejects ${rejects} --json${options}`;
    const { code, stdout } = await at.run(command);
    expect(code).toBe(3);
    return { counts: JSON.parse(stdout), lines: at.read(rejects).trim().split('\n').slice(1) };
  }

  test('A48: each conflict is rejected with its line and the remedy; the rest is imported', async () => {
    const own = await call('tokenize', 'own@example.com');
    await importPairs([
      { token: 'taken', value: 'first' },
      { token: 'gone', value: 'forgotten' },
    ]);
    await at.json('forget gone --yes');
    const value = 'value';
    const pairs = [
      { token: 'taken', value: 'second' },
      { token: 'gone', value: 'another' },
      { token: own, value: 'other@example.com' },
      { token: 'twice', value: 'one' },
      { token: 'twice', value: 'two' },
      { token: 'same', value: 'same' },
      { token: 'é', value },
      { token: ' edge', value },
      { token: 'x'.repeat(1_001), value },
      { token: null, value },
      { token: 'no-value', value: null },
      { token: 'short_tok', value: 'x'.repeat(37) },
      { token: 'short', value: 'x'.repeat(1_025) },
      { token: 'other-kind', value, kind: 'card' },
      { token: 'other-space', value, space: 'no name' },
      { token: 'late', value, expires_at: '2020-01-01T00:00:00Z' },
      { token: 'never', value, expires_at: 'soon' },
      { token: 'good', value: 'good value' },
      { token: 'l'.repeat(256), value: 'long'.repeat(16_384) },
    ];
    const found = await rejected(pairs);
    const fields = found.lines.map((line) => line.split(',').slice(0, 2).join(' '));
    expect(fields).toEqual([
      ...['1 token', '2 token', '3 token', '5 token', '6 token', '7 token', '8 token', '9 token'],
      ...['10 token', '11 value', '12 value', '13 value', '14 kind', '15 space'],
      ...['16 expires_at', '17 expires_at'],
    ]);
    for (const [i, words] of [
      'stands for another value: keep one of the two; tokenize the other here',
      'was forgotten',
      'was drawn by this vault for another value',
    ].entries())
      expect(found.lines[i]).toContain(words);
    expect(found.counts).toMatchObject({ rows: 19, rejected: 16, imported: 3 });
    expect(await call('detokenize', 'twice')).toBe('one');
    await expectPairs([{ token: 'good', value: 'good value' }, pairs.at(-1) as Pair]);

    // A dry run finds the same, names the other line, and writes nothing.
    const { seconds: _, ...before } = await verified();
    const again = [
      { token: 'dry', value: 'one' },
      { token: 'taken', value: 'third' },
      { token: 'dry', value: 'two' },
    ];
    const { counts, lines } = await rejected(again, ' --dry-run');
    expect(lines[1]).toContain('stands for another value on line 1');
    expect(counts).toMatchObject({ is_dry_run: true, rejected: 2, imported: 1 });
    expect(await verified()).toMatchObject(before);
  });

  test.each([
    ['csv', 'old?;"e-mail";sort\nn-1;a@example.com;\n', '--token-field old? --value-field e-mail'],
    ['json', '[{"t":"n-1","v":"a@example.com"}]', '--token-field $[*].t --value-field $.v'],
    ['tsv', 'a@example.com\tn-1\n', '--no-header --token-field 2 --value-field 1'],
  ])(
    'finds columns by name or number, and paths in JSON by JSONPath: %s',
    async (form, text, fields) => {
      const file = at.write(nameOf(form), text.replaceAll(/(n-1|a@)/g, `$1${form}`));
      await at.result(`import ${file} ${fields}`);
      await expectPairs([{ token: `n-1${form}`, value: `a@${form}example.com` }]);
    },
  );

  test('in a space, the token is known there only; with --random, it is never given', async () => {
    const tenant = await createClient(vault.place, '--space', 'tenant');
    const pair = { token: 'spaced', value: 'fred@example.com' };
    await importPairs([pair], ' --space tenant');
    await expectPairs([pair], tenant.api_key);
    expect(await call('detokenize', 'spaced')).toBe(400);
    const random = { token: 'random-1', value: 'gina@example.com' };
    const first = { imported: 1, detokenize_only: 0 };
    expect(await importPairs([random], ' --random')).toMatchObject(first);
    expect(await importPairs([random], ' --random')).toMatchObject({ already_known: 1 });
    expect(await call('detokenize', 'random-1')).toBe(random.value);
    expect(await call('tokenize', random.value)).toMatch(/_tok$/);
  });

  test('a row can say that tokenize must not give its token', async () => {
    const value = 'gus@example.com';
    const rows = `own_1,${value},detokenize\nown_2,${value},both\nown_3,${value},\n`;
    const file = at.write(nameOf('csv'), `token,value,use\n${rows}`);
    const counts = { imported: 3, detokenize_only: 1 };
    expect(await at.result(`import ${file} --use-field use`)).toMatchObject(counts);
    await expectPairs([{ token: 'own_2', value }]);
    expect(await call('detokenize', ['own_1', 'own_3'])).toEqual([value, value]);
    const { lines } = await rejected([{ token: 'own_4', value: 'v', use: 'tokenize' }]);
    expect(lines).toEqual(['1,use,is not both or detokenize']);
  });

  test('C37: guesses at imported tokens without suffix count, and detokenize FILE takes them', async () => {
    await importPairs([{ token: 'bare-1', value: 'ida@example.com' }]);
    const { api_key: guesser } = await createClient(vault.place, '--unknown-token-limit', '0.05');
    const statuses = [];
    for (let i = 100; i < 110; i++) statuses.push(await call('detokenize', `bare-${i}`, guesser));
    expect(statuses.slice(0, 2)).toEqual([400, 400]);
    expect(statuses).toContain(429);
    const file = at.write(nameOf('ndjson'), '{"a":"bare-1"}\n');
    const { url: STANDIN_URL, api_key: STANDIN_API_KEY } = vault.service;
    const env = { STANDIN_URL, STANDIN_API_KEY };
    const command = `detokenize ${file} --fields a -o bare.ndjson`;
    expect((await at.run(command, env)).stderr).toContain('is not a token');
    expect((await at.run(`${command} --bare`, env)).code).toBe(0);
    expect(at.read('bare.ndjson')).toBe('{"a":"ida@example.com"}\n');
  });

  test('C36: the audit log says who imported how much, and without it nothing is written', async () => {
    const good = pairsFile(at.place, [{ token: 'audited', value: 'jo@example.com' }]);
    const torn = pairsFile(at.place, [{ token: 'fine', value: 'v' }, { token: '' }]);
    const codes = [];
    at.write('audit.log', '{"event":"old"}\n');
    for (const words of [`${good} --dry-run --space tenant`, good, torn])
      codes.push((await at.run(`import ${words}`, { AUDIT_LOG: at.path('audit.log') })).code);
    expect(codes).toEqual([0, 0, 1]);
    const about = { event: 'import', user: userInfo().username, kind: 'text', space: '' };
    const counts = { imported: 1, already_known: 0, rejected: 0 };
    const dry = { ...about, space: 'tenant', is_dry_run: true, input: good };
    const real = { ...about, is_dry_run: false, input: good };
    const log = at.read('audit.log');
    expect(readAudit(at.path('audit.log')).lines).toMatchObject([
      { event: 'old' },
      { ...dry, outcome: 'started', is_resumed: false, node: hostname() },
      { ...dry, outcome: 'success', ...counts },
      { ...real, outcome: 'started' },
      { ...real, outcome: 'success', ...counts },
      { ...real, outcome: 'started', input: torn },
      { ...real, outcome: 'failed', input: torn, ...counts, rejected: 1 },
    ]);
    expect(log).not.toContain('jo@example.com');
    at.write('part.log', `${log}{"ha`);
    expect(await at.run('audit verify part.log')).toEqual({
      code: 0,
      stdout: `6 lines checked, 0 findings; 3 chains.
Without a link, before them: 1 line.
Skipped: 1 part of lines.
`,
      stderr: expect.stringMatching(/^100 % {2}7 lines, [\d,]+\/s\n$/),
    });
    at.write('spoilt.log', log + '{}\n'.repeat(1_001));
    const spoilt = await at.run('audit verify spoilt.log --json');
    expect(spoilt.stderr).toMatch(/\nspoilt\.log:9: .*\nstandin: 1,001 places where/s);
    expect([spoilt.code, JSON.parse(spoilt.stdout).findings.length]).toEqual([1, 1_000]);
    expect(openIn(at.place.folder).filter((name) => name.endsWith('.log'))).toEqual([]);

    at.write('part.log.gz', gzipSync(at.read('part.log')));
    const packed = await at.run('audit verify part.log.gz');
    expect(packed.stderr).toMatch(/^7 lines, [\d,]+\/s\n$/);
    const printed = await at.run(`import ${good}`, { AUDIT_LOG: 'stdout' });
    expect(printed.stderr).toMatch(/"outcome":"started".*"outcome":"success"/s);
    expect(await at.failure('import none.csv')).toContain('none.csv cannot be read (ENOENT)');
    const blocked = pairsFile(at.place, [{ token: 'blocked', value: 'v' }]);
    const nowhere = { AUDIT_LOG: '/proc/none/audit.log' };
    const words = 'so nothing was imported';
    expect(await at.failure(`import ${blocked}`, nowhere)).toContain(words);
    expect(await call('detokenize', 'blocked')).toBe(400);
  });

  test('a space of imported tokens can have a client, whatever its name', async () => {
    for (const space of ['Tenant-1', '-x']) {
      const value = `value of ${space}`;
      await importPairs([{ token: 'of_space_tok', value, space }]);
      const { api_key: apiKey } = await createClient(vault.place, `--space=${space}`);
      expect(await call('detokenize', 'of_space_tok', apiKey)).toBe(value);
    }
    expect(await verified()).toMatchObject({ bad: 0 });
  });
});

describe.each(usualKinds())('times of imported pairs, on %s', (kind) => {
  const { vault, at, call, importPairs } = imports(kind);

  /** Hours that the records of the vault have left; null: for ever. */
  async function hoursLeft(): Promise<(number | null)[]> {
    const text = `select extract(epoch from expires_at - now())::float / 3600 as left
      from standin.records where sealed <> '' order by expires_at`;
    const rows = await sql(vault.place, text);
    return rows.map(({ left }) => left && Math.round(10 * left) / 10);
  }

  test('F44: a later time, or none, extends a pair whatever its use is', async () => {
    at.write('random.yaml', 'version: 1\nkinds: { random: { shape: text, tokens: random } }\n');
    await at.json('policy apply random.yaml');
    const pairs = [
      { token: 'both_tok', value: 'of both', use: 'both' },
      { token: 'detokenize_tok', value: 'of detokenize', use: 'detokenize' },
      { token: 'random_tok', value: 'of random', kind: 'random' },
    ];
    const ending = (hours: number) => pairs.map((one) => ({ ...one, expires_at: inHours(hours) }));
    expect(await importPairs(ending(1))).toMatchObject({ imported: 3 });
    const extended = { imported: 3, already_known: 0, rejected: 0 };
    for (const options of [' --dry-run', ''])
      expect(await importPairs(ending(5), options)).toMatchObject(extended);
    // The alias of the first never expires.
    expect(await hoursLeft()).toEqual([5, 5, 5, null]);
    const kept = { imported: 0, already_known: 3 };
    for (const options of [' --dry-run', ''])
      expect(await importPairs(ending(2), options)).toMatchObject(kept);
    expect(await importPairs(pairs)).toMatchObject({ imported: 3 });
    expect(await hoursLeft()).toEqual([null, null, null, null]);
    const otherwise = pairsFile(at.place, [{ ...pairs[0], kind: 'random' }]);
    expect((await at.run(`import ${otherwise} --rejects kinds.csv`)).code).toBe(3);
    expect(at.read('kinds.csv')).toContain('stands for this value with another kind');
    for (const { token, value } of pairs) expect(await call('detokenize', token)).toBe(value);
  });

  test('a wrong clock of the machine expires nothing and extends nothing', async () => {
    /** Runs a command on a clock that is wrong by so many hours. */
    const runAt = async (hours: number, command: string) => {
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + hours * HOUR_MS });
      return at.run(command).finally(() => vi.useRealTimers());
    };
    const soon = { token: 'soon_tok', value: 'of soon', expires_at: inHours(1) };
    for (const hours of [-2, 2]) {
      const file = pairsFile(at.place, [{ ...soon, token: `soon_${hours + 2}_tok` }]);
      expect(await runAt(hours, `import ${file}`)).toMatchObject({ code: 0 });
    }
    expect((await hoursLeft()).filter((left) => left !== null)).toEqual([1, 1]);
    const late = pairsFile(at.place, [{ ...soon, token: 'late_tok', expires_at: inHours(-1) }]);
    const stderr = expect.stringContaining('is no time in the future');
    for (const options of [' --dry-run', ''])
      expect(await runAt(-2, `import ${late}${options}`)).toMatchObject({ code: 1, stderr });
    const exported = async (hours: number, name: string) => {
      expect((await runAt(hours, `export -o ${name} --plain`)).code).toBe(0);
      return (await pairsIn(at.path(name))).map(({ token }) => token);
    };
    const both = ['soon_0_tok', 'soon_4_tok'];
    expect(await exported(2, 'by-the-clock')).toEqual(expect.arrayContaining(both));
    await sql(
      vault.place,
      'update standin.records set expires_at = now() where expires_at > now()',
    );
    expect(await exported(-2, 'after')).not.toContain('soon_0_tok');
  });
});

/** Without a node, which would remove the expired value. */
describe('import without a node', () => {
  const at = placeFor('test', undefined, withVault);

  test('F44: an expired pair is not known before, and comes back; a removed one is told apart', async () => {
    const pair = { token: 'gone_tok', value: 'of gone', use: 'detokenize' };
    await at.result(`import ${pairsFile(at.place, [{ ...pair, expires_at: inHours(1) }])}`);
    await sql(at.place, "update standin.records set expires_at = now() - interval '1 s'");
    const counts = { imported: 1, already_known: 0 };
    for (const options of [' --dry-run', ''])
      expect(await at.result(`import ${pairsFile(at.place, [pair])}${options}`)).toMatchObject(
        counts,
      );
    const kept = [{ expires_at: null }];
    expect(await sql(at.place, 'select expires_at from standin.records')).toEqual(kept);
    await at.json(`forget ${pair.token} --yes`);
    const stderr = await at.failure(`import ${pairsFile(at.place, [pair])}`);
    expect(stderr).toContain('was forgotten or has expired');
    expect(stderr).toContain('nobody can tell whether it was this one');
  });

  test('a run that the database ends says what to do, and goes on with --resume', async () => {
    const pairs = Array.from({ length: 2_000 }, (_, i) => ({ token: `${i}_tok`, value: `v ${i}` }));
    const rest = [
      { token: '', value: 'none' },
      { token: 'last_tok', value: 'last' },
    ];
    const file = pairsFile(at.place, [...pairs, ...rest]);
    expect(await at.failure(`import ${file}`)).toContain('Line 2001: the field "token" is empty');
    const closed = (text: string) => sql(at.place, `alter table standin.records ${text}`);
    await closed('add constraint closed check (false) not valid');
    expect(await at.failure(`import ${file} --resume`)).toContain(
      `The import ended early: unexpected failure. The rows so far are kept: to go on, run standin import with the same options and --resume.\n`,
    );
    await closed('drop constraint closed');
    expect(await at.failure(`import ${file} --resume`)).toContain('Line 2001: the field "token"');
  });

  test('tokens without the suffix are stored only when every node counts guesses at them', async () => {
    const file = pairsFile(at.place, [{ token: 'bare-1', value: 'of bare' }]);
    const announced = "select value from standin.settings where name = 'bare_tokens'";
    const areTold = async () => (await sql(at.place, announced)).length > 0;
    await at.interrupted(`import ${file}`, areTold, 'SIGKILL');
    // A run after one that was killed does not know when the nodes were told, so it waits, too.
    const startedAtMs = performance.now();
    await at.result(`import ${file} --force`);
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(POLICY_LEASE_MS);
    expect(await sql(at.place, announced)).toEqual([{ value: 'imported' }]);
  });
});
