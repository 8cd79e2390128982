import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { refusal } from '../errors.ts';

const ETAG_CHARACTERS = 22;

/** The entity tag of something: the same for equal JSON. */
export function etagOf(json: unknown): string {
  const digest = createHash('sha256').update(JSON.stringify(json)).digest('base64url');
  return `"${digest.slice(0, ETAG_CHARACTERS)}"`;
}

/**
 * Checks `If-Match` and `If-None-Match` before a change (RFC 9110, section 13.1).
 * @param etag undefined: it does not exist
 * @throws Refusal precondition_failed
 */
export function checkMatch(headers: IncomingHttpHeaders, etag: string | undefined): void {
  const { 'if-match': match, 'if-none-match': noneMatch } = headers;
  const is = etag === undefined ? 'does not exist' : `has the ETag ${etag}`;
  if (match !== undefined && !names(match, etag))
    throw refusal('precondition_failed', `It ${is}, which If-Match does not expect.`);
  if (noneMatch !== undefined && names(noneMatch, etag))
    throw refusal('precondition_failed', `It ${is}, which If-None-Match excludes.`);
}

/** Weak tags never match: no answer has one. */
function names(header: string, etag: string | undefined): boolean {
  if (etag === undefined) return false;
  return header.split(',').some((one) => one.trim() === '*' || one.trim() === etag);
}
