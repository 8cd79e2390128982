import { resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import { isApiKey, newApiKey } from '../crypto/api-key.ts';
import { errorCode, OperatorError } from '../errors.ts';
import type { Log } from '../log.ts';
import { createSecret, makeDataDir, readSecret } from '../private-files.ts';
import type { Certificate } from '../service/certificate.ts';
import type { IssuedApiKey } from '../service/clients.ts';

/** The API key of the first client, and the file that it is in. */
export interface FirstKey {
  /** undefined: the key is printed on the terminal. */
  readonly file: string | undefined;
  /**
   * Call this before creating the first client. Then the key is in its file, and a later start can
   * use it if this process ends too early.
   * @throws OperatorError that says what to do
   */
  take(): string;
}

/** @param isTerminal whether a person, not a log, reads the output */
export function firstKey(
  { DATA_DIR, BOOTSTRAP_API_KEY_FILE: given }: Pick<Config, 'DATA_DIR' | 'BOOTSTRAP_API_KEY_FILE'>,
  isTerminal: boolean,
): FirstKey {
  if (given !== undefined)
    return { file: given, take: () => read(given, `BOOTSTRAP_API_KEY_FILE (${given})`) };
  if (isTerminal) return { file: undefined, take: newApiKey };
  const file = resolve(DATA_DIR, 'first-api-key');
  return { file, take: () => readOrCreate(resolve(DATA_DIR), file) };
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
  const apiKey = readText(file, name).trim();
  if (isApiKey(apiKey)) return apiKey;
  throw new OperatorError(`${name} must contain one API key, and nothing else. ${OTHER_WAYS}`);
}

function readText(file: string, name: string): string {
  try {
    return readSecret(file, name).toString('latin1');
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw new OperatorError(`${name} cannot be read (${errorCode(error)}). ${OTHER_WAYS}`);
  }
}

interface FirstStart {
  readonly first: IssuedApiKey;
  readonly url: string;
  readonly opsUrl: string | undefined;
  readonly certificate: Certificate | undefined;
}

/**
 * Reports the first client: its API key on a terminal, or the name of the key's file in the log.
 */
export function announce(
  shown: FirstStart,
  file: string | undefined,
  log: Pick<Log, 'warn'>,
): void {
  if (file === undefined) {
    process.stdout.write(firstStart(shown));
    return;
  }
  log.warn(
    { client_id: shown.first.client_id, api_key_file: file },
    'first start: created a client; give its API key to the caller, and delete the file',
  );
}

/**
 * The output of a first start: the API key, a call to try, and the address of the console. The call
 * checks the certificate even when its name resolves elsewhere or its authority is not trusted
 * here.
 */
function firstStart({
  first: { client_id: clientId, api_key: apiKey },
  url,
  opsUrl,
  certificate,
}: FirstStart): string {
  const { options, base } = certificate === undefined ? inClear(url) : overTls(url, certificate);
  return `
First start: created client ${clientId}. Its API key is shown only once:

  ${apiKey}

Try it:

  curl -s${options} '${base}/api/v1/tokenize' -H 'Authorization: Bearer ${apiKey}' -H 'Content-Type: application/json' -d '{"data":{"email":"ann@example.com","name":"Ann Lee"}}'

${opsUrl === undefined ? '' : `Look at it: ${opsUrl}/\n\n`}`;
}

function inClear(url: string) {
  return { options: '', base: url };
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
