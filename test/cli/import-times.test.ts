import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { POLICY_LEASE_MS } from '../../src/policy/policy-follower.ts';
import { pairsIn } from '../support/pairs.ts';
import {
  call,
  createClient,
  endOf,
  makeVault,
  type Place,
  runCli,
  runJson,
  servedVault,
  spawnCli,
  until,
  usualKinds,
  usualPlace,
} from '../support/service.ts';
import { sql } from '../support/vault.ts';

const HOUR_MS = 3_600_000;
let files = 0;

function fileOf(place: Place, pairs: readonly object[]): string {
  const path = join(place.folder, `pairs-of-${++files}.ndjson`);
  writeFileSync(path, pairs.map((pair) => `${JSON.stringify(pair)}\n`).join(''));
  return path;
}

function inHours(hours: number): string {
  return new Date(Date.now() + hours * HOUR_MS).toISOString();
}

/** A setting that puts the clock of a program wrong by so many hours. */
function withClock(place: Place, hours: number): Record<string, string> {
  const path = join(place.folder, `clock-${++files}.cjs`);
  const shifted = `const now = Date.now; Date.now = () => now() + ${hours * HOUR_MS};
    globalThis.Date = class extends Date { constructor(...of) { of.length ? super(...of) : super(Date.now()) } };`;
  writeFileSync(path, shifted);
  return { NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --require ${path}` };
}

describe.each(usualKinds())('times of imported pairs, on %s', (kind) => {
  const at = servedVault(kind);

  async function importPairs(pairs: readonly object[], ...options: string[]) {
    return runJson(at.place, 'import', fileOf(at.place, pairs), ...options);
  }

  /** Hours that the records of the vault have left; null: for ever. */
  async function hoursLeft(): Promise<(number | null)[]> {
    const text = `select extract(epoch from expires_at - now())::float / 3600 as left
      from standin.records where sealed <> '' order by expires_at`;
    const rows = await sql(at.place, text);
    return rows.map(({ left }) => left && Math.round(10 * left) / 10);
  }

  const restored = async (token: string) => {
    const { status, body } = await call(at.service, 'detokenize', { token });
    return status === 200 ? body.data.token : status;
  };

  test('F44: a later time, or none, extends a pair whatever its use is', async () => {
    await runJson(at.place, 'policy', 'apply', policyOf(at.place));
    const pairs = [
      { token: 'both_tok', value: 'of both', use: 'both' },
      { token: 'detokenize_tok', value: 'of detokenize', use: 'detokenize' },
      { token: 'random_tok', value: 'of random', kind: 'random' },
    ];
    const until = (hours: number) => pairs.map((one) => ({ ...one, expires_at: inHours(hours) }));
    expect(await importPairs(until(1))).toMatchObject({ imported: 3 });
    for (const options of [['--dry-run'], []])
      expect(await importPairs(until(5), ...options)).toMatchObject({
        ...{ imported: 3, already_known: 0, rejected: 0 },
      });
    // The alias of the first never expires.
    expect(await hoursLeft()).toEqual([5, 5, 5, null]);
    for (const options of [['--dry-run'], []])
      expect(await importPairs(until(2), ...options)).toMatchObject({
        ...{ imported: 0, already_known: 3 },
      });
    expect(await importPairs(pairs)).toMatchObject({ imported: 3 });
    expect(await hoursLeft()).toEqual([null, null, null, null]);
    for (const { token, value } of pairs) expect(await restored(token)).toBe(value);
  });

  test('a wrong clock of the machine expires nothing and extends nothing', async () => {
    const soon = { token: 'soon_tok', value: 'of soon', expires_at: inHours(1) };
    for (const hours of [-2, 2]) {
      const file = fileOf(at.place, [{ ...soon, token: `soon_${hours + 2}_tok` }]);
      const { code, stderr } = await runCli(['import', file], at.place, withClock(at.place, hours));
      expect(code, stderr).toBe(0);
    }
    expect((await hoursLeft()).filter((left) => left !== null)).toEqual([1, 1]);
    const late = fileOf(at.place, [{ ...soon, token: 'late_tok', expires_at: inHours(-1) }]);
    for (const options of [['--dry-run'], []]) {
      const args = ['import', late, ...options];
      const { code, stderr } = await runCli(args, at.place, withClock(at.place, -2));
      expect([code, stderr]).toEqual([1, expect.stringContaining('is no time in the future')]);
    }
    const folder = join(at.place.folder, 'by-the-clock');
    const args = ['export', '-o', folder, '--plain'];
    expect((await runCli(args, at.place, withClock(at.place, 2))).code).toBe(0);
    const tokens = (await pairsIn(folder)).map(({ token }) => token);
    expect(tokens).toEqual(expect.arrayContaining(['soon_0_tok', 'soon_4_tok']));
    await sql(at.place, 'update standin.records set expires_at = now() where expires_at > now()');
    const after = join(at.place.folder, 'after');
    const early = ['export', '-o', after, '--plain'];
    expect((await runCli(early, at.place, withClock(at.place, -2))).code).toBe(0);
    expect((await pairsIn(after)).map(({ token }) => token)).not.toContain('soon_0_tok');
  });

  test('a space of imported tokens can have a client, whatever its name', async () => {
    for (const space of ['Tenant-1', '42', 'ACME', '-x']) {
      const value = `value of ${space}`;
      await importPairs([{ token: 'spaced_tok', value, space }]);
      const { api_key: apiKey } = await createClient(at.place, `--space=${space}`);
      const { body } = await call(at.service, 'detokenize', { a: 'spaced_tok' }, apiKey);
      expect(body.data).toEqual({ a: value });
    }
    expect(await runJson(at.place, 'verify')).toMatchObject({ bad: 0 });
  });
});

test('F44: an expired pair is not known before, and comes back; a removed one is told apart', async () => {
  // Without a node, which would remove the expired value.
  const place = await usualPlace();
  try {
    await makeVault(place);
    const pair = { token: 'gone_tok', value: 'of gone', use: 'detokenize' };
    await runJson(place, 'import', fileOf(place, [{ ...pair, expires_at: inHours(1) }]));
    await sql(place, "update standin.records set expires_at = now() - interval '1 s'");
    for (const options of [['--dry-run'], []])
      expect(await runJson(place, 'import', fileOf(place, [pair]), ...options)).toMatchObject({
        ...{ imported: 1, already_known: 0 },
      });
    expect(await sql(place, 'select expires_at from standin.records')).toEqual([
      { expires_at: null },
    ]);
    await runJson(place, 'forget', pair.token, '--yes');
    const { code, stderr } = await runCli(['import', fileOf(place, [pair])], place);
    expect([code, stderr]).toEqual([1, expect.stringContaining('was forgotten or has expired')]);
    expect(stderr).toContain('nobody can tell whether it was this one');
  } finally {
    place.remove();
  }
});

test('tokens without the suffix are stored only when every node counts guesses at them', async () => {
  const place = await usualPlace();
  try {
    await makeVault(place);
    const file = fileOf(place, [{ token: 'bare-1', value: 'of bare' }]);
    const child = spawnCli(['import', file], place);
    const ended = endOf(child);
    const isAnnounced = async () =>
      (await sql(place, "select 1 from standin.settings where name = 'bare_tokens'")).length > 0;
    await until(isAnnounced, 'the nodes to be told');
    child.kill('SIGKILL');
    await ended;
    // A run after one that was killed does not know when the nodes were told, so it waits, too.
    const startedAtMs = performance.now();
    await runJson(place, 'import', file, '--force');
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(POLICY_LEASE_MS);
    const [row] = await sql(place, "select value from standin.settings where name = 'bare_tokens'");
    expect(row).toEqual({ value: 'imported' });
  } finally {
    place.remove();
  }
});

function policyOf({ folder }: Place): string {
  writeFileSync(
    join(folder, 'random.yaml'),
    'version: 1\nkinds: { random: { shape: text, tokens: random } }\n',
  );
  return 'random.yaml';
}
