import { CALLER_ERRORS, INTERNAL_REASONS } from '../errors.ts';
import type { InterfaceVersion } from '../public/schema.ts';
import { LIMIT_CODES, MESSAGES } from '../public/schema.ts';
import { OF_LIMITS, response } from './elements.ts';
import { object, only, text, whole } from './schemas.ts';

/** The settings of a service that its document mentions. */
export interface DocumentSettings {
  readonly INTERFACE_VERSION: InterfaceVersion;
  readonly BODY_LIMIT: number;
  readonly VALUES_LIMIT: number;
}

const ERRORS: Readonly<Record<string, { status: number; when: string; message: string }>> = {
  ...CALLER_ERRORS,
  internal_error: {
    ...{
      status: 500,
      when: 'the request is not at fault; `message` gives the reason in fixed words',
    },
    message: '',
  },
};

/** The limit codes of the other versions. */
function isOfOther(code: string, version: InterfaceVersion): boolean {
  return code !== LIMIT_CODES[version] && Object.values<string>(LIMIT_CODES).includes(code);
}

/** Codes of errors that only known clients get. */
const KNOWN: readonly string[] = [
  ...['invalid_type', 'precondition_failed', 'payload_too_large', 'unsupported_media_type'],
  ...['user_limit', 'rate_limit', 'internal_error', 'overloaded'],
];
const OWN_HEADERS: Readonly<Record<string, readonly string[]>> = {
  ...{ unauthorized: ['WWW-Authenticate'], method_not_allowed: ['Allow'] },
};

/**
 * All kinds of errors of this version, by code. `invalid_type` and `bad_request` have the same
 * status, so the kind of the first includes the second.
 */
export function errorKinds({ INTERFACE_VERSION: version, BODY_LIMIT }: DocumentSettings) {
  const codes = Object.keys(ERRORS).filter((code) => !isOfOther(code, version));
  return Object.fromEntries(codes.map((code) => [code, kindOf(code, messagesOf(BODY_LIMIT))]));
}

/** A kind of error response: one schema and one response have its name. */
function kindOf(code: string, messages: Readonly<Record<string, Messages>>) {
  const codes = code === 'invalid_type' ? [code, 'bad_request'] : [code];
  const { status } = ERRORS[code]!;
  const isRetried = status === 429 || status === 503;
  const examples = codes.flatMap((one) => {
    const { message } = ERRORS[one]!;
    const own: Messages = message === '' ? {} : { [one]: [message] };
    return examplesOf(one, messages[one] ?? own, isRetried ? { retry_after: 1 } : {});
  });
  const clauses = codes
    .map((one) => ERRORS[one]!.when.replace(/ \(interface .*/, ''))
    .join('; or ');
  const meaning = `${clauses[0]!.toUpperCase()}${clauses.slice(1)}.`;
  const schema = object(meaning, {
    error: {
      ...(codes.length === 1 ? only(code) : { type: 'string', enum: codes }),
      description: 'The code to decide on.',
    },
    ...(examples.every(([, { value }]) => 'message' in value) && {
      message: text(
        'For people; its words may change. It says what to do, and names the place in the request, never the value.',
      ),
    }),
    ...(isRetried && { retry_after: whole('Seconds to wait, as in the header Retry-After.', 1) }),
  });
  const headers = [
    ...(OWN_HEADERS[code] ?? []),
    ...(KNOWN.includes(code) ? OF_LIMITS : []),
    ...(isRetried ? ['Retry-After'] : []),
  ];
  const name = nameOf(code);
  const shown = Object.fromEntries(examples);
  return { name, status, schema, response: response(meaning, name, shown, headers) };
}

function nameOf(code: string): string {
  if (Object.values<string>(LIMIT_CODES).includes(code)) return 'Limited';
  // Java has an InternalError, so a generated class of this name would be ambiguous.
  if (code === 'internal_error') return 'InternalFailure';
  return code.replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase());
}

/** Messages by the names of their examples; `only`: the operations that can have the message. */
type Messages = Readonly<Record<string, readonly [message: string, only?: readonly string[]]>>;

/** Messages of the errors that have several, or one that is not in the table of errors. */
function messagesOf(bodyLimit: number): Readonly<Record<string, Messages>> {
  const records = ['tokenize', 'detokenize', 'lookup'] as const;
  const texts = ['tokenizeText', 'detokenizeText'];
  const all = [...records, ...texts];
  const of = (operation: string) => all.filter((one) => one.startsWith(operation));
  return {
    invalid_type: {
      no_string: [
        'data.age: must be a string, not a number; send it in quotes, JSON numbers lose digits',
        records,
      ],
      no_text: ['data.text: must be a string', texts],
      unknown_token: ['data.name: is not a known token', ['detokenize']],
      no_data: ['data: is missing'],
      no_json: ['body: must be valid JSON'],
    },
    forbidden: Object.fromEntries(
      records.map((one) => [`no_${one}`, [MESSAGES.forbidden(one), of(one)]]),
    ),
    method_not_allowed: {
      only_post: [MESSAGES.method_not_allowed('POST'), all],
      only_get: [MESSAGES.method_not_allowed('GET, HEAD'), ['policy', 'health', 'live']],
    },
    payload_too_large: { payload_too_large: [MESSAGES.payload_too_large(bodyLimit)] },
    internal_error: {
      database: [INTERNAL_REASONS.database_unavailable],
      license: [INTERNAL_REASONS.license_expired, of('tokenize')],
      audit: [INTERNAL_REASONS.audit_unavailable, all],
    },
  };
}

/** Without messages, one example without a message. */
function examplesOf(code: string, messages: Messages, more: object) {
  const written = Object.entries(messages).map(([name, [message, only]]) => {
    const summary = only === undefined ? code : `${code}, of ${only.join(', ')} only`;
    return [name, { summary, value: { error: code, message, ...more } }] as const;
  });
  return written.length > 0
    ? written
    : [[code, { summary: code, value: { error: code, ...more } }] as const];
}
