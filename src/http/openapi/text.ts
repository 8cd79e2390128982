import type { InterfaceVersion } from '../context.ts';
import { MAX_ANSWER_BODIES, MAX_DEPTH, MAX_NAME_BYTES, MAX_VALUE_BYTES } from '../schema.ts';

/** The settings of a service that its document mentions. */
export interface DocumentSettings {
  readonly INTERFACE_VERSION: InterfaceVersion;
  readonly BODY_LIMIT: number;
  readonly VALUES_LIMIT: number;
}

/**
 * Reasons for a 400 that JSON Schema cannot express. test/http/openapi-agreement.test.ts tests
 * schemas and rules against the service.
 */
export const UNSTATED_RULES = {
  valueBytes: () =>
    `a value longer than ${MAX_VALUE_BYTES} bytes of UTF-8 (schemas count characters)`,
  nameBytes: () => `a field name in \`data\` longer than ${MAX_NAME_BYTES} bytes of UTF-8`,
  depth: () =>
    `objects and arrays deeper inside each other than ${MAX_DEPTH} levels; \`data\` is the first`,
  values: ({ VALUES_LIMIT }: DocumentSettings) => `more than ${VALUES_LIMIT} values in a request`,
  duplicates: () => 'a field name that is in an object twice, anywhere in the body',
  unicode: () => 'half of a surrogate pair in `data`, or bytes that are not UTF-8',
} as const;

const REQUESTS = `Standin puts tokens of the same shape in the places of strings, and gives the
strings back.

Send a JSON object with \`data\`, an object. Strings at any depth inside \`data\` are replaced;
objects, arrays and field names stay. Numbers, \`true\`, \`false\` and \`null\` are refused: send them
in quotes. Fields beside \`data\` are ignored.

It is all or nothing. If one value is not acceptable, or one token is not known, the answer is a 400
that names its place, and nothing was stored or given back. A 200 of tokenize means that every token
is stored durably.`;

const UNSTATED = `## What the schemas do not say

These are a 400, too, and JSON Schema has no words for them:`;

const HEADERS = `## Headers

\`Authorization: Bearer\` and the API key; \`Content-Type: application/json\`, whose charset is utf-8
if there is one; no \`Content-Encoding\`. Every answer has \`X-Request-Id\`: with it, the operator
finds the request in the log.`;

const RETRIES = `## Errors, and trying again

Every answer that is not a success is JSON with \`error\`, a code to decide on. Send again:

- after a 429 or 503, when the seconds in \`Retry-After\` are over
- after a 500 with \`database unavailable\` or \`audit log unavailable\`: a second later, then longer
- after a 408 or a connection that broke: at once, then longer

Give up after as long as your own caller can wait. Other requests get the same answer again.
Tokenize may be repeated: equal values get equal tokens. (A client in random mode gets new ones;
the old ones are only unused.)`;

const METHODS = `## Other methods

HEAD is answered where GET is. OPTIONS is answered with 204 and the methods of the path in \`Allow\`.`;

/**
 * The introduction, in CommonMark with only paragraphs, headings, lists and code, for reference.ts.
 */
export function introduction(settings: DocumentSettings): string {
  const rules = Object.values(UNSTATED_RULES).map((rule) => `- ${rule(settings)}`);
  const maxAnswerBytes = MAX_ANSWER_BODIES * settings.BODY_LIMIT;
  return [
    REQUESTS,
    UNSTATED,
    rules.join('\n'),
    `A body larger than ${settings.BODY_LIMIT} bytes is a 413. A detokenize request whose values have more than ${maxAnswerBytes} bytes of JSON together is a 400.`,
    HEADERS,
    RETRIES,
    METHODS,
  ].join('\n\n');
}
