import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decoderFor } from '../../src/commands/age-files.ts';
import { pairsIn } from '../support/pairs.ts';
import {
  call,
  createClient,
  endOf,
  kinds,
  makeVault,
  newPlace,
  type Place,
  runCli,
  runJson,
  type Service,
  spawnCli,
  startService,
  until,
  usualKinds,
} from '../support/service.ts';

const POLICY = `
version: 1
kinds:
  card: { shape: digits, keep_last: 4, suffix: false }
  mail: { shape: email, keep: domain, normalize: [trim, lower_case] }
fields: { "cards[*]": card, "mails[*]": mail, "texts[*]": text }
elsewhere: pass
`;
/** The kind draws other tokens from now on: those from before need the version before. */
const NEXT_POLICY = POLICY.replace('keep_last: 4', 'keep_last: 2');
const CARDS = ['4111111111111111', '5500005555555559'];
const MAILS = ['ann@example.com', 'bob@example.org'];

describe.each(kinds())('export from the %s database', (kind) => {
  let place: Place;
  let other: Place;
  let service: Service;
  let tenant: string;
  let identity: string;
  let recipient: string;
  const tokens: Record<string, string[]> = {};

  beforeAll(async () => {
    identity = await generateIdentity();
    recipient = await identityToRecipient(identity);
    [place, other] = [await newPlace(kind), await newPlace(kind)];
    await makeVault(place);
    await makeVault(other);
    writeFileSync(join(place.folder, 'policy.yaml'), POLICY);
    writeFileSync(join(place.folder, 'next.yaml'), NEXT_POLICY);
    await runJson(place, 'import', foreign(place), '--space', '');
    await runJson(place, 'policy', 'apply', 'policy.yaml', '--yes');
    service = await startService(place);
    tenant = (await createClient(place, '--space', 'tenant')).api_key;
    const random = (await createClient(place, '--token-mode', 'random')).api_key;
    const { body } = await call(service, 'tokenize', { cards: CARDS, mails: MAILS, texts: ['x'] });
    Object.assign(tokens, body.data);
    tokens.tenant = (await call(service, 'tokenize', { mails: MAILS }, tenant)).body.data.mails;
    const drawn = await call(service, 'tokenize', { texts: ['x', 'x'] }, random);
    tokens.random = [drawn.body.data.texts[0]];
    await runJson(place, 'policy', 'apply', 'next.yaml', '--yes');
  });
  afterAll(async () => {
    await service.stop();
    place.remove();
    other.remove();
  });

  function foreign({ folder }: Place): string {
    const path = join(folder, 'foreign.ndjson');
    const ends = new Date(Date.now() + 86_400_000).toISOString();
    const pairs = [
      { token: 'old-1', value: 'carla@example.com' },
      { token: 'old-2', value: 'carla@example.com' },
      { token: 'old-3', value: 'dora', expires_at: ends },
    ];
    writeFileSync(path, pairs.map((pair) => `${JSON.stringify(pair)}\n`).join(''));
    return path;
  }

  test('C35: every value is there with its token, for the recipients alone: drawn, imported, of kinds, spaces and older policies', async () => {
    const folder = join(place.folder, `all-${kind}`);
    const made = await runJson(place, 'export', '-o', folder, '--recipient', recipient);
    expect(made).toEqual({ is_complete: true, files: 1, pairs: 11, without_token: 0, bad: 0 });
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    const names = readdirSync(folder);
    expect(names).toEqual(['manifest.json', 'pairs-0001.ndjson.age']);
    for (const name of names) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
    const pairs = await pairsIn(folder, identity);
    const has = (token: string, value: string, ofKind = 'text', space = '', use = 'both') =>
      expect(pairs).toContainEqual(
        expect.objectContaining({ token, value, kind: ofKind, space, use }),
      );
    for (const [i, value] of CARDS.entries()) has(tokens.cards![i]!, value, 'card');
    for (const [i, value] of MAILS.entries()) has(tokens.mails![i]!, value, 'mail');
    for (const [i, value] of MAILS.entries()) has(tokens.tenant![i]!, value, 'mail', 'tenant');
    has(tokens.texts![0]!, 'x');
    has('old-1', 'carla@example.com');
    has('old-2', 'carla@example.com', 'text', '', 'detokenize');
    has('old-3', 'dora');
    has(tokens.random![0]!, 'x', 'text', '', 'detokenize');
    expect(pairs.filter((pair) => pair.expires_at !== null).map(({ token }) => token)).toEqual([
      'old-3',
    ]);
  });

  test('a file whose header does not end is refused before it fills the memory', async () => {
    writeFileSync(join(other.folder, 'own'), identity, { mode: 0o600 });
    const header = `age-encryption.org/v1\n-> X25519 ${'A'.repeat(2 ** 21)}`;
    writeFileSync(join(other.folder, 'long.ndjson.age'), header);
    const { code, stderr } = await runCli(
      ['import', 'long.ndjson.age', '--identity', 'own'],
      other,
    );
    expect(code).toBe(1);
    expect(stderr.replaceAll(/\s+/g, ' ')).toContain('header does not end within 65536 bytes');
    // Nor however it is cut.
    const decode = await decoderFor(join(other.folder, 'own'));
    let read = 0;
    async function* inPieces() {
      for (; read < header.length; read += 1_000)
        yield Buffer.from(header.slice(read, read + 1_000));
    }
    const decoded = decode(inPieces())[Symbol.asyncIterator]();
    await expect(decoded.next()).rejects.toThrow('header does not end');
    expect(read).toBeLessThan(70_000);
  });

  test('another vault takes the export: every old token is right there, in its kind and space', async () => {
    const folder = join(place.folder, `taken-${kind}`);
    const made = await runJson(place, 'export', '-o', folder, '--recipient', recipient);
    writeFileSync(join(other.folder, 'identity'), `# made\n${identity}\n`, { mode: 0o600 });
    await runJsonIn(other, 'next.yaml');
    const file = join(folder, 'pairs-0001.ndjson.age');
    expect(await runJson(other, 'import', file, '--identity', 'identity')).toMatchObject({
      ...{ rows: made.pairs, rejected: 0, imported: 11, detokenize_only: 0 },
    });
    const there = await startService(other);
    try {
      const ofTenant = (await createClient(other, '--space', 'tenant')).api_key;
      const values = { cards: CARDS, mails: MAILS, texts: ['x', 'dora', 'carla@example.com'] };
      const texts = [tokens.texts![0], 'old-3', 'old-1'];
      const old = { cards: tokens.cards, mails: tokens.mails, texts };
      expect((await call(there, 'tokenize', values)).body.data).toEqual(old);
      expect((await call(there, 'detokenize', old)).body.data).toEqual(values);
      const others = { texts: [tokens.random![0], 'old-2'] };
      expect((await call(there, 'detokenize', others)).body.data.texts).toEqual([
        'x',
        'carla@example.com',
      ]);
      const mails = { mails: tokens.tenant };
      expect((await call(there, 'detokenize', mails, ofTenant)).body.data.mails).toEqual(MAILS);
      expect((await call(there, 'detokenize', mails)).status).toBe(400);
    } finally {
      await there.stop();
    }
  });

  async function runJsonIn(to: Place, policy: string): Promise<void> {
    writeFileSync(join(to.folder, policy), NEXT_POLICY);
    await runJson(to, 'policy', 'apply', policy, '--yes');
  }
});

