import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { blocksUnder } from '../support/docs.ts';
import { ask, ownPlace, ownService, ownVault } from '../support/own.ts';
import { postgresBin } from '../support/postgres.ts';
import { createClient, kinds, type Place, typed } from '../support/service.ts';

/** The commands of the guide: the test runs what people read. */
const [make, copy, look] = blocksUnder(
  'docs/guides/script-to-production.md',
  'Taking the vault along',
);

test.skipIf(postgresBin === undefined || !kinds().includes('server'))(
  'a vault moves from the embedded database to a server, with its keys, clients, API keys, policy and records',
  async () => {
    const { place: embedded, service, json, tokenized } = await ownVault({ kind: 'embedded' });
    const { folder, env } = await ownPlace('server');
    const { DATABASE_URL = '' } = env;
    const moved = { DATABASE_URL, KEK_FILE: join(folder, 'moved.kek') };
    const script = (text: string) => typed(service, text, { ...moved, ...embedded.env });
    const reader = await createClient(embedded, '--can', 'detokenize');
    const policy = join(folder, 'policy.yaml');
    writeFileSync(policy, `version: 1\nrights: { "${reader.client_id}": { "*": full } }\n`);
    await json(['policy', 'apply', policy, '--yes']);
    const many = Array.from({ length: 3_000 }, (_, i) => `value ${i}`);
    const values = many.concat('\\N', 'a\tb\n', '');
    const tokens = await tokenized(values);
    await script(make!);
    const counts = (await script(copy!)).trim().split('\n');
    expect(counts).toContain(`records|${values.length}`);
    for (let i = 0; i < counts.length; i += 2) expect(counts[i + 1]).toBe(counts[i]);
    const seen = await script(look!);
    expect(seen).toContain('opens all 4 keys');
    expect(seen).toContain(`${values.length.toLocaleString('en')} records opened, 0 of them bad`);
    await service.stop();

    const place: Place = { kind: 'server', folder, env: moved, remove: () => {} };
    const after = await ownService(place);
    expect(after.output()).not.toContain('api_key_file');
    expect((await ask(after, 'detokenize', tokens, reader.api_key)).data).toEqual(values);
    expect((await ask(after, 'tokenize', values, service.api_key)).data).toEqual(tokens);
    // Without the policy, every client would see everything.
    expect((await ask(after, 'detokenize', tokens, service.api_key)).status).toBe(403);
  },
);
