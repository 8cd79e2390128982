import type { FieldContent } from '../http/schema.ts';

/**
 * What the document says about a service. The service passes it, so that each fact is declared only
 * in the code that uses it.
 */
export interface Facts {
  /** Version of the interface. */
  readonly version: string;
  /** Where the service listens. */
  readonly url: string;
  readonly limits: Limits;
  /** The paths with their methods, as in the Allow header. */
  readonly methods: Readonly<Record<string, string>>;
  /** The fields of successful answers, in order. */
  readonly answers: Readonly<Record<OperationName, Readonly<Record<string, FieldContent>>>>;
  /** The errors of this version, by code. */
  readonly errors: Readonly<Record<string, ErrorFacts>>;
  /** The code of a 429. */
  readonly limitCode: string;
}

export interface Limits {
  readonly valueBytes: number;
  readonly nameBytes: number;
  /** Levels of nested objects and arrays. */
  readonly depth: number;
  readonly values: number;
  readonly bodyBytes: number;
  /** JSON of the values in an answer. */
  readonly answerBytes: number;
  /** The one field name that is refused. */
  readonly forbiddenName: string;
}

export type OperationName = 'tokenize' | 'detokenize' | 'lookup';

export interface ErrorFacts {
  readonly status: number;
  readonly when: string;
  /** Messages that the examples show, by example name; none: answers have no `message`. */
  readonly messages: Readonly<Record<string, ErrorMessage>>;
  /** Whether answers have `retry_after`. */
  readonly isRetried: boolean;
}

interface ErrorMessage {
  readonly message: string;
  /** undefined: any operation can have this message. */
  readonly operations?: readonly string[];
}

/** A JSON Schema (2020-12), as plain data. */
export type Schema = Readonly<Record<string, unknown>>;
