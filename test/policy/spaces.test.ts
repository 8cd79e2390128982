import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ask, startWithOps } from '../support/ops.ts';
import { call, createClient, newPlace, runCli, usualKinds } from '../support/service.ts';

const HEADERS = { 'content-type': 'application/json' };

describe.each(usualKinds())('the bytes of another space, on the %s database', (kind) => {
  let service: Awaited<ReturnType<typeof startWithOps>>;
  let ofTenant: string;
  /** A text of the default space that has the bytes of this token in the space. */
  let imitation: string;

  beforeAll(async () => {
    service = await startWithOps(await newPlace(kind));
    const options = ['--space', 'tenant', '--can', 'tokenize,detokenize'];
    ofTenant = (await createClient(service.place, ...options)).api_key;
    const { body } = await call(service, 'tokenize', { a: 'of the tenant' }, ofTenant);
    imitation = `\u0001\u0006tenant${body.data.a}`;
  });
  afterAll(async () => {
    await service.stop();
    service.place.remove();
  });

  async function post(path: string, body: object, lenient = false) {
    const response = await fetch(`${service.url}/api/v1/${path}`, {
      method: 'POST',
      headers: {
        ...HEADERS,
        ...(lenient ? { prefer: 'handling=lenient' } : {}),
        authorization: `Bearer ${service.api_key}`,
      },
      body: JSON.stringify(body),
    });
    const { request_id: _, ...rest } = (await response.json()) as Record<string, unknown>;
    return { status: response.status, rest: JSON.stringify(rest) };
  }

  async function metric(name: string): Promise<number> {
    const { text } = await ask(`${service.opsUrl}/metrics`);
    return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)![1]);
  }

  /** Restores of a large request are planned by the sizes of the values. */
  const many = (token: string) => ({ a: [token, ...Array(9).fill(`${'x'.repeat(300)}_tok`)] });

  test.each([
    ['detokenize', (token: string) => ({ data: { a: token } }), false],
    ['detokenize', (token: string) => ({ data: { a: token } }), true],
    ['detokenize', (token: string) => ({ data: many(token) }), false],
    ['text/detokenize', (token: string) => ({ text: `see ${token}` }), false],
  ] as const)('are a token that does not exist: %s of %o', async (path, of, lenient) => {
    const unknown = imitation.replace('tenant', 'tenanT');
    const [forged, never] = [
      await post(path, of(imitation), lenient),
      await post(path, of(unknown), lenient),
    ];
    expect(forged.rest.replaceAll(JSON.stringify(imitation), JSON.stringify(unknown))).toBe(
      never.rest,
    );
    expect(forged.status).toBe(never.status);
    expect(await metric('standin_damaged_records_total')).toBe(0);
    expect(service.output()).not.toContain('record_damaged');
  });

  test('count as a guess', async () => {
    const before = await metric('standin_unknown_tokens_total');
    await post('detokenize', { data: { a: imitation } });
    expect(await metric('standin_unknown_tokens_total')).toBe(before + 1);
  });

  test('forget nothing', async () => {
    const { stdout } = await runCli(['forget', imitation, '--yes', '--json'], service.place);
    expect(JSON.parse(stdout)).toMatchObject({ forgotten: 0, already_forgotten: 0, unknown: 1 });
    const { body } = await call(
      service,
      'detokenize',
      { a: imitation.slice('\u0001\u0006tenant'.length) },
      ofTenant,
    );
    expect(body.data).toEqual({ a: 'of the tenant' });
  });
});
