import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import fastify from 'fastify';
import pg from 'pg';
import { announce } from './child.ts';

/**
 * A tokenization service as written in an afternoon: Fastify, a pool, one statement for each value.
 * Its answers are as durable as Standin's. It has no API keys, checks, logs or metrics, and simpler
 * tokens, all of which makes it faster.
 */
const hmacKey = randomBytes(32);
const sealKey = randomBytes(32);
const pool = new pg.Pool({ connectionString: process.argv[2]! });
await pool.query('create table vault (token text primary key, sealed bytea not null)');

const app = fastify({ logger: false, bodyLimit: 1_048_576 });
app.post<{ Body: { data: unknown } }>('/api/v1/tokenize', async ({ body }) => ({
  data: await replaceStrings(body.data, tokenize),
}));
app.post<{ Body: { data: unknown } }>('/api/v1/detokenize', async ({ body }) => ({
  data: await replaceStrings(body.data, detokenize),
}));
app.get('/health/live', async () => ({ status: 'ok' }));
announce(await app.listen({ host: '127.0.0.1', port: 0 }));

async function tokenize(value: string): Promise<string> {
  const token = `${createHmac('sha256', hmacKey).update(value).digest('hex').slice(0, 24)}_tok`;
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', sealKey, nonce);
  const ciphertext = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()]);
  const sealed = Buffer.concat([nonce, ciphertext, cipher.getAuthTag()]);
  await pool.query('insert into vault values ($1, $2) on conflict do nothing', [token, sealed]);
  return token;
}

async function detokenize(token: string): Promise<string> {
  const { rows } = await pool.query('select sealed from vault where token = $1', [token]);
  const sealed: Buffer = rows[0].sealed;
  const decipher = createDecipheriv('aes-256-gcm', sealKey, sealed.subarray(0, 12));
  decipher.setAuthTag(sealed.subarray(-16));
  return decipher.update(sealed.subarray(12, -16), undefined, 'utf8') + decipher.final('utf8');
}

async function replaceStrings(
  json: unknown,
  replace: (text: string) => Promise<string>,
): Promise<unknown> {
  if (typeof json === 'string') return replace(json);
  const replaced: any = Array.isArray(json) ? [] : {};
  for (const [name, child] of Object.entries(json as object)) {
    replaced[name] = await replaceStrings(child, replace);
  }
  return replaced;
}
