import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import fastify from 'fastify';
import pg from 'pg';

/**
 * A tokenization service as written in an afternoon: Fastify, a pool, one statement for each request.
 * Its answers are as durable as Standin's. It has no API keys, checks, logs or metrics, and simpler
 * tokens, all of which makes it faster.
 */
const hmacKey = randomBytes(32);
const sealKey = randomBytes(32);
const pool = new pg.Pool({ connectionString: process.argv[3]! });
await pool.query('create table vault (token text primary key, sealed bytea not null)');

const app = fastify({ logger: false, bodyLimit: 1_048_576 });
app.post<{ Body: { data: unknown } }>('/api/v1/tokenize', async ({ body }) => {
  const sealed = new Map<string, Buffer>();
  const data = replaceStrings(body.data, (value) => {
    const token = `${createHmac('sha256', hmacKey).update(value).digest('hex').slice(0, 24)}_tok`;
    sealed.set(token, seal(value));
    return token;
  });
  const insert = 'insert into vault select * from unnest($1::text[], $2::bytea[])';
  await pool.query(`${insert} on conflict do nothing`, [[...sealed.keys()], [...sealed.values()]]);
  return { data };
});
app.post<{ Body: { data: unknown } }>('/api/v1/detokenize', async ({ body }) => {
  const tokens: string[] = [];
  replaceStrings(body.data, (token) => String(tokens.push(token)));
  const { rows } = await pool.query('select * from vault where token = any($1)', [tokens]);
  const values = new Map(rows.map(({ token, sealed }) => [token, open(sealed)]));
  return { data: replaceStrings(body.data, (token) => values.get(token)!) };
});
app.get('/health/live', async () => ({ status: 'ok' }));
await app.listen({ host: '127.0.0.1', port: Number(process.argv[2]) });

function seal(value: string): Buffer {
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', sealKey, nonce);
  const ciphertext = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, ciphertext, cipher.getAuthTag()]);
}

function open(sealed: Buffer): string {
  const decipher = createDecipheriv('aes-256-gcm', sealKey, sealed.subarray(0, 12));
  decipher.setAuthTag(sealed.subarray(-16));
  return decipher.update(sealed.subarray(12, -16), undefined, 'utf8') + decipher.final('utf8');
}

function replaceStrings(json: unknown, replace: (text: string) => string): unknown {
  if (typeof json === 'string') return replace(json);
  if (Array.isArray(json)) return json.map((child) => replaceStrings(child, replace));
  const replaced: Record<string, unknown> = {};
  for (const [name, child] of Object.entries(json as object))
    replaced[name] = replaceStrings(child, replace);
  return replaced;
}
