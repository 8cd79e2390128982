import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { createSecureContext } from 'node:tls';
import type { TlsPem } from '../types.ts';

/** A problem with one of the files of a TLS listener, in words for the operator. */
interface TlsProblem {
  readonly part: keyof TlsPem;
  readonly problem: string;
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*(-----END CERTIFICATE-----)?/g;

/**
 * Checks that a listener can use all three texts. Returns the certificate of the server, which is
 * the first of its chain. Never throws: half-written files are normal while a certificate is
 * renewed.
 */
export function examineTls(pem: TlsPem): X509Certificate | TlsProblem {
  const chain = chainOf(pem.certificate);
  if (typeof chain === 'string') return { part: 'certificate', problem: chain };
  const key = keyOf(pem.key);
  if (typeof key === 'string') return { part: 'key', problem: key };
  const [certificate] = chain;
  if (!certificate!.checkPrivateKey(key)) {
    const isLater = chain.some((one) => one.checkPrivateKey(key));
    const later =
      'belongs to a later certificate of the chain; put the certificate of the server first';
    return { part: 'key', problem: isLater ? later : 'does not belong to the certificate' };
  }
  const authorities = pem.clientCa === undefined ? [] : chainOf(pem.clientCa);
  if (typeof authorities === 'string') return { part: 'clientCa', problem: authorities };
  return refusalOfOpenSsl(pem) ?? certificate!;
}

/** The certificates in their order, or the problem. */
function chainOf(text: string): X509Certificate[] | string {
  const blocks = [...text.matchAll(PEM_CERTIFICATE)];
  if (blocks.length === 0) return 'has no certificate in PEM';
  try {
    return blocks.map(([block]) => new X509Certificate(block));
  } catch {
    return 'has a certificate that is damaged or cut off';
  }
}

function keyOf(text: string): KeyObject | string {
  if (/ENCRYPTED/.test(text)) return 'is encrypted; decrypt it with: openssl pkey';
  try {
    return createPrivateKey(text);
  } catch {
    return 'has no private key in PEM';
  }
}

/** OpenSSL refuses, for example, a key that is too small for its security level. */
function refusalOfOpenSsl({ certificate, key }: TlsPem): TlsProblem | undefined {
  try {
    createSecureContext({ cert: certificate, key });
    return undefined;
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    return { part: 'certificate', problem: `is not accepted by OpenSSL (${code})` };
  }
}

/**
 * A name that clients accept with this certificate: the address itself if the certificate has it.
 */
export function nameFor(certificate: X509Certificate, address: string): string {
  const isNamed = isIP(address) ? certificate.checkIP(address) : certificate.checkHost(address);
  if (isNamed !== undefined) return address;
  const name = /(?:^|, )DNS:([^,"]+)/.exec(certificate.subjectAltName ?? '')?.[1];
  return name?.replace(/^\*/, 'standin') ?? address;
}
