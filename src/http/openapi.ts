import { type Facts, openApiDocument, referencePage, STYLE } from '#openapi';
import { CALLER_ERRORS, INTERNAL_REASONS } from '../errors.ts';
import type { InterfaceVersion } from './context.ts';
import { METHODS } from './routes.ts';
import {
  ERROR_FIELDS,
  FORBIDDEN_NAME,
  LIMIT_CODES,
  MAX_ANSWER_BODIES,
  MAX_DEPTH,
  MAX_NAME_BYTES,
  MAX_VALUE_BYTES,
  SUCCESS,
} from './schema.ts';

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

/** The pages of the ops listener about the interface, by path. */
export function apiPages(settings: DocumentSettings, url: string): Record<string, ApiPage> {
  const page = (type: string, body: string): ApiPage => ({
    content_type: `${type}; charset=utf-8`,
    body,
  });
  const reference = referencePage(openApiDocument(factsOf(settings, url)));
  return {
    '/openapi.json': page('application/json', documentText(settings, url)),
    '/reference': page('text/html', reference),
    '/reference.css': page('text/css', STYLE),
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
    errors: errorsOf(version),
    limitCode: LIMIT_CODES[version],
    messages: {
      database: INTERNAL_REASONS.database_unavailable,
      license: INTERNAL_REASONS.license_expired,
      audit: INTERNAL_REASONS.audit_unavailable,
    },
  };
}

/** All errors of this version, without the 429 of the other one. */
function errorsOf(version: InterfaceVersion): Facts['errors'] {
  const ofOthers: readonly string[] = Object.values(LIMIT_CODES).filter(
    (code) => code !== LIMIT_CODES[version],
  );
  const internal = {
    status: 500,
    when: 'the request is not at fault; `message` gives the reason in fixed words',
  };
  return Object.fromEntries(
    Object.entries({ ...CALLER_ERRORS, internal_error: internal })
      .filter(([code]) => !ofOthers.includes(code))
      .map(([code, row]) => [code, { ...row, field: ERROR_FIELDS[code as 'internal_error'] }]),
  );
}
