import { afterAll, beforeAll, expect, test } from 'vitest';
import { admin, adminPlace } from '../support/admin.ts';
import { readText } from '../support/docs.ts';
import { startWithOps } from '../support/ops.ts';

/** The requests that the provider makes of the example, as its documentation says. */
const EXAMPLE = JSON.parse(readText('examples/terraform/main.tf.json'));
const { create_method, update_method, destroy_method, id_attribute } = EXAMPLE.provider.restapi;
const objects: any[] = Object.values(EXAMPLE.resource.restapi_object);

let service: Awaited<ReturnType<typeof startWithOps>>;
beforeAll(async () => {
  service = await startWithOps(await adminPlace());
});
afterAll(async () => {
  await service.stop();
  service.place.remove();
});

test.each(objects)('creates, reads, updates and destroys: $data', async (object) => {
  const data = JSON.parse(object.data);
  const at = (path: string) => path.replace('{id}', data[id_attribute]).replace(/^\/admin\/v1/, '');
  const created = await admin(service.opsUrl, create_method, at(object.create_path), data);
  expect(created.status).toBe(201);
  expect(created.body).toMatchObject(data);
  const path = at(`${object.path}/{id}`);
  const read = await admin(service.opsUrl, 'GET', path);
  expect([read.status, read.body]).toEqual([200, created.body]);
  const changed = await admin(service.opsUrl, update_method, path, { ...data, rate_limit: 5 });
  expect([changed.status, changed.body.rate_limit]).toEqual([200, 5]);
  const applied = await admin(service.opsUrl, update_method, path, { ...data, rate_limit: 5 });
  expect(applied.body).toEqual(changed.body);
  for (let i = 0; i < 2; i++)
    expect((await admin(service.opsUrl, destroy_method, path)).status).toBeLessThan(300);
});