describe.each(usualKinds())('export, on %s', (kind) => {
  let place: Place;
  beforeAll(async () => {
    place = await newPlace(kind);
    await makeVault(place);
    const file = join(place.folder, 'pairs.csv');
    const rows = Array.from({ length: 5_000 }, (_, i) => `t-${i}_tok,value ${i}\n`);
    writeFileSync(file, `token,value\n${rows.join('')}`);
    for (const options of [['--dry-run'], []])
      expect(await runJson(place, 'import', file, ...options)).toMatchObject({ imported: 5_000 });
  });
  afterAll(() => place.remove());

  test('C35: in parts, in clear only when told so, and only of one space', async () => {
    const folder = join(place.folder, 'plain');
    const none = await runCli(['export', '-o', folder], place);
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('--plain')]);
    const args = ['export', '-o', folder, '--plain', '--part-size', '1000', '--space', ''];
    const { code, stderr } = await runCli(args, place);
    expect(code).toBe(0);
    expect(stderr).toContain('every value in clear');
    expect(stderr).toContain('AUDIT_LOG is not set');
    expect(readdirSync(folder).length).toBeGreaterThan(2);
    const pairs = await pairsIn(folder);
    expect(new Set(pairs.map(({ token }) => token)).size).toBe(5_000);
    for (const { token, value } of pairs) expect(token).toBe(`t-${value.slice(6)}_tok`);
    const again = await runCli(args, place);
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('is not empty')]);
    const empty = join(place.folder, 'empty');
    const other = await runJson(place, 'export', '-o', empty, '--plain', '--space', 'other');
    expect(other).toMatchObject({ files: 0, pairs: 0 });
  });

  test('F38: what a killed run left is completed by the next: each pair once', async () => {
    const folder = join(place.folder, 'killed');
    const args = ['export', '-o', folder, '--plain', '--part-size', '1000'];
    const slow = [...args, '--rate', '4000'];
    const child = spawnCli(slow, place);
    const ended = new Promise((resolve) => child.once('close', resolve));
    const has = (name: string) => {
      try {
        return readdirSync(folder).includes(name);
      } catch {
        return false;
      }
    };
    await until(() => has('manifest.json'), 'the first part');
    child.kill('SIGKILL');
    await ended;
    const bare = await runCli(args, place);
    expect([bare.code, bare.stderr]).toEqual([1, expect.stringContaining('--resume')]);
    const wrong = await runCli([...args, '--resume', '--space', 'x'], place);
    expect(wrong.stderr).toContain('The run to resume used --space');
    const { is_complete: isComplete, pairs: counted } = await runJson(place, ...args, '--resume');
    expect([isComplete, counted]).toEqual([true, 5_000]);
    const pairs = await pairsIn(folder);
    expect(pairs.map(({ token }) => token).toSorted()).toEqual(
      Array.from({ length: 5_000 }, (_, i) => `t-${i}_tok`).toSorted(),
    );
  });

  test('F38: Ctrl-C completes the part, and the next run goes on', async () => {
    const folder = join(place.folder, 'stopped');
    const args = ['export', '-o', folder, '--plain'];
    const log = join(place.folder, 'stopped.log');
    const child = spawnCli([...args, '--rate', '2000'], place, { AUDIT_LOG: log });
    const ended = endOf(child);
    const has = () => {
      try {
        return readdirSync(folder).some(
          (name) => name.startsWith('pairs-') && statSync(join(folder, name)).size > 0,
        );
      } catch {
        return false;
      }
    };
    await until(has, 'the first rows');
    child.kill('SIGINT');
    expect((await ended).code).toBe(130);
    expect(readdirSync(folder)).toEqual(['manifest.json', 'pairs-0001.ndjson']);
    const { length: pairs } = await pairsIn(folder);
    const last = readFileSync(log, 'utf8').trim().split('\n').at(-1)!;
    expect(JSON.parse(last)).toMatchObject({ outcome: 'interrupted', pairs });
    await runJson(place, ...args, '--resume');
    expect(await pairsIn(folder)).toHaveLength(5_000);
  });

  test('C36: the audit log says who exported what, before anything is written; without it nothing is', async () => {
    const log = join(place.folder, 'audit.log');
    const folder = join(place.folder, 'audited');
    const args = ['export', '-o', folder, '--plain', '--space', 'some'];
    expect((await runCli(args, place, { AUDIT_LOG: log })).code).toBe(0);
    const lines = readFileSync(log, 'utf8').trim().split('\n');
    const about = { event: 'export', space: 'some', is_encrypted: false, folder };
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ ...about, outcome: 'started', user: userInfo().username }),
      expect.objectContaining({ ...about, outcome: 'success', pairs: 0, without_token: 0 }),
    ]);
    const blocked = join(place.folder, 'blocked');
    const failing = ['export', '-o', blocked, '--plain'];
    const { code, stderr } = await runCli(failing, place, { AUDIT_LOG: '/proc/none/audit.log' });
    expect([code, stderr]).toEqual([1, expect.stringContaining('nothing was exported')]);
    expect(readdirSync(blocked)).toEqual([]);
  });
});
