// A caller of the client that @hey-api/openapi-ts makes.
import { readFileSync } from 'node:fs';
import { detokenize, health, live, tokenize } from './standin';
import { createClient } from './standin/client';

const baseUrl = process.env.STANDIN_URL!;
const clientOf = (auth?: string) =>
  createClient({ baseUrl, ...(auth === undefined ? {} : { auth }) });

async function main() {
  const client = clientOf(process.env.STANDIN_API_KEY!);
  const data: unknown = JSON.parse(readFileSync('data.json', 'utf8'));
  const tokens = (await tokenize({ client, body: { data } })).data!;
  const values = (await detokenize({ client, body: { data: tokens.data } })).data!;

  const refused = await tokenize({ client, body: { data: { age: 7 } } });
  if (refused.error?.error !== 'invalid_type') throw new Error('a number was not refused');
  const stranger = await tokenize({ client: clientOf('stk_wrong'), body: { data } });
  if (stranger.error?.error !== 'unauthorized') throw new Error('an API key was not refused');

  const keyless = clientOf();
  const healthy = (await health({ client: keyless })).data!;
  const answers = {
    tokens: tokens.data,
    request_id: tokens.request_id,
    client_id: tokens.client_id,
    values: values.data,
    status: values.status,
    refused: refused.error,
    unauthorized: stranger.error,
    health: healthy,
    live: (await live({ client: keyless })).data!.status,
  };
  console.log(JSON.stringify(answers));
}

void main();
