import {
  FORBIDDEN_NAME,
  MAX_DEPTH,
  MAX_NAME_BYTES,
  MAX_RESPONSE_BODIES,
  MAX_VALUE_BYTES,
} from '../public/schema.ts';
import type { DocumentSettings } from './errors.ts';

/**
 * Reasons for a 400 that the schemas do not express. test/http/openapi-agreement.test.ts tests
 * schemas and rules against the service.
 */
export const UNSTATED_RULES = {
  lists: () =>
    'an array as `data`, without a policy that names fields; with one, an array of something else than objects',
  strings: () =>
    'a number, `true`, `false` or `null` in `data`, without a policy that names fields',
  valueBytes: () => `a value longer than ${MAX_VALUE_BYTES} bytes of UTF-8`,
  forbiddenName: () => `the field name \`${FORBIDDEN_NAME}\` in \`data\``,
  nameBytes: () => `a field name in \`data\` longer than ${MAX_NAME_BYTES} bytes of UTF-8`,
  depth: () => `objects and arrays nested deeper than ${MAX_DEPTH} levels; \`data\` is the first`,
  values: (most: number) => `more than ${most} values in a request`,
  duplicates: () => 'the same field name twice in an object, anywhere in the body',
  unicode: () => 'half of a surrogate pair in `data`, or bytes that are not UTF-8',
} as const;

const REQUESTS = `Standin replaces strings with tokens of the same shape, and turns tokens back
into strings.

Send a JSON object with \`data\`, an object or an array of objects. Standin ignores fields beside \`data\`. Which strings of
\`data\` it replaces depends on the policy that the operator has applied.

A request is all or nothing. If one value is not acceptable, or one token is unknown, the answer is a
400 that names the place, and nothing is stored or returned. When tokenize returns 200, every token is
stored durably.`;

const WITHOUT_FIELDS = `## Without a policy, or with one that names no fields

Standin replaces every string at any depth inside \`data\`; objects, arrays and field names stay. It
refuses numbers, \`true\`, \`false\` and \`null\`: send them in quotes.`;

const WITH_FIELDS = `## With a policy that names fields

\`GET /api/v1/policy\` says which fields the policy names. Standin replaces the strings there. Numbers,
\`true\`, \`false\`, \`null\`, blank strings and white space stay byte for byte; at a path of the policy,
only a string or \`null\` may be. \`elsewhere\` of the policy says what happens to all other strings:

- \`pass\`: they go through unchanged, in clear
- \`refuse\`: the answer is a 400 that names the path
- \`tokenize\`: they are values of the kind \`text\`; detokenize takes only tokens there

The header \`Standin-Strings\` of each success says how many strings were replaced, and how many passed in
clear: \`replaced=2, passed=1\`.

\`data\` may also be a list of records, each of them an object. To replace strings whatever fields the
policy names, send \`{"data":{"values":["..."]}}\`: they are values of the kind \`text\`, unless the policy
has a path that begins with \`values\`.`;

const UNSTATED = `## What the schemas do not say

The service also answers 400 to:`;

const HEADERS = `## Headers

Send \`Authorization: Bearer\` with the API key, and \`Content-Type: application/json\` with charset
utf-8 or none. Do not send \`Content-Encoding\`. Every answer has \`X-Request-Id\`, which identifies
the request in the log of the operator.`;

const RETRIES = `## Errors and retries

Every answer that is not a success is JSON with \`error\`, a code to decide on. Send again:

- after a 429 or 503, when the seconds in \`Retry-After\` have passed
- after a 500 with \`database unavailable\` or \`audit log unavailable\`: a second later, then after
  longer pauses
- after a 408 or a broken connection: at once, then after longer pauses

Give up when your own caller can wait no longer. Other requests would get the same answer again. You
can safely repeat tokenize: equal values get equal tokens. (A client in random mode gets new tokens;
the old tokens stay unused.)`;

const METHODS = `## Other methods

HEAD works wherever GET does. OPTIONS gets a 204 with the methods of the path in \`Allow\`.`;

/**
 * The introduction, in CommonMark with only paragraphs, headings, lists and code, for reference.ts.
 */
export function introduction({ VALUES_LIMIT, BODY_LIMIT }: DocumentSettings): string {
  const rules = Object.values(UNSTATED_RULES).map((rule) => `- ${rule(VALUES_LIMIT)}`);
  return [
    REQUESTS,
    WITHOUT_FIELDS,
    WITH_FIELDS,
    UNSTATED,
    rules.join('\n'),
    'With a policy that names fields, what stays as it is may break these rules, except the one about equal names.',
    `A body larger than ${BODY_LIMIT} bytes is a 413. A detokenize request whose values have more than ${MAX_RESPONSE_BODIES * BODY_LIMIT} bytes of JSON together is a 400.`,
    HEADERS,
    RETRIES,
    METHODS,
  ].join('\n\n');
}
