import type { FieldContent } from '../http/schema.ts';
import type { Facts, OperationName } from './facts.ts';

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

export function answerExamples(facts: Facts, operation: OperationName): Examples {
  const kind = operation === 'detokenize' ? 'values' : 'tokens';
  return examplesOf(({ summary, ...contents }) => ({
    summary,
    value: inFields(facts, operation, contents[kind]),
  }));
}

/** A successful answer with this `data`. */
export function inFields(
  { answers }: Facts,
  operation: OperationName,
  data: unknown,
): Record<string, unknown> {
  const contents: Record<FieldContent, unknown> = {
    data,
    status: 'success',
    request_id: '63dc01d5-b356-45b6-8fc3-4853079f7d45',
    client_id: 'standin_4907e74b8c583784ff4253cc',
  };
  const fields = Object.entries(answers[operation]);
  return Object.fromEntries(fields.map(([name, content]) => [name, contents[content]]));
}

function examplesOf(
  example: (contents: (typeof CONTENTS)['flat' | 'nested']) => Example,
): Examples {
  return { flat: example(CONTENTS.flat), nested: example(CONTENTS.nested) };
}

export function errorExamples(facts: Facts, code: string): Examples {
  const { messages, isRetried } = facts.errors[code]!;
  const more = isRetried ? { retry_after: 1 } : {};
  const written = Object.entries(messages);
  if (written.length === 0) return { [code]: { summary: code, value: { error: code, ...more } } };
  return Object.fromEntries(
    written.map(([name, { message, operations }]) => {
      const summary = operations === undefined ? code : `${code}, of ${operations.join(', ')} only`;
      return [name, { summary, value: { error: code, message, ...more } }];
    }),
  );
}
