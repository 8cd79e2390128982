import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { basename, join } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { beforeAll, describe, expect, test } from 'vitest';
import { decoderFor } from '../../src/commands/age-files.ts';
import { readAudit } from '../support/audit.ts';
import { type Commands, placeFor, withVault } from '../support/command.ts';
import { readText } from '../support/docs.ts';
import { pairsIn, partsIn } from '../support/pairs.ts';
import { startService, until } from '../support/service.ts';
import { detokenizeAll, sql } from '../support/vault.ts';

/** Files of an export: whole, for the recipients alone, and known to belong together. */
const PAIRS = 5_000;
const tokens = Array.from({ length: PAIRS }, (_, i) => `t-${i}_tok`);
const values = tokens.map((_, i) => `value ${i}`);
const at = placeFor('block', undefined, withVault);
const other = placeFor('block', undefined, withVault);
let identity: string;
let recipient: string;
beforeAll(async () => {
  const rows = tokens.map((token, i) => `${token},${values[i]}\n`);
  at.write('all.csv', `token,value\n${rows.join('')}`);
  for (const options of [' --dry-run', ''])
    expect(await at.result(`import all.csv${options}`)).toMatchObject({ imported: PAIRS });
  identity = await generateIdentity();
  recipient = await identityToRecipient(identity);
  at.write('recipients', `# ours\r\n\r\n${recipient}\r\n`);
  for (const one of [at, other]) one.write('key.txt', `# made\n${identity}\n`);
});

let folders = 0;
/** A new export in parts, and the command that made it. */
async function exported(): Promise<{ folder: string; command: string }> {
  const folder = at.path(`out-${++folders}`);
  const command = `export -o ${folder} --recipients-file recipients --part-size 1000`;
  const { files, pairs } = await at.result(command);
  expect(pairs).toBe(PAIRS);
  expect(files).toBeGreaterThan(1);
  return { folder, command };
}

const has = (folder: string, name: string) => existsSync(join(folder, name));
const hasRows = (checkpoint: string) => {
  try {
    return JSON.parse(other.read(checkpoint)).position.rows > 0;
  } catch {
    return false;
  }
};

async function refused(of: Commands, command: string, words: string): Promise<void> {
  const { code, stderr } = await of.run(command);
  expect([code, stderr]).toEqual([1, expect.stringContaining(words)]);
}

test('C35: in parts, in clear only when told so, and only of one space', async () => {
  const folder = at.path('plain');
  const none = await at.run(`export -o ${folder}`);
  expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('--plain')]);
  const command = ['export', '-o', folder, '--plain', '--part-size', '1000', '--space', ''];
  const { code, stdout, stderr } = await at.run(command);
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(/^5,000 pairs in \d files in .*n\.\n$/),
  ]);
  expect(stderr).toContain('every value in clear');
  expect(stderr).toContain('AUDIT_LOG is not set');
  const pairs = await pairsIn(folder);
  expect(new Set(pairs.map(({ token }) => token)).size).toBe(PAIRS);
  for (const { token, value } of pairs) expect(token).toBe(`t-${value.slice(6)}_tok`);
  const again = await at.run(command);
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('is not empty')]);
  const empty = await at.result(`export -o ${at.path('empty')} --plain --space other`);
  expect(empty).toMatchObject({ files: 0, pairs: 0 });
  expect(await other.result(`import ${at.path('empty')}`)).toMatchObject({ rows: 0 });
});

