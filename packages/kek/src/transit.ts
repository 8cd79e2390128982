import { type RequestOptions, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { decryptedKek, readCiphertext } from './file.ts';
import {
  explained,
  KEK_ATTEMPTS,
  KEK_TIMEOUTS,
  KekError,
  type KekSource,
  type KekTimeouts,
  type PrivateFiles,
} from './source.ts';

/** The transit engine of HashiCorp Vault or OpenBao. */
export interface TransitSettings {
  readonly url: string;
  readonly key: string;
  readonly mount: string;
  readonly namespace: string | undefined;
  /** undefined: the authorities built into Node. */
  readonly caFile: string | undefined;
  /** Used before `token`. One of the two is set. */
  readonly tokenFile: string | undefined;
  readonly token: string | undefined;
}

/** Pause after the first attempt; each further pause is four times as long. */
const PAUSE_MS = 200;
const MAX_ANSWER_BYTES = 65_536;

interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

/** @param path file with the ciphertext of a data key, `vault:v1:...` */
export function kekTransit(
  path: string,
  settings: TransitSettings,
  files: PrivateFiles,
  patience = KEK_TIMEOUTS,
): KekSource {
  const by = `transit key ${settings.key} of ${settings.url}`;
  const read = async () => {
    const ciphertext = ciphertextOf(path, files);
    return decryptedKek(await decrypt(ciphertext, settings, files, patience), path, by);
  };
  return { place: `${path}, decrypted by ${by}`, setting: 'KEK_FILE', read };
}

function ciphertextOf(path: string, files: PrivateFiles): string {
  const text = readCiphertext(path, 'KEK_TRANSIT_URL', files).toString('latin1').trim();
  if (!/^vault:v\d{1,9}:[A-Za-z0-9+/]{1,8192}={0,2}$/.test(text)) {
    throw new KekError(
      `KEK_FILE (${path}) must contain a ciphertext of the transit engine, which begins with vault:v1: or a later version. Make one with: vault write -field=ciphertext -f transit/datakey/wrapped/NAME`,
    );
  }
  return text;
}

async function decrypt(
  ciphertext: string,
  settings: TransitSettings,
  files: PrivateFiles,
  patience: KekTimeouts,
): Promise<Buffer> {
  const { url, mount, key, namespace } = settings;
  const target = new URL(`${url.replace(/\/+$/, '')}/v1/${mount}/decrypt/${key}`);
  const body = JSON.stringify({ ciphertext });
  const options: RequestOptions = {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'content-length': body.length,
      'x-vault-request': 'true',
      'x-vault-token': tokenOf(settings, files),
      ...(namespace && { 'x-vault-namespace': namespace }),
    },
    ...(settings.caFile && { ca: authorities(settings.caFile, files) }),
    agent: false,
  };
  const answer = await post(target, options, body, patience);
  if (answer.status !== 200) throw new KekError(explain(answer.status, settings));
  return plaintextOf(answer.body, url);
}

function tokenOf({ tokenFile, token }: TransitSettings, { readSecret }: PrivateFiles): string {
  if (tokenFile === undefined) return token!;
  const text = readSetting('VAULT_TOKEN_FILE', tokenFile, readSecret).trim();
  // A header allows only these characters. An empty file may be one that an agent is about to
  // write.
  if (!/^[\x21-\x7e]{1,8192}$/.test(text)) {
    throw new KekError(
      `VAULT_TOKEN_FILE (${tokenFile}) must contain one token on one line. Write the token there.`,
    );
  }
  return text;
}

function authorities(caFile: string, { readTrusted }: PrivateFiles): string {
  const ca = readSetting('KEK_TRANSIT_CA_FILE', caFile, readTrusted);
  if (!ca.includes('-----BEGIN CERTIFICATE-----')) {
    throw new KekError(
      `KEK_TRANSIT_CA_FILE (${caFile}) contains no certificate in PEM. Put the certificate of the authority there.`,
    );
  }
  return ca;
}

