import { type Example, type Examples, inFields } from './examples.ts';
import type { Facts, OperationName, Schema } from './facts.ts';
import { answer, ref, success } from './schemas.ts';

/** Texts with personal data in them: `/api/v1/text/...`. */
const SPAN = { start: 5, end: 12, kind: 'word' };
const TOKEN = 'hcumcvhqfc_tok';
const PLAIN = { text: 'Call Ann Lee (again).', spans: [SPAN] };
const TOKENIZED = {
  text: `Call ${TOKEN} (again).`,
  spans: [{ ...SPAN, end: SPAN.start + TOKEN.length }],
};

const example = (value: unknown): Examples => ({ text: { summary: 'A text', value } as Example });

export const TEXT_REQUEST_EXAMPLES = {
  tokenize: example({ data: PLAIN }),
  detokenize: example({ data: { text: TOKENIZED.text } }),
} as const;

export function textAnswerExamples(facts: Facts, operation: OperationName): Examples {
  if (operation === 'tokenize') return example(inFields(facts, operation, TOKENIZED));
  const { data, ...rest } = inFields(facts, operation, { text: PLAIN.text });
  return example({ data, unapplied: [], ...rest });
}

const text = (description: string): Schema => ({ type: 'string', description });
const offset = (description: string): Schema => ({ type: 'integer', minimum: 0, description });

export function textSchemas({ answers }: Facts): Record<string, Schema> {
  const restored = answer('A text with values in the places of tokens.', {
    text: text('The text, without `rest`.'),
  });
  const piece = answer('A text with tokens in it, or a piece of one.', {
    text: text('The text.'),
  });
  return {
    TokenizeTextRequest: answer('A text.', { data: ref('SpannedText') }),
    TokenizeTextAnswer: success(answers.tokenize, ref('SpannedText'), 'The text with tokens.'),
    DetokenizeTextRequest: answer('A text.', { data: ref('TokenizedText') }),
    DetokenizeTextAnswer: restoredAnswer(
      success(answers.detokenize, ref('RestoredText'), 'The text with values.'),
    ),
    SpannedText: answer('A text and the places of values, or of their tokens, in it.', {
      text: text('Well-formed Unicode.'),
      spans: { type: 'array', description: 'They do not overlap.', items: ref('Span') },
    }),
    Span: answer('A place in a text.', {
      start: offset('Of its first code point.'),
      end: offset('Of the code point after it.'),
      kind: { ...text('A kind of the policy, of shape `word` with suffix.'), minLength: 1 },
    }),
    TokenizedText: withOptional(
      { ...piece, additionalProperties: false },
      {
        more: {
          type: 'boolean',
          description: 'Whether this is a piece, and another one follows.',
        },
      },
    ),
    RestoredText: withOptional(restored, {
      rest: text(
        'With `more`: the end of the piece, which may be the beginning of a token. Send it before the next piece.',
      ),
    }),
  };
}

function withOptional({ properties, ...schema }: Schema, more: Schema): Schema {
  return { ...schema, properties: { ...(properties as Schema), ...more } };
}

function restoredAnswer(schema: Schema): Schema {
  const unapplied = {
    type: 'array',
    description: 'Places like `data.text[5:19]`, in code points, that stay as they were sent.',
    items: ref('Unapplied'),
  };
  const required = [...(schema.required as string[]), 'unapplied'];
  return withOptional({ ...schema, required }, { unapplied });
}
