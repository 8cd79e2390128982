import { describe, expect, test } from 'vitest';
import { governed } from '../support/policy.ts';
import { newPlace, runCli, usualKinds } from '../support/service.ts';
import { metric } from '../support/vault.ts';

describe.each(usualKinds())('the bytes of another space, on the %s database', (kind) => {
  const tenant = ['--space', 'tenant', '--can', 'tokenize,detokenize'];
  const at = governed(undefined, { tenant }, {}, () => newPlace(kind));
  const tokenOfTenant = async (): Promise<string> =>
    (await at.send('tokenize', { a: 'of the tenant' }, 'tenant')).body.data.a;
  /** A text of the default space that has the bytes of this token in the space. */
  const imitation = async (space = 'tenant') => `\u0001\u0006${space}${await tokenOfTenant()}`;

  async function post(path: string, data: unknown, lenient = false) {
    const prefer = lenient ? { prefer: 'handling=lenient' } : {};
    const { status, body } = await at.send(path, data, 'app', prefer as Record<string, string>);
    return `${status} ${JSON.stringify({ ...body, request_id: '' })}`;
  }

  /** Restores of a large request are planned by the sizes of the values. */
  const many = (token: string) => ({ a: [token, ...Array(9).fill(`${'x'.repeat(300)}_tok`)] });

  test.each([
    ['detokenize', (token: string) => ({ a: token }), false],
    ['detokenize', (token: string) => ({ a: token }), true],
    ['detokenize', many, false],
    ['text/detokenize', (token: string) => ({ text: `see ${token}` }), false],
  ] as const)('are a token that does not exist: %s of %o', async (path, of, lenient) => {
    const [token, unknown] = [await imitation(), await imitation('tenanT')];
    const forged = await post(path, of(token), lenient);
    const never = await post(path, of(unknown), lenient);
    expect(forged.replaceAll('u0006tenant', 'u0006tenanT')).toBe(never);
    expect(await metric(at.service, 'standin_damaged_records_total')).toBe(0);
    expect(at.service.output()).not.toContain('record_damaged');
  });

  test('count as a guess', async () => {
    const before = await metric(at.service, 'standin_unknown_tokens_total');
    await post('detokenize', { a: await imitation() });
    expect(await metric(at.service, 'standin_unknown_tokens_total')).toBe(before + 1);
  });

  test('forget nothing', async () => {
    const forget = ['forget', await imitation(), '--yes', '--json'];
    const { stdout } = await runCli(forget, at.service.place);
    expect(JSON.parse(stdout)).toMatchObject({ forgotten: 0, already_forgotten: 0, unknown: 1 });
    const { body } = await at.send('detokenize', { a: await tokenOfTenant() }, 'tenant');
    expect(body.data).toEqual({ a: 'of the tenant' });
  });
});