function readSetting(setting: string, path: string, readFile: PrivateFiles['readSecret']): string {
  const name = `${setting} (${path})`;
  return explained(
    () => readFile(path, name).toString(),
    (code) => `${name} cannot be read (${code}). Name a file that this user can read.`,
  );
}

/** Sends the request again while the network or the server fails, until the time is up. */
async function post(
  target: URL,
  options: RequestOptions,
  body: string,
  { totalMs, attemptMs }: KekTimeouts,
): Promise<Answer> {
  const deadlineMs = performance.now() + totalMs;
  for (let attempt = 1; ; attempt++) {
    const leftMs = Math.max(1, Math.ceil(deadlineMs - performance.now()));
    const signal = AbortSignal.timeout(Math.min(attemptMs, leftMs));
    const pauseMs = PAUSE_MS * 4 ** (attempt - 1);
    const isLast = () => attempt === KEK_ATTEMPTS || performance.now() + pauseMs >= deadlineMs;
    try {
      const answer = await exchange(target, { ...options, signal }, body);
      if (answer.status < 500 || isLast()) return answer;
    } catch (error) {
      if (isLast()) throw new KekError(unreachable(signal.aborted, error, target.origin));
    }
    await sleep(pauseMs);
  }
}

function exchange(target: URL, options: RequestOptions, body: string): Promise<Answer> {
  const start = target.protocol === 'https:' ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    const request = start(target, options, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > MAX_ANSWER_BYTES) request.destroy(new Error('the answer is too long'));
      });
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode!, body: Buffer.concat(chunks) }),
      );
    });
    request.on('error', reject);
    request.end(body);
  });
}

function plaintextOf(body: Buffer, url: string): Buffer {
  try {
    const { plaintext } = JSON.parse(body.toString()).data;
    if (typeof plaintext === 'string') return Buffer.from(plaintext, 'base64');
  } catch {
    // The text of the parse error would contain the answer.
  }
  throw new KekError(
    `${url} answered 200 without a plaintext: it is not Vault or OpenBao. Check KEK_TRANSIT_URL.`,
  );
}

/** Decides by the status. The error texts of the server are never shown. */
function explain(status: number, { url, mount, key }: TransitSettings): string {
  const failed = `Transit key ${key} of ${url} did not decrypt the key-encryption key (status ${status}).`;
  if (status === 400) {
    return `${failed} There is no such key, or KEK_FILE was encrypted with another key, or its version is below min_decryption_version: check KEK_TRANSIT_KEY and KEK_FILE.`;
  }
  if (status === 403) {
    return `${failed} The token has expired, or may not update ${mount}/decrypt/${key}: renew the token in VAULT_TOKEN_FILE, or extend its policy.`;
  }
  if (status === 404) {
    return `${failed} No transit engine is there: check KEK_TRANSIT_MOUNT and KEK_TRANSIT_NAMESPACE.`;
  }
  if (status === 503)
    return `${failed} The server is sealed, or a standby: unseal it, and start again.`;
  if (status >= 300 && status < 400) {
    return `${failed} The server redirects: set KEK_TRANSIT_URL to the active node, or to a load balancer in front of it.`;
  }
  return `${failed} Check KEK_TRANSIT_URL, and the log of the server.`;
}

function unreachable(isLate: boolean, error: unknown, url: string): string {
  const code = isLate ? 'no answer in time' : ((error as NodeJS.ErrnoException).code ?? 'failed');
  const failed = `Vault or OpenBao cannot be reached at ${url} (${code}).`;
  return /CERT|ERR_TLS|ISSUER|SIGNED/.test(code)
    ? `${failed} Its certificate is not trusted: name its authority in KEK_TRANSIT_CA_FILE, and check the name in KEK_TRANSIT_URL.`
    : `${failed} Check KEK_TRANSIT_URL and the network, and start again.`;
}
