import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  call,
  kinds,
  leastPrivilegePlace,
  newPlace,
  type Service,
  startService,
} from '../support/service.ts';

describe.each(kinds())('on the %s database', (kind) => {
  let service: Service;
  beforeAll(async () => {
    service = await startService(
      await (kind === 'server' ? leastPrivilegePlace() : newPlace(kind)),
    );
  });
  afterAll(async () => {
    await service.stop();
    service.place.remove();
  });

  test('A01: an e-mail and a name keep their shape and come back byte for byte', async () => {
    const data = { email: 'ann@ex.com', name: 'Ann Lee' };
    const tokenized = await call(service, 'tokenize', data);
    expect(tokenized.status).toBe(200);
    expect(tokenized.body.data.email).toMatch(/^[a-z]+@[a-z]+\.[a-z]+_tok$/);
    expect(tokenized.body.data.name).toMatch(/^[a-z]+ [a-z]+_tok$/);
    expect(tokenized.body.client_id).toMatch(/^standin_[0-9a-f]{24}$/);
    const restored = await call(service, 'detokenize', tokenized.body.data);
    expect(restored.body).toMatchObject({ data, status: 'success' });
  });
});
