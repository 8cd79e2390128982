import type { Exchange } from '../exchange.ts';
import type { RequestData } from './request-data.ts';

/** A text of a request that stays as it was sent. */
export interface Unapplied {
  readonly index: number;
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

type Paths = Pick<RequestData, 'pathOf' | 'pathBytes'>;

const [BEFORE, BETWEEN, AFTER] = [',"unapplied":[', ',', ']'];

/** What comes after `data` in the answer, in small parts. One path can have 30 kB. */
export function* unappliedParts(request: Paths, all: readonly Unapplied[]): Generator<string> {
  yield BEFORE;
  for (const [i, { index, reason }] of all.entries()) {
    if (i > 0) yield BETWEEN;
    yield entry(JSON.stringify(request.pathOf(index)), reason);
  }
  yield AFTER;
}

/** The bytes of `unappliedParts`, none of which is made. */
export function unappliedBytes(request: Paths, all: readonly Unapplied[]): number {
  let bytes = BEFORE.length + AFTER.length + BETWEEN.length * Math.max(0, all.length - 1);
  for (const { index, reason } of all)
    bytes += entry('""', reason).length + request.pathBytes(index);
  return bytes;
}

function entry(path: string, reason: Unapplied['reason']): string {
  return `{"path":${path},"reason":"${reason}"}`;
}
