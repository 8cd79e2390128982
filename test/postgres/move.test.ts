import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { blocksUnder } from '../support/docs.ts';
import { postgresBin } from '../support/postgres.ts';
import {
  CLI,
  call,
  createClient,
  kinds,
  newPlace,
  type Place,
  runCli,
  startService,
} from '../support/service.ts';

/** The commands of the guide: the test runs what people read. */
const [make, copy, look] = blocksUnder(
  'docs/guides/script-to-production.md',
  'Taking the vault along',
);

describe.skipIf(postgresBin === undefined || !kinds().includes('server'))(
  'a vault moves from the embedded database to a server',
  () => {
    const places: Place[] = [];
    afterAll(() => {
      for (const place of places) place.remove();
    });

    test('with its keys, clients, API keys, policy and records', async () => {
      const [embedded, empty] = [await newPlace('embedded'), await newPlace('server')];
      places.push(embedded, empty);
      const { DATABASE_URL } = empty.env;
      const moved: Place = {
        kind: 'server',
        folder: empty.folder,
        env: { DATABASE_URL: DATABASE_URL!, KEK_FILE: join(empty.folder, 'moved.kek') },
        remove: () => {},
      };
      const script = (text: string) =>
        execFileSync('sh', ['-ec', `standin() { "${process.execPath}" "${CLI}" "$@"; }\n${text}`], {
          encoding: 'utf8',
          env: {
            PATH: [postgresBin, process.env.PATH].join(':'),
            HOME: tmpdir(),
            ...moved.env,
            DATA_DIR: embedded.env.DATA_DIR,
          },
        });

      const before = await startService(embedded);
      const reader = await createClient(embedded, '--can', 'detokenize');
      const policy = join(empty.folder, 'policy.yaml');
      writeFileSync(policy, `version: 1\nrights: { "${reader.client_id}": { "*": full } }\n`);
      expect((await runCli(['policy', 'apply', policy, '--yes'], embedded)).code).toBe(0);
      const values = Array.from({ length: 3_000 }, (_, i) => `value ${i}`).concat(
        '\\N',
        'a\tb\n',
        '',
      );
      const tokens = (await call(before, 'tokenize', { values })).body.data.values as string[];
      script(make!);
      const counts = script(copy!).trim().split('\n');
      expect(counts).toContain(`records|${values.length}`);
      for (let i = 0; i < counts.length; i += 2) expect(counts[i + 1]).toBe(counts[i]);
      const seen = script(look!);
      expect(seen).toContain('opens all 4 keys');
      expect(seen).toContain(`${values.length.toLocaleString('en')} records opened, 0 of them bad`);
      await before.stop();

      const after = await startService(moved);
      expect(after.output()).not.toContain('api_key_file');
      const restored = await call(after, 'detokenize', { values: tokens }, reader.api_key);
      expect(restored.body.data.values).toEqual(values);
      const again = await call(after, 'tokenize', { values }, before.api_key);
      expect(again.body.data.values).toEqual(tokens);
      // Without the policy, every client would see everything.
      expect((await call(after, 'detokenize', { values: tokens }, before.api_key)).status).toBe(
        403,
      );
      await after.stop();
    });
  },
);