test('C35: the files are for their user alone, and the manifest has no value and no token', async () => {
  const { folder } = await exported();
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  const names = readdirSync(folder);
  expect(names.slice(0, 2)).toEqual(['manifest.json', 'pairs-0001.ndjson.age']);
  for (const name of names) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
  // It counts the pairs of each part, and names no other file.
  expect(await pairsIn(folder, identity)).toHaveLength(PAIRS);
  const manifestIn = (of: string) => at.read(join(of, 'manifest.json').slice(at.path('').length));
  const manifest = manifestIn(folder);
  expect(manifest).not.toMatch(/t-\d+_tok|value \d/);
  expect(manifest).toMatch(/^\{\n "/);
  const ids = [manifest, manifestIn((await exported()).folder)].map(
    (text) => JSON.parse(text).export_id,
  );
  expect(ids[0]).toMatch(/^[0-9a-f]{32}$/);
  expect(ids[1]).not.toBe(ids[0]);
});

test('F38: what a killed export left is completed by the next: each pair once', async () => {
  const folder = at.path('killed');
  const command = `export -o ${folder} --plain --part-size 1000`;
  const begun = () => has(folder, 'manifest.json');
  const { code } = await at.interrupted(`${command} --rate 4000`, begun, 'SIGKILL');
  expect(code).toBe('SIGKILL');
  await refused(at, command, '--resume');
  await refused(at, `${command} --resume --space x`, 'The run to resume used --space');
  const made = await at.result(`${command} --resume`);
  expect(made).toMatchObject({ is_complete: true, pairs: PAIRS });
  const pairs = await pairsIn(folder);
  expect(pairs.map(({ token }) => token).toSorted()).toEqual(tokens.toSorted());
});

test('F38: Ctrl-C completes the part, and the next run goes on', async () => {
  const folder = at.path('stopped');
  const command = `export -o ${folder} --plain`;
  const env = { AUDIT_LOG: at.path('stopped.log') };
  const begun = () =>
    has(folder, '.') &&
    readdirSync(folder).some(
      (name) => name.startsWith('pairs-') && statSync(join(folder, name)).size > 0,
    );
  const end = await at.interrupted(`${command} --rate 2000`, begun, 'SIGINT', env);
  const stopped =
    /^[\d,]+ pairs in 1 file in .*\nStopped before the end\. Continue with --resume\.\n$/;
  expect([end.code, end.stdout]).toEqual([130, expect.stringMatching(stopped)]);
  expect(readdirSync(folder)).toEqual(['manifest.json', 'pairs-0001.ndjson']);
  const { length: pairs } = await pairsIn(folder);
  const { lines } = readAudit(env.AUDIT_LOG);
  expect(lines.at(-1)).toMatchObject({ outcome: 'interrupted', pairs, space: null });
  await at.result(`${command} --resume`);
  expect(await pairsIn(folder)).toHaveLength(PAIRS);
});

test('C36: the audit log says who exported what, before anything is written; without it nothing is', async () => {
  const folder = at.path('audited');
  const env = { AUDIT_LOG: at.path('audit.log') };
  expect((await at.run(`export -o ${folder} --plain --space some`, env)).code).toBe(0);
  const whose = { space: 'some', is_encrypted: false, recipients: [], is_resumed: false };
  const about = { event: 'export', ...whose, folder };
  expect(readAudit(at.path('audit.log')).lines).toEqual([
    expect.objectContaining({ ...about, outcome: 'started', user: userInfo().username }),
    expect.objectContaining({ ...about, outcome: 'success', pairs: 0, without_token: 0 }),
  ]);
  const blocked = at.path('blocked');
  const nowhere = { AUDIT_LOG: '/proc/none/audit.log' };
  const stderr = await at.failure(`export -o ${blocked} --plain`, nowhere);
  expect(stderr).toContain('nothing was exported');
  expect(readdirSync(blocked)).toEqual([]);
});

test('F38: a folder is imported whole, part by part, killed in the middle and continued', async () => {
  const { folder } = await exported();
  const command = `import ${folder} --identity key.txt --checkpoint position`;
  expect(await other.result(`${command} --dry-run`)).toMatchObject({ imported: PAIRS });
  const { code } = await other.interrupted(command, () => hasRows('position'), 'SIGKILL');
  const made = await other.result(`${command}${code === 0 ? '' : ' --resume'}`);
  const counts = { is_complete: true, rows: PAIRS, rejected: 0, detokenize_only: 0 };
  expect(made).toMatchObject(counts);
  const there = await startService(other.place);
  try {
    expect(await detokenizeAll(there, tokens)).toEqual(values);
  } finally {
    await there.stop();
  }
});

test('F44: --resume refuses a complete export, and parts without a manifest', async () => {
  const { folder, command } = await exported();
  await refused(at, `${command} --resume`, 'is complete');
  rmSync(join(folder, 'manifest.json'));
  await refused(at, `${command} --resume`, 'no manifest.json of a run to continue');
  await refused(at, command, 'is not empty');
  for (const manifest of ['{}', '{"format":"standin export","version":2}']) {
    at.write(`${basename(folder)}/manifest.json`, manifest);
    const words = manifest === '{}' ? 'has no manifest.json' : 'use the release that wrote it';
    await refused(other, `import ${folder} --identity key.txt`, words);
  }
  rmSync(join(folder, 'manifest.json'));
  await refused(other, `import ${join(folder, 'pairs-0001.ndjson.age')}`, 'is encrypted: name');
  // A part alone is a file like that of any other vault.
  const part = join(folder, partsIn(folder)[0]!);
  const dry = await other.result(`import ${part} --identity key.txt --dry-run`);
  expect(dry).toMatchObject({ rejected: 0 });
});

test('a part of another export, a changed, a missing and a further one are refused in words', async () => {
  const [{ folder }, { folder: second }] = [await exported(), await exported()];
  const [first, next] = partsIn(folder);
  const path = join(folder, first!);
  const kept = at.path('kept');
  copyFileSync(path, kept);
  const whole = `import ${folder} --identity key.txt`;
  const alone = `import ${path} --identity key.txt`;
  for (const [spoil, words] of [
    [() => copyFileSync(join(second, first!), path), 'another digest'],
    [() => at.write(path.slice(at.path('').length), 'torn'), 'another digest'],
    [() => rmSync(path), `${path} is missing`],
  ] as const) {
    spoil();
    for (const command of [whole, alone]) await refused(other, command, words);
  }
  mkdirSync(path);
  await refused(other, whole, `${path} cannot be read (EISDIR)`);
  rmSync(path, { recursive: true });
  copyFileSync(kept, path);
  const further = join(folder, 'pairs-0009.ndjson.age');
  copyFileSync(join(folder, next!), further);
  await refused(other, whole, `${further} is no part`);
  await refused(other, `import ${further} --identity key.txt`, 'is no part');
  expect(await other.result(`${alone} --dry-run`)).toMatchObject({ rejected: 0 });
});

test('an export that did not end is not imported as a folder, and continues only with its parts', async () => {
  const folder = at.path('unfinished');
  const command = `export -o ${folder} --plain --part-size 1000`;
  const { child, ended } = at.begin(`${command} --rate 2000`);
  await until(() => has(folder, 'manifest.json'), 'the first part');
  // Another run beside it changes nothing.
  await refused(at, `${command} --resume`, 'Another run');
  child.kill('SIGINT');
  expect((await ended).code).toBe(130);
  await refused(other, `import ${folder}`, 'did not end');
  const parts = partsIn(folder);
  const part = join(folder, parts[0]!);
  copyFileSync(part, at.path('kept'));
  rmSync(part);
  await refused(at, `${command} --resume`, 'is missing or was changed');
  copyFileSync(at.path('kept'), part);
  const pair = '{"token":"old_tok","value":"forgotten"}\n';
  const foreign = at.write('unfinished/pairs-0009.ndjson', pair);
  await refused(at, `${command} --resume`, `${foreign} is no part`);
  rmSync(foreign);
  // As a run that was killed between a part and its manifest leaves it.
  at.write(`unfinished/pairs-000${parts.length + 1}.ndjson`, pair);
  await at.result(`${command} --resume`);
  expect(await other.result(`import ${folder} --dry-run`)).toMatchObject({ rows: PAIRS });
});

test('what is no recipient, or no identity, is said', async () => {
  at.write('none', '#\n');
  other.write('wrong.txt', 'age1\n');
  await refused(at, 'export -o x --recipients-file none', 'There is no recipient. Make a key');
  await refused(at, 'export -o x --recipient age1abcdefghijk', '"age1abcdefgh" is no recipient');
  const words = 'wrong.txt has a line that is no identity';
  await refused(other, 'import a.ndjson --identity wrong.txt', words);
});

test('a file whose header does not end is refused before it fills the memory', async () => {
  const header = `age-encryption.org/v1\n-> X25519 ${'A'.repeat(2 ** 21)}`;
  other.write('long.ndjson.age', header);
  const stderr = await other.failure('import long.ndjson.age --identity key.txt');
  expect(stderr.replaceAll(/\s+/g, ' ')).toContain('header does not end within 65536 bytes');
  // Nor however it is cut.
  const decode = await decoderFor(other.path('key.txt'));
  let read = 0;
  async function* inPieces() {
    for (; read < header.length; read += 1_000) yield Buffer.from(header.slice(read, read + 1_000));
  }
  const decoded = decode(inPieces())[Symbol.asyncIterator]();
  await expect(decoded.next()).rejects.toThrow('header does not end');
  expect(read).toBeLessThan(70_000);
  for (const length of [65_532, 65_533]) {
    other.write('long.ndjson.age', `${'A'.repeat(length)}\n---${'A'.repeat(9)}`);
    const words = await other.failure('import long.ndjson.age --identity key.txt');
    expect(words.includes('header does not end')).toBe(length > 65_532);
  }
});

test('an import whose key version is closed meanwhile seals with the next one', async () => {
  const many = Array.from({ length: 60_000 }, (_, i) => `old-${i}_tok,retired ${i}\n`);
  other.write('retired.csv', `token,value\n${many.join('')}`);
  const { ended } = other.begin('import retired.csv --json');
  await until(() => hasRows('retired.csv.checkpoint'), 'the first rows');
  await other.json('keyring rotate');
  // As the first step of retire does: the fence is in each statement.
  const closing =
    "update standin.keyring set closed_at = now() where version = 1 and purpose = 'dek'";
  await sql(other.place, closing);
  // A statement that was under way may still write with the old version: retire waits for it, too.
  await sql(other.place, 'begin; lock table standin.records in share mode; commit');
  const sealedWith = async (version: number) => {
    const text = 'select count(*)::int as records from standin.records where key_version = $1';
    return (await sql(other.place, text, [version]))[0]!.records as number;
  };
  const before = await sealedWith(1);
  expect(await other.text('keyring status')).toMatch(/^dek +1 +closed /m);
  const { code, stdout, stderr } = await ended;
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ imported: many.length, rejected: 0 });
  expect(await sealedWith(1)).toBe(before);
  expect(await sealedWith(2)).toBeGreaterThan(0);
  expect(await other.result('verify')).toMatchObject({ bad: 0 });
});

describe('the commands of the guides', () => {
  const commands = (guide: string) =>
    readText(`docs/guides/${guide}.md`)
      .match(/^ *standin .*/gm)!
      .map((line) => line.trim().replace(/^standin /, ''));

  test('run as written', async () => {
    const [exporting, ...importing] = commands('leaving');
    await at.result(exporting!.replace('age1...', recipient));
    const folder = at.path('pairs');
    for (const one of importing) await other.result(one.replace(/\bpairs\b/, folder));
    const [checking] = commands('coming-from-another-vault');
    other.write('pairs.csv', 'old_token,email\nold_1_tok,ann@example.com\n');
    expect(await other.result(checking!)).toMatchObject({ is_dry_run: true, imported: 1 });
  });
});
