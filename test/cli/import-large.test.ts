import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { partsIn } from '../support/pairs.ts';
import {
  endOf,
  makeVault,
  newPlace,
  type Place,
  runCli,
  runJson,
  spawnCli,
  startService,
  until,
  usualKinds,
} from '../support/service.ts';
import { detokenizeAll, sql, tokenizeAll } from '../support/vault.ts';

const PAIRS = 100_000;

describe.each(usualKinds())('100,000 pairs, on %s', (kind) => {
  let place: Place;
  let other: Place;
  const values = Array.from({ length: PAIRS }, (_, i) => `person.${i}@example${i % 97}.com`);
  beforeAll(async () => {
    [place, other] = [await newPlace(kind), await newPlace(kind)];
    await makeVault(place);
    await makeVault(other);
  });
  afterAll(() => {
    place.remove();
    other.remove();
  });

  test('F38: go to a vault with other keys under their old tokens, killed in the middle of both', async () => {
    const service = await startService(place);
    const tokens = await tokenizeAll(service, values);
    await service.stop();
    const identity = await generateIdentity();
    const recipient = await identityToRecipient(identity);
    const folder = join(place.folder, 'pairs');
    const args = ['export', '-o', folder, '--recipient', recipient, '--part-size', '30000'];
    await killed(place, args, () => readdirSync(folder).includes('manifest.json'));
    expect(await runJson(place, ...args, '--resume')).toMatchObject({
      ...{ pairs: PAIRS, without_token: 0, bad: 0 },
    });
    writeFileSync(join(other.folder, 'identity'), identity, { mode: 0o600 });
    let isKilled = false;
    for (const name of partsIn(folder)) {
      const file = join(folder, name);
      const read = ['import', file, '--identity', 'identity'];
      const checkpoint = `${file}.checkpoint`;
      const hasBegun = () => JSON.parse(readFileSync(checkpoint, 'utf8')).position.rows > 0;
      if (!isKilled) await killed(other, read, hasBegun);
      const made = await runJson(other, ...read, ...(isKilled ? [] : ['--resume']));
      expect(made).toMatchObject({ is_complete: true, rejected: 0, detokenize_only: 0 });
      isKilled = true;
    }
    expect(await runJson(other, 'verify')).toMatchObject({
      records: PAIRS,
      aliases: PAIRS,
      bad: 0,
    });
    const there = await startService(other);
    expect(await detokenizeAll(there, tokens)).toEqual(values);
    expect(await tokenizeAll(there, values)).toEqual(tokens);
    await there.stop();
  });

  test('a run whose key version is closed meanwhile seals with the next one', async () => {
    const file = join(place.folder, 'retired.csv');
    const rows = values.map((value, i) => `old-${i},retired ${value}\n`);
    writeFileSync(file, `token,value\n${rows.join('')}`);
    const child = spawnCli(['import', file, '--json'], place);
    const ended = endOf(child);
    await until(() => hasRows(`${file}.checkpoint`), 'the first rows');
    await runJson(place, 'keyring', 'rotate');
    // As the first step of retire does: the fence is in each statement.
    await sql(
      place,
      "update standin.keyring set closed_at = now() where version = 1 and purpose = 'dek'",
    );
    // A statement that was under way may still write with the old version: retire waits for it, too.
    await sql(place, 'begin; lock table standin.records in share mode; commit');
    const before = await sealedWith(1);
    const { code, stdout, stderr } = await ended;
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ imported: PAIRS, rejected: 0 });
    expect(await sealedWith(1)).toBe(before);
    expect(await sealedWith(2)).toBeGreaterThan(0);
    expect(await runJson(place, 'verify')).toMatchObject({ bad: 0 });
  });

  async function sealedWith(version: number): Promise<number> {
    const text = 'select count(*)::int as records from standin.records where key_version = $1';
    return (await sql(place, text, [version]))[0]!.records;
  }

  function hasRows(checkpoint: string): boolean {
    try {
      return JSON.parse(readFileSync(checkpoint, 'utf8')).position.rows > 0;
    } catch {
      return false;
    }
  }

  /** Starts the command, and kills it as soon as the condition holds. */
  async function killed(of: Place, args: readonly string[], hasBegun: () => boolean) {
    const child = spawnCli(args, of);
    const ended = endOf(child);
    await until(() => {
      try {
        return hasBegun();
      } catch {
        return false;
      }
    }, 'the run to begin');
    child.kill('SIGKILL');
    expect((await ended).code).toBe('SIGKILL');
    expect((await runCli([...args], of)).code).toBe(1);
  }
});
