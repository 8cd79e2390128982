import type { Facts, FieldContent, OperationName } from './facts.ts';

export interface Example {
  readonly summary: string;
  readonly value: unknown;
}

export type Examples = Readonly<Record<string, Example>>;

/** Values and their tokens in the examples. */
const CONTENTS = {
  flat: {
    summary: 'Fields',
    values: { name: 'Ann Lee', email: 'ann@example.com', iban: 'DE89 3704 0044 0532 0130 00' },
    tokens: {
      name: 'qev mwi_tok',
      email: 'urb@waovwde.dhq_tok',
      iban: 'sv25 1061 5761 7591 1392 74_tok',
    },
  },
  nested: {
    summary: 'Objects and arrays',
    values: { customer: { name: 'Ann Lee', emails: ['ann@example.com', 'bo@example.org'] } },
    tokens: {
      customer: { name: 'qev mwi_tok', emails: ['urb@waovwde.dhq_tok', 'wg@haqbene.wwz_tok'] },
    },
  },
};

export function requestExamples(kind: 'values' | 'tokens'): Examples {
  return examplesOf(({ summary, ...contents }) => ({ summary, value: { data: contents[kind] } }));
}

export function answerExamples({ answers }: Facts, operation: OperationName): Examples {
  const kind = operation === 'tokenize' ? 'tokens' : 'values';
  return examplesOf(({ summary, ...contents }) => {
    const inFields: Record<FieldContent, unknown> = {
      data: contents[kind],
      status: 'success',
      request_id: '63dc01d5-b356-45b6-8fc3-4853079f7d45',
      client_id: 'standin_4907e74b8c583784ff4253cc',
    };
    const fields = Object.entries(answers[operation]);
    const value = Object.fromEntries(fields.map(([name, content]) => [name, inFields[content]]));
    return { summary, value };
  });
}

function examplesOf(
  example: (contents: (typeof CONTENTS)['flat' | 'nested']) => Example,
): Examples {
  return { flat: example(CONTENTS.flat), nested: example(CONTENTS.nested) };
}

interface ErrorExample {
  readonly message: string;
  /** undefined: both operations have the error. */
  readonly operation?: OperationName;
}

/** Error messages for the examples, by code and example name. */
const messagesOf = ({
  messages,
}: Facts): Readonly<Record<string, Readonly<Record<string, ErrorExample>>>> => ({
  invalid_type: {
    no_string: {
      message:
        'data.age: must be a string, not a number; send it in quotes, JSON numbers lose digits',
    },
    unknown_token: { message: 'data.name: is not a known token', operation: 'detokenize' },
    no_data: { message: 'data: is missing' },
    no_json: { message: 'body: must be valid JSON' },
  },
  internal_error: {
    database: { message: messages.database },
    license: { message: messages.license, operation: 'tokenize' },
    audit: { message: messages.audit },
  },
});

export function errorExamples(facts: Facts, code: string): Examples {
  const messages = messagesOf(facts)[code];
  if (messages === undefined) {
    const more = facts.errors[code]!.field === 'retry_after' ? { retry_after: 1 } : {};
    return { [code]: { summary: code, value: { error: code, ...more } } };
  }
  return Object.fromEntries(
    Object.entries(messages).map(([name, { message, operation }]) => {
      const summary = operation === undefined ? code : `${code}, of ${operation} only`;
      return [name, { summary, value: { error: code, message } }];
    }),
  );
}
