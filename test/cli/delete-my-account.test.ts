import { expect, test } from 'vitest';
import { ADMIN_TOKEN, adminPlace } from '../support/admin.ts';
import { blocks } from '../support/docs.ts';
import { startWithOps } from '../support/ops.ts';
import { served } from '../support/served.ts';
import { call, typed } from '../support/service.ts';

const GUIDE = 'docs/guides/delete-my-account.md';

const service = served(async () => startWithOps(await adminPlace()));

test('the commands of the guide forget what it says', async () => {
  const values = { email: 'ann@example.com', phone: '+1 415 555 2671', name: 'Ann Lee' };
  const { body } = await call(service, 'tokenize', values);
  const [request, scan] = blocks(GUIDE, 'sh');
  const [answer] = blocks(GUIDE, 'json');
  const [printed] = blocks(GUIDE, 'text');
  const own = request!
    .replace('http://127.0.0.1:9464', service.opsUrl)
    .replace('qev mwi_tok', body.data.name);
  expect(own).not.toContain(':9464');
  const env = { ...service.place.env, ADMIN_TOKEN: `terraform:${ADMIN_TOKEN}` };
  const run = (script: string) => typed(service, script, env);
  expect(JSON.parse(await run(own))).toEqual(JSON.parse(answer!));
  for (const token of Object.values(body.data)) {
    const { status } = await call(service, 'detokenize', { token });
    expect([token, status]).toEqual([token, 400]);
  }
  const again = { ...JSON.parse(answer!), known: 0, forgotten: 0, already_forgotten: 3 };
  expect(JSON.parse(await run(own))).toEqual(again);
  expect((await run(scan!)).trim()).toBe(printed!.trim());
});
