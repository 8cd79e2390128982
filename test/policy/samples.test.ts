import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWithPolicy } from '../support/policy.ts';
import { postgresBin } from '../support/postgres.ts';
import { samples } from '../support/samples.ts';
import { kinds, type Service } from '../support/service.ts';

/** Ten paths: every column with personal data of both samples. */
const POLICY = {
  version: 1,
  kinds: {
    phone: { shape: 'digits', keep_last: 2, mask: { show: 'ends', last: 2 } },
    place: { shape: 'word' },
  },
  fields: {
    'rows[*].full_name': 'text',
    'rows[*].first_name': 'text',
    'rows[*].last_name': 'text',
    'rows[*].company': 'word',
    'rows[*].email': 'email',
    'rows[*].address': 'place',
    'rows[*].district': 'place',
    'rows[*].postal_code': 'text',
    'rows[*].phone': 'text',
    'rows[*].fax': 'phone',
  },
  elsewhere: 'pass',
};
const ROWS_A_REQUEST = 50;
const RUNS = postgresBin !== undefined && kinds().includes('server');

describe.skipIf(!RUNS)('whole records of customers', () => {
  let service: Service;

  beforeAll(async () => {
    service = await startWithPolicy(JSON.stringify(POLICY));
  });

  afterAll(() => service?.stop());

  test.each(samples)('of the sample $name', async ({ rows }) => {
    expect(rows.length).toBeGreaterThan(50);
    for (let from = 0; from < rows.length; from += ROWS_A_REQUEST) {
      const part = rows.slice(from, from + ROWS_A_REQUEST).map(recordText);
      const body = `{ "rows" : [\n${part.join(',\n')}\n], "page": ${from}.00 }`;
      const tokens = await post('tokenize', body);
      for (const { email } of rows.slice(from, from + ROWS_A_REQUEST))
        expect(tokens).not.toContain(JSON.stringify(email));
      expect(await post('detokenize', tokens)).toBe(body);
    }
  });

  /** Returns the text of `data` in the answer. */
  async function post(operation: string, data: string): Promise<string> {
    const response = await fetch(`${service.url}/api/v1/${operation}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${service.api_key}`, 'content-type': 'application/json' },
      body: `{"data":${data}}`,
    });
    const text = await response.text();
    expect([response.status, text.slice(0, 200)]).toEqual([200, expect.any(String)]);
    return text.slice('{"data":'.length, text.search(/,"(?:status|request_id)":/));
  }
});

/** A number as id, null for an empty cell, and other values that are no strings. */
function recordText(row: Record<string, string>): string {
  const { customer_id: id, ...cells } = row;
  const members = Object.entries(cells).map(
    ([name, cell]) => `${JSON.stringify(name)}:${cell === '' ? 'null' : JSON.stringify(cell)}`,
  );
  return `{"id": 90071992547409930${id}, "active":true,${members.join(', ')}, "score":1.50}`;
}
