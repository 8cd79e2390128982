import { describe, expect, test } from 'vitest';
import { naughtyStrings, samples } from '../support/samples.ts';
import { served } from '../support/served.ts';
import { call, kinds, leastPrivilegePlace, newPlace, startService } from '../support/service.ts';
import { tokenPattern } from '../support/token-rules.ts';

const EMAIL = /^[a-z]+@[a-z]+\.[a-z]+_tok$/;
const NAME = /^[a-z]+ [a-z]+_tok$/;

describe.each(kinds())('on the %s database', (kind) => {
  const service = served(async () =>
    startService(await (kind === 'server' ? leastPrivilegePlace() : newPlace(kind))),
  );

  /** Tokenizes and restores all rows in one request each way; returns the rows of tokens. */
  async function roundTrip(rows: unknown[]): Promise<any[]> {
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
    expect(email).toMatch(EMAIL);
    expect(name).toMatch(NAME);
  });

  test.each(samples)(
    'all customers of $name come back byte for byte, and every token has the shape of its value',
    async (sample) => {
      const customers = sample.rows.map((row): Record<string, string> => {
        return { full_name: `${row.first_name} ${row.last_name}`, ...row };
      });
      const rows = await roundTrip(customers);
      let twoWordNames = 0;
      customers.forEach((customer, i) => {
        for (const [field, value] of Object.entries(customer))
          expect(rows[i][field], `${field} of row ${i}`).toMatch(tokenPattern(value));
        expect(rows[i].email).toMatch(EMAIL);
        if (!/^\p{L}+ \p{L}+$/u.test(customer.full_name!.normalize('NFC'))) return;
        twoWordNames++;
        expect(rows[i].full_name).toMatch(NAME);
      });
      expect(twoWordNames).toBeGreaterThan(customers.length / 3);
    },
  );

  test('all naughty strings come back byte for byte, and every token has the shape of its value', async () => {
    const tokens = await roundTrip([...naughtyStrings]);
    naughtyStrings.forEach((value, i) => {
      expect(tokens[i], JSON.stringify(value)).toMatch(tokenPattern(value));
    });
    expect(new Set(tokens).size).toBe(new Set(naughtyStrings).size);
  });
});
