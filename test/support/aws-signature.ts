import { createHash, createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** The parts of a request that AWS Signature Version 4 uses. */
export interface SignedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

/** Headers that a signature must cover: host, time and operation. */
const MUST_BE_SIGNED = ['host', 'x-amz-date', 'x-amz-target'];
const MAX_SKEW_MS = 300_000;

/**
 * Recomputes the signature of a request by the documented steps (canonical request, string to sign,
 * signing key). Returns the access key id of the request, and whether its signature is right.
 */
export function checkSignature(
  request: SignedRequest,
  scope: { region: string; service: string },
  secretOf: (accessKeyId: string) => string | undefined,
): { accessKeyId: string; isRight: boolean } {
  const { headers } = request;
  const [, accessKeyId = '', date, region, service, names = '', signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? '',
    ) ?? [];
  const signed = names.split(';');
  const amzDate = String(headers['x-amz-date']);
  const secret = secretOf(accessKeyId);
  const needed = headers['x-amz-security-token'] ? ['x-amz-security-token'] : [];
  const isComplete = [...MUST_BE_SIGNED, ...needed].every((name) => signed.includes(name));
  const isInScope = region === scope.region && service === scope.service;
  const isNow = amzDate.startsWith(date ?? '-') && skewMs(amzDate) < MAX_SKEW_MS;
  if (secret === undefined || !isComplete || !isInScope || !isNow)
    return { accessKeyId, isRight: false };
  const canonical = [
    request.method,
    request.path,
    '',
    ...signed.map((name) => `${name}:${String(headers[name]).trim().replaceAll(/ +/g, ' ')}`),
    '',
    names,
    sha256(request.body),
  ].join('\n');
  const credentialScope = `${date}/${region}/${service}/aws4_request`;
  const toSign = ['AWS4-HMAC-SHA256', amzDate, credentialScope, sha256(canonical)].join('\n');
  const key = [date!, region!, service!, 'aws4_request'].reduce<string | Buffer>(
    (key, part) => createHmac('sha256', key).update(part).digest(),
    `AWS4${secret}`,
  );
  const expected = createHmac('sha256', key).update(toSign).digest('hex');
  return { accessKeyId, isRight: signature === expected };
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** @param amzDate such as 20261121T104643Z */
function skewMs(amzDate: string): number {
  const iso = amzDate.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z');
  return Math.abs(Date.now() - Date.parse(iso));
}
