import { resolve } from 'node:path';
import { createFirstClient, type IssuedApiKey } from '../access/clients.ts';
import type { Config } from '../config/config.ts';
import { isApiKey, newApiKey } from '../crypto/api-key.ts';
import { errorCode, OperatorError } from '../errors.ts';
import type { Log } from '../observe/log.ts';
import { createSecret, makeDataDir, readSecret } from '../private-files.ts';
import type { Vault } from '../vault/vault.ts';
import type { Certificate } from './certificate.ts';

/** Where the first client can be called. */
interface StartedAt {
  readonly url: string;
  readonly opsUrl: string | undefined;
  readonly certificate: Certificate | undefined;
}

/**
 * Creates the first client of a new vault. Prints its API key on a terminal. Otherwise the key is
 * in a file before the client is created. Then a later start can use it if this process ends too
 * early.
 * @throws OperatorError that says what to do
 */
export async function createFirst(
  vault: Vault,
  { DATA_DIR, BOOTSTRAP_API_KEY_FILE: given, CLIENT_PREFIX }: Config,
  place: StartedAt,
  log: Log,
): Promise<void> {
  const isTerminal = process.stdout.isTTY === true;
  const made = isTerminal ? undefined : resolve(DATA_DIR, 'first-api-key');
  const file = given ?? made;
  const first = await createFirstClient(vault, CLIENT_PREFIX, () => {
    if (given !== undefined) return read(given, `BOOTSTRAP_API_KEY_FILE (${given})`);
    return made === undefined ? newApiKey() : readOrCreate(resolve(DATA_DIR), made);
  });
  if (first === undefined) return;
  if (file === undefined) process.stdout.write(firstStart(first, place));
  else
    log.warn(
      { client_id: first.client_id, api_key_file: file },
      'first start: created a client; give its API key to the caller, and delete the file',
    );
}

function readOrCreate(dataDir: string, file: string): string {
  makeDataDir(dataDir);
  try {
    createSecret(file, `${newApiKey()}\n`);
  } catch (error) {
    throw new OperatorError(
      `The vault has no client yet, and the API key of the first client cannot be written to ${file} (${errorCode(error)}). ${OTHER_WAYS}`,
    );
  }
  return read(file, `The file of the first API key (${file})`);
}

const OTHER_WAYS =
  'Name a file with an API key in BOOTSTRAP_API_KEY_FILE (make one with: standin api-key new), or create a client with: standin client create --name NAME';

function read(file: string, name: string): string {
  let apiKey: string;
  try {
    apiKey = readSecret(file, name).toString('latin1').trim();
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw new OperatorError(`${name} cannot be read (${errorCode(error)}). ${OTHER_WAYS}`);
  }
  if (isApiKey(apiKey)) return apiKey;
  throw new OperatorError(`${name} must contain one API key, and nothing else. ${OTHER_WAYS}`);
}

/**
 * The output of a first start: the API key, a call to try, and the address of the console. The call
 * checks the certificate even when its name resolves elsewhere or its authority is not trusted
 * here.
 */
function firstStart(
  { client_id: clientId, api_key: apiKey }: IssuedApiKey,
  { url, opsUrl, certificate }: StartedAt,
): string {
  const { options, base } =
    certificate === undefined ? { options: '', base: url } : overTls(url, certificate);
  return `
First start: created client ${clientId}. Its API key is shown only once:

  ${apiKey}

Try it:

  curl -s${options} '${base}/api/v1/tokenize' -H 'Authorization: Bearer ${apiKey}' -H 'Content-Type: application/json' -d '{"data":{"email":"ann@example.com","name":"Ann Lee"}}'

${opsUrl === undefined ? '' : `Look at it: ${opsUrl}/\n\n`}`;
}

function overTls(url: string, { files, nameFor }: Certificate) {
  const { host, hostname, port } = new URL(url);
  const name = nameFor(hostname.replace(/^\[|\]$/g, ''));
  const isElsewhere = !host.includes(name);
  const options = [
    ` --cacert '${files.certificateFile}'`,
    isElsewhere ? ` --connect-to '::${host}'` : '',
    files.clientCaFile === undefined ? '' : ' --cert CLIENT.pem --key CLIENT.key',
  ];
  return {
    options: options.join(''),
    base: isElsewhere ? `https://${name}:${port || 443}` : url,
  };
}
