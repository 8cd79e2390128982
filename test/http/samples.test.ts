import { describe, expect, test } from 'vitest';
import { naughtyStrings, samples } from '../support/samples.ts';
import { served } from '../support/served.ts';
import { call, kinds, leastPrivilegePlace, newPlace, startService } from '../support/service.ts';
import { tokenPattern } from '../support/token-rules.ts';

describe.each(kinds())('on the %s database', (kind) => {
  const service = served(async () =>
    startService(await (kind === 'server' ? leastPrivilegePlace() : newPlace(kind))),
  );

  /** Tokenizes and restores all rows in one request each way; returns the rows of tokens. */
  async function roundTrip(rows: string[]): Promise<string[]> {
    const tokenized = await call(service, 'tokenize', { rows });
    expect(tokenized.status).toBe(200);
    expect(tokenized.body.client_id).toMatch(/^standin_[0-9a-f]{24}$/);
    const restored = await call(service, 'detokenize', tokenized.body.data);
    expect(restored.status).toBe(200);
    expect(restored.body).toMatchObject({ data: { rows }, status: 'success' });
    return tokenized.body.data.rows;
  }

  test('A01: an e-mail and a name keep their shape and come back byte for byte', async () => {
    const [email, name] = await roundTrip(['ann@ex.com', 'Ann Lee']);
    expect(email).toMatch(/^[a-z]{3}@[a-z]{2}\.[a-z]{3}_tok$/);
    expect(name).toMatch(/^[a-z]{3} [a-z]{3}_tok$/);
  });

  test.each<[string, readonly string[]]>([
    ['naughty strings', naughtyStrings],
    ...samples.map(({ name, rows }): [string, string[]] => [
      `cells of the sample ${name}`,
      rows.flatMap((row) => Object.values(row)),
    ]),
  ])(
    'all %s come back byte for byte, and every token has the shape of its value',
    async (_, all) => {
      const tokens = await roundTrip([...all]);
      all.forEach((value, i) => {
        expect(tokens[i], JSON.stringify(value)).toMatch(tokenPattern(value));
      });
      expect(new Set(tokens).size).toBe(new Set(all).size);
    },
  );
});
