import { describe, expect, test } from 'vitest';
import { loop } from '../support/loop.ts';
import { actsOn } from '../support/own.ts';
import { drawn, pairsFile } from '../support/pairs.ts';
import { servedVault } from '../support/served.ts';
import { call, createClient, kinds, makeRole } from '../support/service.ts';
import { detokenizeAll, openedVault, tokenizeAll } from '../support/vault.ts';

const NEW = { imported: 1, rejected: 0, detokenize_only: 0 };

describe.each(kinds())('an alias in the way of an imported token, on the %s database', (kind) => {
  const at = servedVault(kind);

  const acts = () => actsOn(at.place, at.service);
  const json = (command: string) => acts().json(command);
  const importPairs = (pairs: readonly object[], ...options: string[]) =>
    acts().json(['import', pairsFile(at.place, pairs), ...options]);
  const keyring = () => openedVault(at.place).keyring();
  const tokenOf = async (value: string) => (await acts().tokenized({ value })).value;
  const restored = async (token: string) => (await acts().restored({ token })).token;

  test('moves: its value keeps its token, and the imported one opens to its own value', async () => {
    const keys = await keyring();
    await importPairs([{ token: 'ann_tok', value: 'ann@example.com' }]);
    const [first, second] = [0, 1].map((from) => drawn(keys, 'ann@example.com', from));
    const pairs = [
      { token: first, value: 'bob@example.com' },
      { token: second, value: 'eve@example.com' },
    ];
    for (const options of [['--dry-run'], []])
      expect(await importPairs(pairs, ...options)).toMatchObject({ ...NEW, imported: 2 });
    expect(await importPairs(pairs)).toMatchObject({ already_known: 2, detokenize_only: 0 });
    const all = [{ token: 'ann_tok', value: 'ann@example.com' }, ...pairs];
    for (const { token, value } of all) {
      expect(await tokenOf(value)).toBe(token);
      expect(await restored(token!)).toBe(value);
    }
    await json('keyring rotate');
    expect(await json('keyring reseal')).toMatchObject({ bad: 0 });
    for (const { token, value } of all) expect(await tokenOf(value)).toBe(token);
    // A forgotten value comes back under its token, past both moves.
    await json('forget ann_tok --yes');
    expect(await tokenOf('ann@example.com')).toBe('ann_tok');
  });

  test('moves within its space', async () => {
    const space = 'tenant';
    const value = 'ann@example.com';
    const { api_key: apiKey } = await createClient(at.place, '--space', space);
    await importPairs([{ token: 'ann2_tok', value, space }]);
    const token = drawn(await keyring(), value, 0, space);
    const pairs = [{ token, value: 'bob@example.com', space }];
    expect(await importPairs(pairs)).toMatchObject(NEW);
    const values = { led: value, own: 'bob@example.com' };
    const ofTenant = actsOn(at.place, { ...at.service, api_key: apiKey });
    expect(await ofTenant.tokenized(values)).toEqual({ led: 'ann2_tok', own: token });
  });

  test('stays when its value was forgotten, and the import says so', async () => {
    const keys = await keyring();
    const value = 'gus@example.com';
    await importPairs([{ token: 'gus_tok', value }]);
    await json('forget gus_tok --yes');
    const file = pairsFile(at.place, [{ token: drawn(keys, value), value: 'hal@example.com' }]);
    for (const options of [['--dry-run'], []]) {
      const { code, stderr } = await acts().run(['import', file, ...options]);
      expect([code, stderr]).toEqual([1, expect.stringContaining('that it cannot read')]);
    }
    expect(await tokenOf(value)).toBe('gus_tok');
    expect(await tokenOf('hal@example.com')).not.toBe(drawn(keys, value));
  });

  test('a value whose own draw the token is keeps the one that it has', async () => {
    const keys = await keyring();
    // Of so many short values, two would get the same token.
    const byToken = new Map<string, string>();
    let pair: [string, string] | undefined;
    for (let i = 0; pair === undefined; i++) {
      const [value, token] = [`${i}`, drawn(keys, `${i}`)];
      const other = byToken.get(token);
      if (other !== undefined) pair = [other, value];
      byToken.set(token, value);
    }
    const [led, own] = pair;
    const token = drawn(keys, led);
    await importPairs([{ token: 'led_tok', value: led }]);
    const later = await tokenOf(own);
    expect(later).not.toBe(token);
    expect(await importPairs([{ token, value: own }])).toMatchObject({ detokenize_only: 1 });
    expect(await tokenOf(own)).toBe(later);
    expect([await restored(token), await restored(later)]).toEqual([own, own]);
    // Of the value whose alias it is, likewise.
    await importPairs([{ token: 'kim_tok', value: 'kim@example.com' }]);
    const kim = drawn(keys, 'kim@example.com');
    const again = { token: kim, value: 'kim@example.com' };
    expect(await importPairs([again])).toMatchObject({ imported: 1, detokenize_only: 1 });
    expect(await tokenOf('kim@example.com')).toBe('kim_tok');
    expect(await restored(kim)).toBe('kim@example.com');
    expect(await tokenOf(led)).toBe('led_tok');
  });

  test.skipIf(kind === 'embedded')('moves only for the owner of the tables', async () => {
    const keys = await keyring();
    await importPairs([{ token: 'leo_tok', value: 'leo@example.com' }]);
    const { name, url } = await makeRole(at.place);
    await json(`migrate --grant-to ${name}`);
    const pair = { token: drawn(keys, 'leo@example.com'), value: 'mia@example.com' };
    const importing = `import ${pairsFile(at.place, [pair])}`;
    const { code, stderr } = await acts().run(importing, { DATABASE_URL: url });
    expect([code, stderr]).toEqual([1, expect.stringContaining('may not move aliases')]);
    expect(await tokenOf('leo@example.com')).toBe('leo_tok');
    expect((await call(at.service, 'detokenize', { token: pair.token })).status).toBe(400);
  });

  test('moves under two imports, tokenizes, rotations and a kill at once: nothing has two tokens', async () => {
    const keys = await keyring();
    const values = Array.from({ length: 300 }, (_, i) => `led ${kind} ${i}`);
    const tokens = values.map((_, i) => `led-${kind}-${i}_tok`);
    await importPairs(values.map((value, i) => ({ token: tokens[i], value })));
    const inWay = values.map((value) => drawn(keys, value));
    const records = async () =>
      (await acts().sql('select count(*)::int from standin.records'))[0]!.count;
    const before = await records();
    const tokenizing = loop(async () =>
      expect(await tokenizeAll(at.service, values)).toEqual(tokens),
    );
    const importOf = (name: string) => {
      const rival = inWay.map((token, i) => ({ token, value: `${name} ${kind} ${i}` }));
      return `import ${pairsFile(at.place, rival)} --force --rejects ${name} --json`;
    };
    const commands = [importOf('one'), importOf('two')];
    const hasMoved = async () => (await records()) >= before + 50;
    const killed = await acts().interrupted(commands[0]!, hasMoved, 'SIGKILL');
    expect(killed.code).toBe('SIGKILL');
    const importing = commands.map((command) => acts().begin(command).ended);
    const rotating = (async () => {
      // Not for ever: each reseal makes the imports read the aliases again.
      for (let rotated = 0; rotated < 3; rotated++) {
        await json('keyring rotate');
        await json('keyring reseal');
      }
    })();
    const ends = await Promise.all(importing).finally(tokenizing.stop);
    await rotating;
    // Each rejects what the other was first with.
    const rejected = ends.map(({ stdout }) => JSON.parse(stdout).rejected as number);
    expect(rejected[0]! + rejected[1]!).toBe(300);
    const restoredValues = await detokenizeAll(at.service, inWay);
    restoredValues.forEach((value, i) => {
      expect([`one ${kind} ${i}`, `two ${kind} ${i}`]).toContain(value);
    });
    expect(await tokenizeAll(at.service, restoredValues)).toEqual(inWay);
    expect(await tokenizeAll(at.service, values)).toEqual(tokens);
    expect(await detokenizeAll(at.service, tokens)).toEqual(values);
    expect(await json('verify')).toMatchObject({ bad: 0 });
  });
});
