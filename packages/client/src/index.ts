/** The client of the service: `import { Standin } from 'standin/client'`. See docs/client.md. */
export {
  ForbiddenError,
  InvalidValueError,
  LimitError,
  StandinError,
  TimeoutError,
  UnauthorizedError,
  UnavailableError,
} from './errors.ts';
export type { CallOptions, Fetch, FieldOptions, Retry, StandinOptions } from './options.ts';
export { type Health, Standin } from './standin.ts';
export type { FieldOf, Replaced, StringsOnly } from './types.ts';
