import { answerExamples, type Examples, requestExamples } from './examples.ts';
import type { Facts, Schema } from './facts.ts';
import { errorReferences, OF_DATA, OF_LIMITS, type Response, response } from './responses.ts';
import { ref } from './schemas.ts';
import { TEXT_REQUEST_EXAMPLES, textAnswerExamples } from './text.ts';

export interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly security: readonly Schema[];
  readonly parameters?: readonly Schema[];
  readonly requestBody?: {
    readonly description: string;
    readonly required: true;
    readonly content: { readonly 'application/json': { schema: Schema; examples: Examples } };
  };
  readonly responses: Readonly<Record<string, Response | { readonly $ref: string }>>;
}

/** Errors that any request can get, whatever its path. */
const EVERY: readonly string[] = [
  'not_found',
  'method_not_allowed',
  'request_timeout',
  'expectation_failed',
  'headers_too_large',
];

const VAULT: readonly string[] = [
  'invalid_type',
  'unauthorized',
  'forbidden',
  'precondition_failed',
  'payload_too_large',
  'unsupported_media_type',
  'internal_error',
  'overloaded',
];

/** The operations of the document, one for each path of the service. */
export function pathsOf(facts: Facts): Record<string, Record<string, Operation>> {
  const operations: Readonly<Record<string, Operation>> = {
    '/api/v1/tokenize': tokenize(facts),
    '/api/v1/detokenize': detokenize(facts),
    '/api/v1/lookup': lookup(facts),
    '/api/v1/text/tokenize': tokenizeText(facts),
    '/api/v1/text/detokenize': detokenizeText(facts),
    '/api/v1/policy': policy(facts),
    '/health': health(facts),
    '/health/live': liveness(facts),
  };
  return Object.fromEntries(
    Object.entries(facts.methods).map(([path, methods]) => [
      path,
      { [methods.split(',')[0]!.toLowerCase()]: operations[path]! },
    ]),
  );
}

function tokenize(facts: Facts): Operation {
  return {
    operationId: 'tokenize',
    tags: ['Vault'],
    summary: 'Values to tokens',
    description:
      'Replaces every string in `data` with a token; with a policy that names fields, the strings there. Equal values get equal tokens, so you can safely repeat a request. A client in random mode gets new tokens each time.',
    security: [{ apiKey: [] }],
    parameters: [IF_MATCH],
    requestBody: requestBody('TokenizeRequest', 'The values.', requestExamples('values')),
    responses: {
      200: response(
        'Tokens in the places of the values. Their records are stored durably.',
        ref('TokenizeAnswer'),
        answerExamples(facts, 'tokenize'),
        OF_DATA,
      ),
      ...errors(facts, [...VAULT, facts.limitCode]),
    },
  };
}

function detokenize(facts: Facts): Operation {
  return {
    operationId: 'detokenize',
    tags: ['Vault'],
    summary: 'Tokens to values',
    description:
      'Replaces every token in `data` with its value; with a policy that names fields, the tokens there. A mistyped token and a token that never existed get the same answer. Unknown tokens have their own limit, so that nobody can guess tokens: a client that sends too many gets a 429. Forgotten and expired tokens do not count.',
    security: [{ apiKey: [] }],
    parameters: [IF_MATCH, PREFER],
    requestBody: requestBody(
      'DetokenizeRequest',
      'The tokens, exactly as tokenize returned them.',
      requestExamples('tokens'),
    ),
    responses: {
      200: response(
        'Values in the places of the tokens.',
        ref('DetokenizeAnswer'),
        answerExamples(facts, 'detokenize'),
        [...OF_DATA, 'Preference-Applied'],
      ),
      ...errors(facts, [...VAULT, facts.limitCode]),
    },
  };
}

const IF_MATCH: Schema = {
  name: 'If-Match',
  in: 'header',
  description:
    'RFC 9110. The `ETag` of `/api/v1/policy`: if another policy is in force, the answer is a 412.',
  schema: { type: 'string' },
};

const PREFER: Schema = {
  name: 'Prefer',
  in: 'header',
  description:
    'RFC 7240. `handling=lenient`: unknown tokens, and values that the client may not see, stay as they were sent, and `unapplied` lists them.',
  schema: { type: 'string' },
  example: 'handling=lenient',
};

