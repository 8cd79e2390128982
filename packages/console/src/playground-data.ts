import { pathText, type Steps } from '#client/path';
import { eachMember, valueEnd } from '#paths/json-text';
import type { PolicyDetail } from './protocol.ts';

/**
 * The `data` of a request, as JSON. A text that does not look like JSON is one value.
 * @param hasFields whether the policy names fields: the service then replaces a list `values`
 * @throws Error with words for the user
 */
export function dataOf(text: string, hasFields: boolean): string {
  const trimmed = text.trim();
  if (trimmed === '')
    throw new Error('Type or paste a value or a JSON object, or take the example.');
  const data = /^[{["]/.test(trimmed) ? parsed(trimmed) : trimmed;
  if (typeof data !== 'string') return trimmed;
  return JSON.stringify(hasFields ? { values: [data] } : { value: data }, null, 2);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${(error as Error).message}`);
  }
}

/** The `data` of an answer, byte for byte: a parser would change some of its numbers. */
export function dataIn(answer: string): string {
  let data = '';
  eachMember(answer, 0, (start, end, from) => {
    const to = valueEnd(answer, from);
    if (answer.slice(start, end) === '"data"') data = answer.slice(from, to);
    return to;
  });
  return data;
}

/** A value that is no object or list, with its path, such as `customer.emails[1]`. */
interface Leaf {
  readonly path: string;
  readonly steps: Steps;
  readonly value: unknown;
}

/** All values in objects and lists, in order. */
export function leavesOf(data: unknown, steps: readonly (string | number)[] = []): Leaf[] {
  if (typeof data !== 'object' || data === null)
    return [{ path: inData(pathText(['data', ...steps])), steps, value: data }];
  const stepOf = Array.isArray(data) ? Number : String;
  return Object.entries(data).flatMap(([name, value]) => leavesOf(value, [...steps, stepOf(name)]));
}

/** A path of the service, which begins with `data`, as the page shows it. */
export function inData(path: string): string {
  return path.replace(/^data\.?/, '');
}

/**
 * The kind of each string that the service replaces, by path. Other values pass unchanged.
 * @param known the kinds of some strings, wherever they are
 */
export function kindsIn(
  data: object,
  { fields, elsewhere }: PolicyDetail,
  known: ReadonlyMap<unknown, string | undefined> = new Map(),
): ReadonlyMap<string, string> {
  // The service takes a lone list `values` for values of no field, unless the policy names it.
  const isList = 'values' in data && Array.isArray(data.values) && Object.keys(data).length === 1;
  const isText = fields === null || (isList && fields.every(({ steps }) => steps[0] !== 'values'));
  const kindAt = (steps: Steps) => {
    const fits = (step: Steps[number], i: number) =>
      step === steps[i] || (step === null && typeof steps[i] === 'number');
    const field = fields?.find((one) => one.steps.length === steps.length && one.steps.every(fits));
    return field?.kind ?? (elsewhere === 'tokenize' ? 'text' : undefined);
  };
  const kinds = new Map<string, string>();
  for (const { path, steps, value } of leavesOf(data)) {
    // The service replaces no empty string under a policy with fields.
    if (typeof value !== 'string' || (value === '' && !isText)) continue;
    const kind = isText ? 'text' : kindAt(steps);
    if (kind !== undefined) kinds.set(path, known.get(value) ?? kind);
  }
  return kinds;
}

/** The input that caused a failure, or the service. */
export type About = 'api-key' | 'text' | 'service';

export function failureOf(
  status: number,
  body: { readonly message?: string; readonly retry_after?: number },
): [about: About, words: string] {
  const { message = `The service answered ${status}.`, retry_after: retryAfter } = body;
  if (status === 401)
    return ['api-key', 'The service does not know this API key: mistyped, expired or revoked.'];
  if (status === 429)
    return ['api-key', `A limit of this client is reached. Try again in ${retryAfter} s.`];
  // With a path, it is about a kind that the client may not see.
  if (status === 403 && !message.startsWith('data')) return ['api-key', message];
  return [[400, 403, 413].includes(status) ? 'text' : 'service', message];
}
