import type { Facts } from './facts.ts';

/** A kind of error answer: one schema and one response have its name. */
export interface ErrorKind {
  readonly name: string;
  /** The codes that an answer of this kind can have. */
  readonly codes: readonly string[];
  /** When the answer comes, as a sentence. */
  readonly meaning: string;
  readonly hasMessage: boolean;
  readonly isRetried: boolean;
}

/**
 * All kinds of errors of this version, by code. `invalid_type` and `bad_request` have the same
 * status, so the kind of the first includes the second.
 */
export function errorKinds({ errors, limitCode }: Facts): Record<string, ErrorKind> {
  return Object.fromEntries(
    Object.keys(errors).map((code) => {
      const codes = code === 'invalid_type' ? [code, 'bad_request'] : [code];
      const facts = codes.map((one) => errors[one]!);
      const kind = {
        name: code === limitCode ? 'Limited' : (NAMES[code] ?? pascalCase(code)),
        codes,
        meaning: sentence(facts.map(({ when }) => when.replace(/ \(interface .*/, ''))),
        hasMessage: facts.every(({ messages }) => Object.keys(messages).length > 0),
        isRetried: facts.every(({ isRetried }) => isRetried),
      };
      return [code, kind];
    }),
  );
}

/** Java has an InternalError, so a generated class of this name would be ambiguous. */
const NAMES: Readonly<Record<string, string>> = { internal_error: 'InternalFailure' };

const pascalCase = (code: string): string =>
  code.replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase());

function sentence(clauses: readonly string[]): string {
  const text = clauses.join('; or ');
  return `${text[0]!.toUpperCase()}${text.slice(1)}.`;
}
