import type { Exchange } from './exchange.ts';

/** A place that stays as it was sent. */
export interface Unapplied {
  readonly path: string;
  readonly reason: 'unknown' | 'forbidden';
}

/** RFC 7240 section 2: a list of preferences, whose values may be quoted. */
const PREFERENCES = /(?:[^",]|"(?:[^"\\]|\\.)*"?)+/g;
/** The first one of a name counts. */
const HANDLING = /^\s*handling\s*(?:[=;]|$)/i;
const LENIENT = /^\s*handling\s*=\s*(?:lenient|"lenient")\s*(?:;|$)/i;

/**
 * Whether the caller prefers an answer with gaps to an error (RFC 7240 section 4.4). If so, the
 * answer says that it has them.
 */
export function isLenient({ request, headers }: Exchange): boolean {
  const { prefer } = request.headers;
  if (prefer === undefined) return false;
  const handling = String(prefer)
    .match(PREFERENCES)
    ?.find((preference) => HANDLING.test(preference));
  if (handling === undefined || !LENIENT.test(handling)) return false;
  headers['Preference-Applied'] = 'handling=lenient';
  return true;
}

/** Comes after `data` in the answer. */
export function unappliedText(unapplied: readonly Unapplied[]): string {
  return `,"unapplied":${JSON.stringify(unapplied)}`;
}
