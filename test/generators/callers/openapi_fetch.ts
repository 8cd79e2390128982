// A caller with openapi-fetch and the types that openapi-typescript makes.
import { readFileSync } from 'node:fs';
import createClient from 'openapi-fetch';
import type { paths } from './standin/schema';

const baseUrl = process.env.STANDIN_URL!;
const clientOf = (apiKey: string) =>
  createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${apiKey}` } });

async function main() {
  const client = clientOf(process.env.STANDIN_API_KEY!);
  const data: unknown = JSON.parse(readFileSync('data.json', 'utf8'));
  const tokens = (await client.POST('/api/v1/tokenize', { body: { data } })).data!;
  const values = (await client.POST('/api/v1/detokenize', { body: { data: tokens.data } })).data!;

  const refused = await client.POST('/api/v1/tokenize', { body: { data: { age: 7 } } });
  if (refused.error?.error !== 'invalid_type') throw new Error('a number was not refused');
  const stranger = await clientOf('stk_wrong').POST('/api/v1/tokenize', { body: { data } });
  if (stranger.error?.error !== 'unauthorized') throw new Error('an API key was not refused');

  const keyless = createClient<paths>({ baseUrl });
  const health = (await keyless.GET('/health')).data!;
  const answers = {
    tokens: tokens.data,
    request_id: tokens.request_id,
    client_id: tokens.client_id,
    values: values.data,
    status: values.status,
    refused: refused.error,
    unauthorized: stranger.error,
    health,
    live: (await keyless.GET('/health/live')).data!.status,
  };
  console.log(JSON.stringify(answers));
}

void main();
