import pg from 'pg';
import { expect, test } from 'vitest';
import { newPlace, startService } from '../support/service.ts';
import { vaultAddress } from '../support/vault.ts';

const CLIENTS = 6;
const QUERIES = 200;
const LARGE_BYTES = 300_000;

test('clients of the embedded database at once, some with large parameters, each get their own answers', async () => {
  const place = await newPlace('embedded');
  const service = await startService(place);
  const work = Array.from({ length: CLIENTS }, async (_, id) => {
    const client = new pg.Client(vaultAddress(place));
    await client.connect();
    const filler = 'x'.repeat(id % 2 === 0 ? LARGE_BYTES : 10);
    let right = 0;
    for (let i = 0; i < QUERIES; i++) {
      const { rows } = await client.query('select $1::text as mine, length($2::text) as length', [
        `${id}/${i}`,
        filler,
      ]);
      if (rows[0].mine === `${id}/${i}` && rows[0].length === filler.length) right++;
    }
    await client.end();
    return right;
  });
  expect(await Promise.all(work)).toEqual(Array(CLIENTS).fill(QUERIES));
  await service.stop();
  place.remove();
});