function lookup(facts: Facts): Operation {
  return {
    operationId: 'lookup',
    tags: ['Vault'],
    summary: 'The tokens that values have',
    description:
      'Like tokenize, but stores nothing: a value without a token gets null. The client needs the permission `lookup`, and its tokens must not be random.',
    security: [{ apiKey: [] }],
    parameters: [IF_MATCH],
    requestBody: requestBody('LookupRequest', 'The values.', requestExamples('values')),
    responses: {
      200: response(
        'Tokens in the places of the values that have one, else null.',
        ref('LookupAnswer'),
        answerExamples(facts, 'lookup'),
        OF_DATA,
      ),
      ...errors(facts, [...VAULT, facts.limitCode]),
    },
  };
}

function tokenizeText(facts: Facts): Operation {
  return {
    operationId: 'tokenizeText',
    tags: ['Text'],
    summary: 'A text with its values as tokens',
    description:
      'Replaces the spans of a text with tokens of letters, which can be found in running text. The vault needs a policy. It does not find personal data: the caller says where it is.',
    security: [{ apiKey: [] }],
    requestBody: requestBody(
      'TokenizeTextRequest',
      'The text, and where its values are.',
      TEXT_REQUEST_EXAMPLES.tokenize,
    ),
    responses: {
      200: response(
        'The text with tokens, and where they are.',
        ref('TokenizeTextAnswer'),
        textAnswerExamples(facts, 'tokenize'),
        OF_LIMITS,
      ),
      ...errors(facts, [...VAULT, facts.limitCode]),
    },
  };
}

function detokenizeText(facts: Facts): Operation {
  return {
    operationId: 'detokenizeText',
    tags: ['Text'],
    summary: 'A text with its tokens as values',
    description:
      'Finds tokens without spaces in running text, and replaces those that are known with the values that the client may see. Places that end like a token and are unknown count like unknown tokens of detokenize. To restore a stream, send its pieces with `more`, each after the `rest` of the one before.',
    security: [{ apiKey: [] }],
    requestBody: requestBody(
      'DetokenizeTextRequest',
      'The text with tokens.',
      TEXT_REQUEST_EXAMPLES.detokenize,
    ),
    responses: {
      200: response(
        'The text with values.',
        ref('DetokenizeTextAnswer'),
        textAnswerExamples(facts, 'detokenize'),
        OF_LIMITS,
      ),
      ...errors(facts, [...VAULT, facts.limitCode]),
    },
  };
}

function policy(facts: Facts): Operation {
  return {
    operationId: 'policy',
    tags: ['Vault'],
    summary: 'The fields of the policy',
    description:
      'Which strings of `data` are tokenized, and as which kind. A vault without a policy answers 404. Send the `ETag` as `If-Match` with requests that only this policy may serve.',
    security: [{ apiKey: [] }],
    responses: {
      200: response(
        'The policy in force.',
        ref('Policy'),
        {
          fields: {
            summary: 'Fields',
            value: {
              version: 3,
              fields: [{ path: 'customer.email', kind: 'email' }],
              elsewhere: 'refuse',
            },
          },
        },
        [...OF_LIMITS, 'ETag'],
      ),
      ...errors(facts, ['bad_request', 'unauthorized', 'internal_error', facts.limitCode]),
    },
  };
}

function health(facts: Facts): Operation {
  const example = (status: string, postgres: string): Examples => ({
    [status]: {
      summary: status,
      value: { status, timestamp: '2026-11-21T05:38:19Z', postgres, version: facts.version },
    },
  });
  return {
    operationId: 'health',
    tags: ['Health'],
    summary: 'Readiness',
    description: 'For load balancers and readiness probes. It needs no API key.',
    security: [],
    responses: {
      200: response('Send requests here.', ref('Healthy'), example('ok', 'ok')),
      ...errors(facts, ['bad_request']),
      503: response(
        'Send requests elsewhere: the database does not answer, or the process is about to end.',
        ref('Unhealthy'),
        example('error', 'error'),
      ),
    },
  };
}

function liveness(facts: Facts): Operation {
  return {
    operationId: 'live',
    tags: ['Health'],
    summary: 'Liveness',
    description:
      'For liveness probes: 200 while the process runs, even without a database. It needs no API key.',
    security: [],
    responses: {
      200: response('The process answers.', ref('Liveness'), {
        ok: { summary: 'ok', value: { status: 'ok' } },
      }),
      ...errors(facts, ['bad_request']),
    },
  };
}

function requestBody(schema: string, description: string, examples: Examples) {
  return {
    description,
    required: true,
    content: { 'application/json': { schema: ref(schema), examples } },
  } as const;
}

/** References to these errors, and to the errors that every operation has. */
const errors = (facts: Facts, codes: readonly string[]) =>
  errorReferences(facts, [...codes, ...EVERY]);
