import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { applyPolicy, startWithPolicy } from '../support/policy.ts';
import { postgresBin, query } from '../support/postgres.ts';
import { call, createClient, kinds, type Service, until } from '../support/service.ts';

const POLICY = `
version: 1
kinds:
  nick: { shape: text, mask: { show: ends, last: 2 } }
  brief: { shape: text, time_to_live_s: 60 }
fields: { nick: nick, brief: brief, name: text }
elsewhere: pass
`;
const RIGHTS = `
rights:
  hidden: { text: full }
  masked: { "*": masked }
  "*": { "*": full }
`;

describe.skipIf(postgresBin === undefined || !kinds().includes('server'))('under a policy', () => {
  let service: Service;
  beforeAll(async () => {
    service = await startWithPolicy(POLICY);
  });
  afterAll(async () => {
    await service.stop();
    service.place.remove();
  });

  test('the time to live of a kind counts before that of a client, and each client has its own', async () => {
    const { place } = service;
    const url = place.env.DATABASE_URL!;
    const lasting = await createClient(place);
    const ending = await createClient(place, '--time-to-live', '1h');
    const lives: Record<string, unknown[]> = {};
    for (const [name, { api_key: apiKey }] of Object.entries({ lasting, ending })) {
      await query(url, 'delete from standin.records');
      const data = { name: `Ann ${name}`, brief: `note of ${name}` };
      expect((await call(service, 'tokenize', data, apiKey)).status).toBe(200);
      // Times are rounded up, by a tenth at most.
      const lived = 'round(extract(epoch from expires_at - now()) / 70)::int as about';
      const rows = await query(url, `select ${lived} from standin.records order by 1`);
      lives[name] = rows.map(({ about }) => about);
    }
    expect(lives).toEqual({
      lasting: [1, null],
      ending: [1, expect.toSatisfy((about) => about > 45 && about < 60)],
    });
  });

  test('of a policy, strings at its paths are checked as all others are', async () => {
    for (const name of ['x'.repeat(65_537), '\ud800']) {
      const { status, body } = await call(service, 'tokenize', { name });
      expect([status, body.error]).toEqual([400, 'invalid_type']);
      expect(body.message).toMatch(/^data\.name: must/);
    }
  });

  test('its fields are read within the limit of requests', async () => {
    const { api_key: apiKey } = await createClient(service.place, '--rate-limit', '0.01');
    const read = async () =>
      (
        await fetch(`${service.url}/api/v1/policy`, {
          headers: { authorization: `Bearer ${apiKey}` },
        })
      ).status;
    expect([await read(), await read()]).toEqual([200, 429]);
  });

  test('a kind that leaves it stays in sight of clients with a full right, and of no others', async () => {
    const { place } = service;
    const { data } = (await call(service, 'tokenize', { nick: 'Annie Lee' })).body;
    const masked = await createClient(place, '--name', 'masked');
    const hidden = await createClient(place, '--name', 'hidden');
    await applyPolicy(
      service,
      2,
      POLICY.replace(/ {2}nick: \{.*\n/, '').replace('nick: nick, ', 'nick: text, ') + RIGHTS,
    );
    const seen = async (apiKey: string) => {
      const { status, body } = await call(service, 'detokenize', data, apiKey);
      return status === 200 ? body.data.nick : status;
    };
    await until(async () => (await seen(hidden.api_key)) === 403, 'the policy');
    expect(await seen(masked.api_key)).toBe('****');
    expect(await seen(service.api_key)).toBe('Annie Lee');
  });
});
