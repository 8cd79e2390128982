import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { naughtyStrings, samples } from '../support/samples.ts';
import {
  call,
  kinds,
  leastPrivilegePlace,
  newPlace,
  type Service,
  startService,
} from '../support/service.ts';
import { tokenPattern } from '../support/token-rules.ts';

describe.each(kinds())('sample rows on the %s database', (kind) => {
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

  /** Tokenizes and restores all rows in one request each way; returns the rows of tokens. */
  async function roundTrip(rows: unknown[]): Promise<any[]> {
    const tokenized = await call(service, 'tokenize', { rows });
    expect(tokenized.status).toBe(200);
    const restored = await call(service, 'detokenize', tokenized.body.data);
    expect(restored.status).toBe(200);
    expect(restored.body.data).toEqual({ rows });
    return tokenized.body.data.rows;
  }

  test.each(samples)(
    'all customers of $name come back byte for byte, and every token has the shape of its value',
    async (sample) => {
      const customers = sample.rows.map(
        (row): Record<string, string> => ({
          full_name: `${row.first_name} ${row.last_name}`,
          ...row,
        }),
      );
      const rows = await roundTrip(customers);
      let twoWordNames = 0;
      customers.forEach((customer, i) => {
        for (const [field, value] of Object.entries(customer)) {
          expect(rows[i][field], `${field} of row ${i}`).toMatch(tokenPattern(value));
        }
        expect(rows[i].email).toMatch(/^[a-z]+@[a-z]+\.[a-z]+_tok$/);
        if (/^\p{L}+ \p{L}+$/u.test(customer.full_name!.normalize('NFC'))) {
          twoWordNames++;
          expect(rows[i].full_name).toMatch(/^[a-z]+ [a-z]+_tok$/);
        }
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
