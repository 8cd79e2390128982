import type { Log } from '../log.ts';
import type { Certificate } from '../service/certificate.ts';
import type { IssuedApiKey } from '../service/clients.ts';

interface Shown {
  readonly first: IssuedApiKey;
  readonly url: string;
  readonly ops_url: string | undefined;
  readonly certificate: Certificate | undefined;
}

/** Tells of the first client: the API key to a terminal alone, to the log the name of its file. */
export function announce(shown: Shown, file: string | undefined, log: Pick<Log, 'warn'>): void {
  if (file === undefined) {
    process.stdout.write(firstStart(shown));
    return;
  }
  log.warn(
    { client_id: shown.first.client_id, api_key_file: file },
    'first start: a client was made; give its API key to the caller, and remove the file',
  );
}

/**
 * What a first start prints: the API key, and a call to try it with, which checks the certificate
 * also where its name leads elsewhere or its authority is not known here; and where the console is.
 */
function firstStart({ first: { client_id, api_key }, url, ops_url, certificate }: Shown): string {
  const { options, base } = certificate === undefined ? inClear(url) : overTls(url, certificate);
  return `
First start: client ${client_id} was made. Its API key, shown only this once:

  ${api_key}

Try it:

  curl -s${options} '${base}/api/v1/tokenize' -H 'Authorization: Bearer ${api_key}' -H 'Content-Type: application/json' -d '{"data":{"email":"ann@example.com","name":"Ann Lee"}}'

${ops_url === undefined ? '' : `Look at it: ${ops_url}/\n\n`}`;
}

function inClear(url: string) {
  return { options: '', base: url };
}

function overTls(url: string, { files, nameFor }: Certificate) {
  const { host, hostname, port } = new URL(url);
  const name = nameFor(hostname.replace(/^\[|\]$/g, ''));
  const is_elsewhere = !host.includes(name);
  const options = [
    ` --cacert '${files.certificate_file}'`,
    is_elsewhere ? ` --connect-to '::${host}'` : '',
    files.client_ca_file === undefined ? '' : ' --cert CLIENT.pem --key CLIENT.key',
  ];
  return {
    options: options.join(''),
    base: is_elsewhere ? `https://${name}:${port || 443}` : url,
  };
}
