import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readText } from '../support/docs.ts';
import { partsIn } from '../support/pairs.ts';
import {
  endOf,
  makeVault,
  type Place,
  runCli,
  runJson,
  spawnCli,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';
import { detokenizeAll } from '../support/vault.ts';

/** How the parts of an export are known to belong together. */
let place: Place;
let other: Place;
let identity: string;
const tokens = Array.from({ length: 3_000 }, (_, i) => `t-${i}_tok`);
const values = tokens.map((_, i) => `value ${i}`);

beforeAll(async () => {
  [place, other] = [await usualPlace(), await usualPlace()];
  await makeVault(place);
  await makeVault(other);
  const file = join(place.folder, 'pairs.csv');
  writeFileSync(file, `token,value\n${tokens.map((one, i) => `${one},${values[i]}\n`).join('')}`);
  await runJson(place, 'import', file);
  identity = await generateIdentity();
  for (const one of [place, other])
    writeFileSync(join(one.folder, 'identity'), identity, { mode: 0o600 });
});
afterAll(() => {
  place.remove();
  other.remove();
});

let folders = 0;

/** A new export in parts, and the arguments that made it. */
async function exported(): Promise<{ folder: string; args: string[] }> {
  const folder = join(place.folder, `out-${++folders}`);
  const recipient = await identityToRecipient(identity);
  const args = ['export', '-o', folder, '--recipient', recipient, '--part-size', '1000'];
  expect(await runJson(place, ...args)).toMatchObject({ files: 3, pairs: 3_000 });
  return { folder, args };
}

async function refused(of: Place, args: readonly string[], words: string): Promise<void> {
  const { code, stderr } = await runCli(args, of);
  expect([code, stderr]).toEqual([1, expect.stringContaining(words)]);
}

test('a folder is imported whole, part by part, killed in the middle and continued', async () => {
  const { folder } = await exported();
  const args = ['import', folder, '--identity', 'identity'];
  expect(await runJson(other, ...args, '--dry-run')).toMatchObject({ imported: 3_000 });
  const child = spawnCli(args, other);
  const ended = endOf(child);
  const checkpoint = `${folder}.checkpoint`;
  await until(() => {
    try {
      return JSON.parse(readFileSync(checkpoint, 'utf8')).position.rows > 0;
    } catch {
      return child.exitCode !== null;
    }
  }, 'the first rows');
  child.kill('SIGKILL');
  const { code } = await ended;
  const made = await runJson(other, ...args, ...(code === 0 ? [] : ['--resume']));
  expect(made).toMatchObject({ is_complete: true, rows: 3_000, rejected: 0, detokenize_only: 0 });
  const there = await startService(other);
  try {
    expect(await detokenizeAll(there, tokens)).toEqual(values);
  } finally {
    await there.stop();
  }
});

test('the manifest counts and names the parts, and has no value and no token', async () => {
  const { folder } = await exported();
  const text = readFileSync(join(folder, 'manifest.json'), 'utf8');
  const manifest = JSON.parse(text);
  expect(manifest).toMatchObject({ is_complete: true, pairs: 3_000, without_token: 0 });
  expect(manifest.parts.map(({ file }: { file: string }) => file)).toEqual(partsIn(folder));
  const counts = manifest.parts.map(({ pairs }: { pairs: number }) => pairs);
  expect(counts.reduce((sum: number, pairs: number) => sum + pairs)).toBe(3_000);
  expect(text).not.toMatch(/t-\d+_tok|value \d/);
  const { folder: second } = await exported();
  const { export_id: id } = JSON.parse(readFileSync(join(second, 'manifest.json'), 'utf8'));
  expect(manifest.export_id).toMatch(/^[0-9a-f]{32}$/);
  expect(id).not.toBe(manifest.export_id);
});

test('F44: --resume refuses a complete export, and parts without a manifest', async () => {
  const { folder, args } = await exported();
  await refused(place, [...args, '--resume'], 'is complete');
  rmSync(join(folder, 'manifest.json'));
  await refused(place, [...args, '--resume'], 'no manifest.json of a run to continue');
  await refused(place, args, 'is not empty');
  await refused(other, ['import', folder, '--identity', 'identity'], 'has no manifest.json');
  // A part alone is a file like that of any other vault.
  const part = join(folder, partsIn(folder)[0]!);
  const dry = ['import', part, '--identity', 'identity', '--dry-run'];
  expect(await runJson(other, ...dry)).toMatchObject({ rejected: 0 });
});

test('a part of another export, a changed, a missing and a further one are refused in words', async () => {
  const [{ folder }, { folder: second }] = [await exported(), await exported()];
  const [first, ...others] = partsIn(folder);
  const path = join(folder, first!);
  const whole = ['import', folder, '--identity', 'identity'];
  const alone = ['import', path, '--identity', 'identity'];
  const bytes = readFileSync(path);
  copyFileSync(join(second, first!), path);
  for (const args of [whole, alone]) await refused(other, args, 'another digest');
  writeFileSync(path, bytes.subarray(0, -1));
  for (const args of [whole, alone]) await refused(other, args, 'another digest');
  rmSync(path);
  await refused(other, whole, `${path} is missing`);
  await refused(other, alone, `${path} is missing`);
  writeFileSync(path, bytes);
  const further = join(folder, 'pairs-0004.ndjson.age');
  copyFileSync(join(folder, others[0]!), further);
  await refused(other, whole, `${further} is no part`);
  await refused(other, ['import', further, '--identity', 'identity'], 'is no part');
  expect(await runJson(other, ...alone, '--dry-run')).toMatchObject({ rejected: 0 });
});

test('an export that did not end is not imported as a folder, and continues only with its parts', async () => {
  const folder = join(place.folder, 'stopped');
  const args = ['export', '-o', folder, '--plain', '--part-size', '1000'];
  const child = spawnCli([...args, '--rate', '2000'], place);
  const ended = endOf(child);
  await until(() => readdirSync(place.folder).includes('stopped'), 'the folder');
  await until(() => readdirSync(folder).includes('manifest.json'), 'the first part');
  // Another run beside it changes nothing.
  await refused(place, [...args, '--resume'], 'Another run');
  child.kill('SIGINT');
  expect((await ended).code).toBe(130);
  await refused(other, ['import', folder], 'did not end');
  const part = join(folder, partsIn(folder)[0]!);
  const bytes = readFileSync(part);
  rmSync(part);
  await refused(place, [...args, '--resume'], 'is missing or was changed');
  writeFileSync(part, bytes);
  const foreign = join(folder, 'pairs-0009.ndjson');
  writeFileSync(foreign, '{"token":"old_tok","value":"forgotten"}\n');
  await refused(place, [...args, '--resume'], `${foreign} is no part`);
  rmSync(foreign);
  // As a run that was killed between a part and its manifest leaves it.
  const next = `pairs-000${partsIn(folder).length + 1}.ndjson`;
  writeFileSync(join(folder, next), '{"token":"old_tok","value":"forgotten"}\n');
  await runJson(place, ...args, '--resume');
  expect(await runJson(other, 'import', folder, '--dry-run')).toMatchObject({ rows: 3_000 });
});

test('the commands of the guides run as written', async () => {
  const commands = (guide: string) => {
    const lines = readText(`docs/guides/${guide}.md`).match(/^ *standin .*/gm)!;
    return lines.map((line) => line.trim().split(' ').slice(1));
  };
  const [exporting, ...importing] = commands('leaving');
  const recipient = await identityToRecipient(identity);
  const folder = join(place.folder, 'pairs');
  await runJson(place, ...exporting!.map((one) => one.replace('age1...', recipient)));
  for (const one of [place, other]) copyFileSync(join(one.folder, 'identity'), keyIn(one));
  for (const args of importing)
    await runJson(other, ...args.map((one) => (one === 'pairs' ? folder : one)));
  const [checking] = commands('coming-from-another-vault');
  writeFileSync(join(other.folder, 'pairs.csv'), 'old_token,email\nold_1_tok,ann@example.com\n');
  expect(await runJson(other, ...checking!)).toMatchObject({ is_dry_run: true, imported: 1 });
});

function keyIn({ folder }: Place): string {
  return join(folder, 'key.txt');
}
