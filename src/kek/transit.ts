import { OperatorError } from '../errors.ts';
import { readSecret, readTrusted } from '../private-files.ts';
import { kekCiphertext } from './file.ts';
import { requestKey } from './request.ts';
import { KEK_TIMEOUTS, type KekSettings, readSetting } from './source.ts';

/**
 * The transit engine of HashiCorp Vault or OpenBao.
 * @param path file with the ciphertext of a data key, `vault:v1:...`
 */
export function kekTransit(path: string, settings: KekSettings, timeouts = KEK_TIMEOUTS) {
  const { KEK_TRANSIT_URL: url = '', KEK_TRANSIT_KEY: key = '' } = settings;
  const { KEK_TRANSIT_MOUNT: mount = '', KEK_TRANSIT_NAMESPACE: namespace } = settings;
  const by = `transit key ${key} of ${url}`;
  return kekCiphertext(path, 'KEK_TRANSIT_URL', by, async (content) => {
    const request = {
      server: 'Vault or OpenBao',
      setting: 'KEK_TRANSIT_URL',
      url: `${url.replace(/\/+$/, '')}/v1/${mount}/decrypt/${key}`,
      headers: {
        'x-vault-request': 'true',
        'x-vault-token': tokenOf(settings),
        ...(namespace && { 'x-vault-namespace': namespace }),
      },
      body: { ciphertext: checkedCiphertext(content, path) },
      ca: authorities(settings),
      remedies: remediesFor(mount, key),
    };
    const find = (body: { data: { plaintext: unknown } }) => body.data.plaintext;
    return Buffer.from((await requestKey(request, timeouts, find)).key, 'base64');
  });
}

function checkedCiphertext(content: Buffer, path: string): string {
  const text = content.toString('latin1').trim();
  if (/^vault:v\d{1,9}:[A-Za-z0-9+/]{1,8192}={0,2}$/.test(text)) return text;
  throw new OperatorError(
    `KEK_FILE (${path}) must contain a ciphertext of the transit engine, which begins with vault:v1: or a later version. Make one with: vault write -field=ciphertext -f transit/datakey/wrapped/NAME`,
  );
}

function tokenOf({ VAULT_TOKEN_FILE: tokenFile, VAULT_TOKEN: token }: KekSettings): string {
  if (tokenFile === undefined) return token!;
  const text = readSetting('VAULT_TOKEN_FILE', tokenFile, readSecret).trim();
  // A header allows only these characters. An empty file may be one that an agent is about to
  // write.
  if (/^[\x21-\x7e]{1,8192}$/.test(text)) return text;
  throw new OperatorError(
    `VAULT_TOKEN_FILE (${tokenFile}) must contain one token on one line. Write the token there.`,
  );
}

/** undefined: the authorities built into Node. */
function authorities({ KEK_TRANSIT_CA_FILE: caFile }: KekSettings): string | undefined {
  if (caFile === undefined) return undefined;
  const ca = readSetting('KEK_TRANSIT_CA_FILE', caFile, readTrusted);
  if (ca.includes('-----BEGIN CERTIFICATE-----')) return ca;
  throw new OperatorError(
    `KEK_TRANSIT_CA_FILE (${caFile}) contains no certificate in PEM. Put the certificate of the authority there.`,
  );
}

function remediesFor(mount: string, key: string): Record<number, string> {
  return {
    0: 'Its certificate is not trusted: name its authority in KEK_TRANSIT_CA_FILE, and check the name in KEK_TRANSIT_URL.',
    3: 'The server redirects: set KEK_TRANSIT_URL to the active node, or to a load balancer in front of it.',
    400: `There is no key ${key}, or KEK_FILE was encrypted with another key, or its version is below min_decryption_version: check KEK_TRANSIT_KEY and KEK_FILE.`,
    403: `The token has expired, or may not update ${mount}/decrypt/${key}: renew the token in VAULT_TOKEN_FILE, or extend its policy.`,
    404: 'No transit engine is there: check KEK_TRANSIT_MOUNT and KEK_TRANSIT_NAMESPACE.',
    503: 'The server is sealed, or a standby: unseal it, and start again.',
  };
}
