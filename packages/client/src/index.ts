/** The client of the service: `import { Standin } from 'standin/client'`. See docs/client.md. */
export * from './errors.ts';
export type { Unapplied } from './failures.ts';
export type {
  CallOptions,
  Fetch,
  FieldOptions,
  LenientOptions,
  Retry,
  StandinOptions,
} from './options.ts';
export { type Health, type Lenient, type PolicyInForce, Standin } from './standin.ts';
export type {
  DetokenizedText,
  DetokenizeTextOptions,
  Span,
  TokenizedText,
  TokenizeTextOptions,
} from './text.ts';
export type * from './types.ts';
