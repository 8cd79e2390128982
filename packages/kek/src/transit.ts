import { decryptedKek, readCiphertext } from './file.ts';
import { ask, deadlineOf, type Unreachable } from './request.ts';
import {
  explained,
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
  const options = {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'content-length': body.length,
      'x-vault-request': 'true',
      'x-vault-token': tokenOf(settings, files),
      ...(namespace && { 'x-vault-namespace': namespace }),
    },
    ...(settings.caFile && { ca: authorities(settings.caFile, files) }),
  };
  const answer = await ask(target, options, body, deadlineOf(patience)).catch((error) => {
    throw new KekError(unreachable((error as Unreachable).code, target.origin));
  });
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

function unreachable(code: string, url: string): string {
  const failed = `Vault or OpenBao cannot be reached at ${url} (${code}).`;
  return /CERT|ERR_TLS|ISSUER|SIGNED/.test(code)
    ? `${failed} Its certificate is not trusted: name its authority in KEK_TRANSIT_CA_FILE, and check the name in KEK_TRANSIT_URL.`
    : `${failed} Check KEK_TRANSIT_URL and the network, and start again.`;
}
