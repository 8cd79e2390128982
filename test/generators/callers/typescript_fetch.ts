// A caller of the client that openapi-generator makes with typescript-fetch.
import { readFileSync } from 'node:fs';
import {
  Configuration,
  HealthApi,
  InvalidTypeFromJSON,
  ResponseError,
  UnauthorizedFromJSON,
  VaultApi,
} from './standin';

const basePath = process.env.STANDIN_URL!;
const vaultOf = (accessToken: string) => new VaultApi(new Configuration({ basePath, accessToken }));

/** The body of a refusal with this status. */
async function refusal(call: Promise<unknown>, status: number): Promise<unknown> {
  const error = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(error instanceof ResponseError) || error.response.status !== status) throw error;
  return error.response.json();
}

async function main() {
  const vault = vaultOf(process.env.STANDIN_API_KEY!);
  const data: unknown = JSON.parse(readFileSync('data.json', 'utf8'));
  const tokens = await vault.tokenize({ tokenizeRequest: { data } });
  const values = await vault.detokenize({ detokenizeRequest: { data: tokens.data } });

  const number = vault.tokenize({ tokenizeRequest: { data: { age: 7 } } });
  const refused = InvalidTypeFromJSON(await refusal(number, 400));
  const stranger = vaultOf('stk_wrong').tokenize({ tokenizeRequest: { data } });
  const unauthorized = UnauthorizedFromJSON(await refusal(stranger, 401));

  const health = new HealthApi(new Configuration({ basePath }));
  const { timestamp, ...healthy } = await health.health();
  const answers = {
    tokens: tokens.data,
    request_id: tokens.request_id,
    client_id: tokens.client_id,
    values: values.data,
    status: values.status,
    refused: { error: refused.error, message: refused.message },
    unauthorized: { error: unauthorized.error },
    health: { ...healthy, timestamp: timestamp.toISOString() },
    live: (await health.live()).status,
  };
  console.log(JSON.stringify(answers));
}

void main();
