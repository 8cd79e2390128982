import { MAX_RATE } from '../client-settings.ts';
import { databaseHosts } from '../store/hosts.ts';
import { KEK_SETTINGS } from './kek.ts';
import {
  adminTokens,
  choice,
  file,
  flag,
  httpBase,
  matching,
  pairs,
  parseRate,
  redisUrl,
  secret,
  setting,
  text,
  url,
  whole,
} from './setting.ts';

const PAIRS = setting(undefined, 'name=value pairs with commas, in percent encoding', pairs);

const POSTGRES = secret(
  setting(undefined, 'a postgres:// URL', (text) => databaseHosts(text) && text),
);
/** Requests or tokens a second. */
const rate = (fallback: string) => setting(fallback, `0 to ${MAX_RATE}`, parseRate);

/** All settings. A test compares docs/configuration.md with them both ways. */
export const SETTINGS = {
  HOST: setting('127.0.0.1', 'an address', text),
  PORT: whole('8080', 0, 65_535),
  TLS_CERT_FILE: file,
  TLS_KEY_FILE: file,
  TLS_CLIENT_CA_FILE: file,
  OPS_HOST: setting('127.0.0.1', 'an address', text),
  OPS_PORT: whole('9464', 0, 65_535),
  OPS_TOKEN: secret(
    matching(
      undefined,
      '16 to 1024 printable ASCII characters without spaces',
      /^[\x21-\x7e]{16,1024}$/,
    ),
  ),
  OPS_TLS: flag,
  ADMIN_TOKEN: secret(
    setting(
      undefined,
      '`name:token`, several with commas; a token is 32 to 1024 ASCII letters, digits, `_`, `.`, `~`, `+`, `/`, `=` and `-`',
      adminTokens,
    ),
  ),
  ADMIN_DATABASE_URL: POSTGRES,
  REUSE_PORT: flag,
  DATABASE_URL: POSTGRES,
  DATABASE_CONNECTIONS: whole('12', 6, 200),
  DATA_DIR: setting('./data', 'a folder', text),
  BOOTSTRAP_API_KEY_FILE: file,
  ...KEK_SETTINGS,
  // Callers with a JWT.
  JWT_ISSUER: url(undefined),
  JWT_AUDIENCE: matching(
    undefined,
    '1 to 256 printable ASCII characters without spaces',
    /^[\x21-\x7e]{1,256}$/,
  ),
  JWT_JWKS_URL: url(undefined),
  JWT_CLIENT_CLAIM: matching(
    'sub',
    '1 to 128 letters, digits, `_`, `.`, `:`, `/` and `-`',
    /^[\w.:/-]{1,128}$/,
  ),
  JWT_TYPE: matching(undefined, '1 to 64 letters, digits, `+`, `.` and `-`', /^[\w+.-]{1,64}$/),
  TOKEN_SUFFIX: matching('tok', '1 to 16 ASCII letters and digits', /^[A-Za-z0-9]{1,16}$/),
  CLIENT_PREFIX: matching('standin', '1 to 32 ASCII letters and digits', /^[A-Za-z0-9]{1,32}$/),
  INTERFACE_VERSION: choice('1.0.5', '1.0.5', '1.0.4'),
  RATE_LIMIT: rate('1000'),
  DETOKENIZE_LIMIT: rate('500'),
  LOOKUP_LIMIT: rate('10'),
  UNKNOWN_TOKEN_LIMIT: rate('1'),
  REDIS_URL: secret(setting(undefined, 'a redis:// or rediss:// URL', redisUrl)),
  PRESIDIO_URL: secret(setting(undefined, 'an http:// or https:// URL', httpBase)),
  PRESIDIO_LANGUAGE: matching('en', 'two letters a to z', /^[a-z]{2}$/),
  GUARDRAIL: flag,
  GUARDRAIL_IMAGES: choice('refuse', 'refuse', 'pass'),
  BODY_LIMIT: whole('1048576', 1024, 67_108_864),
  VALUES_LIMIT: whole('10000', 1, 1_000_000),
  MEMORY_BUDGET: whole(undefined, 4_194_304, 68_719_476_736),
  LICENSE_FILE: file,
  LICENSE_PUBLIC_KEY_FILE: file,
  DRAIN_DELAY_MS: whole('2000', 0, 10_000),
  ALLOW_UNSAFE_POSTGRES: flag,
  AUDIT_LOG: setting(undefined, 'a file, or stdout', text),
  AUDIT_REQUIRED: flag,
  LOG_LEVEL: choice('info', 'trace', 'debug', 'info', 'warn', 'error', 'silent'),
  LOG_FORMAT: choice('auto', 'auto', 'json', 'pretty'),
  // OpenTelemetry, under its standard names. The SDK's own variables need no entry.
  OTEL_EXPORTER_OTLP_ENDPOINT: secret(setting(undefined, 'an http:// or https:// URL', httpBase)),
  OTEL_EXPORTER_OTLP_HEADERS: secret(PAIRS),
  OTEL_SERVICE_NAME: matching(
    'standin',
    '1 to 255 printable ASCII characters',
    /^[\x20-\x7e]{1,255}$/,
  ),
  OTEL_RESOURCE_ATTRIBUTES: PAIRS,
  OTEL_TRACES_SAMPLER: choice(
    'parentbased_always_on',
    ...(['always_on', 'always_off', 'traceidratio'] as const),
    ...(['parentbased_always_on', 'parentbased_always_off', 'parentbased_traceidratio'] as const),
  ),
  OTEL_TRACES_SAMPLER_ARG: setting('1', '0 to 1', (text) =>
    /^(0(\.\d{1,9})?|1(\.0{1,9})?)$/.test(text) ? Number(text) : undefined,
  ),
  // The service that `standin tokenize` and `standin detokenize` call.
  STANDIN_URL: secret(
    setting(
      'http://127.0.0.1:8080',
      'an http:// or https:// URL that ends before /api/v1: leave that out',
      httpBase,
    ),
  ),
  STANDIN_API_KEY: secret(
    matching(
      undefined,
      'an API key: stk_ and 34 letters and digits; or a JWT',
      /^(stk_[0-9A-Za-z]{34}|[\w-]+\.[\w-]+\.[\w-]+)$/,
    ),
  ),
  // The provider of language models that `standin model-proxy` calls.
  PROVIDER_API_KEY: secret(
    matching(undefined, 'printable ASCII characters without spaces', /^[\x21-\x7e]{1,512}$/),
  ),
} as const;
