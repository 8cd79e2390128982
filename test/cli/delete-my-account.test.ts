import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { ADMIN_TOKEN, adminPlace } from '../support/admin.ts';
import { blocks } from '../support/docs.ts';
import { startWithOps } from '../support/ops.ts';
import { call } from '../support/service.ts';

const GUIDE = 'docs/guides/delete-my-account.md';

test('the command of the guide forgets what it says', async () => {
  const service = await startWithOps(await adminPlace());
  try {
    const values = { email: 'ann@example.com', phone: '+1 415 555 2671', name: 'Ann Lee' };
    const { body } = await call(service, 'tokenize', values);
    const [command] = blocks(GUIDE, 'sh');
    const [shown] = blocks(GUIDE, 'json');
    const own = command!
      .replace('http://127.0.0.1:9464', service.opsUrl)
      .replace('qev mwi_tok', body.data.name);
    expect(own).not.toContain(':9464');
    const env = { PATH: process.env.PATH, ADMIN_TOKEN: `terraform:${ADMIN_TOKEN}` };
    const { stdout } = await promisify(execFile)('sh', ['-c', own], { env });
    expect(JSON.parse(stdout)).toEqual(JSON.parse(shown!));
    for (const token of Object.values(body.data)) {
      const { status } = await call(service, 'detokenize', { token });
      expect([token, status]).toEqual([token, 400]);
    }
  } finally {
    await service.stop();
    service.place.remove();
  }
});
