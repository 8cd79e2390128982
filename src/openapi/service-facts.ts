import { CALLER_ERRORS, INTERNAL_REASONS } from '../errors.ts';
import type { InterfaceVersion } from '../http/context.ts';
import { METHODS } from '../http/routes.ts';
import {
  FORBIDDEN_NAME,
  LIMIT_CODES,
  MAX_ANSWER_BODIES,
  MAX_DEPTH,
  MAX_NAME_BYTES,
  MAX_VALUE_BYTES,
  MESSAGES,
  SUCCESS,
} from '../http/schema.ts';
import { openApiDocument } from './document.ts';
import type { Facts } from './facts.ts';
import { referenceHtml } from './reference.ts';

/** The settings of a service that its document mentions. */
interface DocumentSettings {
  readonly INTERFACE_VERSION: InterfaceVersion;
  readonly BODY_LIMIT: number;
  readonly VALUES_LIMIT: number;
}

interface ApiPage {
  readonly content_type: string;
  readonly body: string;
}

/** The interface for the ops listener: for programs, and for the console. */
export function apiPages(
  settings: DocumentSettings,
  url: string,
): Record<'document' | 'reference', ApiPage> {
  const page = (type: string, body: string): ApiPage => ({
    content_type: `${type}; charset=utf-8`,
    body,
  });
  return {
    document: page('application/json', documentText(settings, url)),
    reference: page('text/html', referenceHtml(openApiDocument(factsOf(settings, url)))),
  };
}

/** The document as text, as it is shown, printed and kept in docs/openapi.json. */
export function documentText(settings: DocumentSettings, url: string): string {
  return `${JSON.stringify(openApiDocument(factsOf(settings, url)), null, 2)}\n`;
}

/** What the document says about a service that listens on `url`. */
export function factsOf(
  { INTERFACE_VERSION: version, BODY_LIMIT, VALUES_LIMIT }: DocumentSettings,
  url: string,
): Facts {
  return {
    version,
    url,
    limits: {
      valueBytes: MAX_VALUE_BYTES,
      nameBytes: MAX_NAME_BYTES,
      depth: MAX_DEPTH,
      values: VALUES_LIMIT,
      bodyBytes: BODY_LIMIT,
      answerBytes: MAX_ANSWER_BODIES * BODY_LIMIT,
      forbiddenName: FORBIDDEN_NAME,
    },
    methods: METHODS,
    answers: SUCCESS[version],
    errors: errorsOf(version, messagesOf(BODY_LIMIT)),
    limitCode: LIMIT_CODES[version],
  };
}

type Messages = Facts['errors'][string]['messages'];

/** Messages of the errors that have several, or one that is not in the table of errors. */
function messagesOf(bodyLimit: number): Readonly<Record<string, Messages>> {
  const records = ['tokenize', 'detokenize', 'lookup'] as const;
  const texts = ['tokenizeText', 'detokenizeText'];
  return {
    invalid_type: {
      no_string: {
        message:
          'data.age: must be a string, not a number; send it in quotes, JSON numbers lose digits',
        operations: records,
      },
      no_text: { message: 'data.text: must be a string', operations: texts },
      unknown_token: { message: 'data.name: is not a known token', operations: ['detokenize'] },
      no_data: { message: 'data: is missing' },
      no_json: { message: 'body: must be valid JSON' },
    },
    forbidden: Object.fromEntries(
      records.map((operation) => [
        `no_${operation}`,
        {
          message: MESSAGES.forbidden(operation),
          operations: [operation, ...texts.filter((one) => one === `${operation}Text`)],
        },
      ]),
    ),
    method_not_allowed: {
      only_post: {
        message: MESSAGES.method_not_allowed('POST'),
        operations: [...records, ...texts],
      },
      only_get: {
        message: MESSAGES.method_not_allowed('GET, HEAD'),
        operations: ['policy', 'health', 'live'],
      },
    },
    payload_too_large: { payload_too_large: { message: MESSAGES.payload_too_large(bodyLimit) } },
    internal_error: {
      database: { message: INTERNAL_REASONS.database_unavailable },
      license: {
        message: INTERNAL_REASONS.license_expired,
        operations: ['tokenize', 'tokenizeText'],
      },
      audit: { message: INTERNAL_REASONS.audit_unavailable, operations: [...records, ...texts] },
    },
  };
}

/** All errors of this version, without the 429 of the other one. */
function errorsOf(
  version: InterfaceVersion,
  messages: Readonly<Record<string, Messages>>,
): Facts['errors'] {
  const ofOthers: readonly string[] = Object.values(LIMIT_CODES).filter(
    (code) => code !== LIMIT_CODES[version],
  );
  const internal = {
    status: 500,
    when: 'the request is not at fault; `message` gives the reason in fixed words',
    message: '',
  };
  return Object.fromEntries(
    Object.entries({ ...CALLER_ERRORS, internal_error: internal })
      .filter(([code]) => !ofOthers.includes(code))
      .map(([code, { status, when, message }]) => {
        const own: Messages = message === '' ? {} : { [code]: { message } };
        const isRetried = status === 429 || status === 503;
        return [code, { status, when, messages: messages[code] ?? own, isRetried }];
      }),
  );
}
