import { createHash, createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** A request as AWS Signature Version 4 sees it. */
export interface SignedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Credentials {
  readonly access_key_id: string;
  readonly secret_access_key: string;
  readonly session_token?: string;
}

/** Headers that a signature must cover: what the request is, where it goes, when, and for whom. */
const MUST_BE_SIGNED = ['host', 'x-amz-date', 'x-amz-target'];
const MAX_SKEW_MS = 300_000;

/**
 * Computes the signature of a request anew, by the steps that AWS documents (canonical request, string to sign, signing key).
 * Returns the access key id it was made with, and whether the signature is right.
 */
export function checkSignature(
  request: SignedRequest,
  scope: { region: string; service: string },
  secretOf: (access_key_id: string) => string | undefined,
): { access_key_id: string; is_right: boolean } {
  const { headers } = request;
  const [, access_key_id = '', date, region, service, names = '', signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? '',
    ) ?? [];
  const signed = names.split(';');
  const amz_date = String(headers['x-amz-date']);
  const secret = secretOf(access_key_id);
  const needed = headers['x-amz-security-token'] ? ['x-amz-security-token'] : [];
  const is_complete = [...MUST_BE_SIGNED, ...needed].every((name) => signed.includes(name));
  const is_in_scope = region === scope.region && service === scope.service;
  const is_now = amz_date.startsWith(date ?? '-') && skewMs(amz_date) < MAX_SKEW_MS;
  if (secret === undefined || !is_complete || !is_in_scope || !is_now)
    return { access_key_id, is_right: false };
  const canonical = [
    request.method,
    request.path,
    '',
    ...signed.map((name) => `${name}:${String(headers[name]).trim().replaceAll(/ +/g, ' ')}`),
    '',
    names,
    sha256(request.body),
  ].join('\n');
  const credential_scope = `${date}/${region}/${service}/aws4_request`;
  const to_sign = ['AWS4-HMAC-SHA256', amz_date, credential_scope, sha256(canonical)].join('\n');
  const key = [date!, region!, service!, 'aws4_request'].reduce<string | Buffer>(
    (key, part) => createHmac('sha256', key).update(part).digest(),
    `AWS4${secret}`,
  );
  const expected = createHmac('sha256', key).update(to_sign).digest('hex');
  return { access_key_id, is_right: signature === expected };
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** @param amz_date like 20261121T104643Z */
function skewMs(amz_date: string): number {
  const iso = amz_date.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z');
  return Math.abs(Date.now() - Date.parse(iso));
}
