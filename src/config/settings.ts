import { JWT_SETTINGS } from './jwt.ts';
import { KEK_SETTINGS } from './kek.ts';
import {
  adminTokens,
  choice,
  databaseUrl,
  file,
  flag,
  httpBase,
  matching,
  rate,
  redisUrl,
  secret,
  setting,
  text,
  whole,
} from './setting.ts';
import { TRACING_SETTINGS } from './tracing.ts';

/** The service that `standin tokenize` and `standin detokenize` call. */
export const SERVICE_SETTINGS = {
  STANDIN_URL: secret(
    'http://127.0.0.1:8080',
    'an http:// or https:// URL that ends before /api/v1: leave that out',
    httpBase,
    'Service that `standin tokenize` and `standin detokenize` call.',
  ),
  STANDIN_API_KEY: secret(
    undefined,
    'an API key: stk_ and 34 letters and digits; or a JWT',
    matching(/^(stk_[0-9A-Za-z]{34}|[\w-]+\.[\w-]+\.[\w-]+)$/),
    'API key or JWT for STANDIN_URL.',
  ),
} as const;

/** All settings. A test compares docs/configuration.md with them both ways. */
export const SETTINGS = {
  HOST: setting(
    '127.0.0.1',
    'an address',
    text,
    'Address of the public listener; `0.0.0.0`: all IPv4, `::`: all.',
  ),
  PORT: whole('8080', 0, 65_535, 'Port of the public listener; 0: the system chooses.'),
  TLS_CERT_FILE: file(
    'Certificate (PEM, with chain) of the public listener. Not set: HTTP in clear.',
  ),
  TLS_KEY_FILE: file('Private key (PEM, not encrypted) of TLS_CERT_FILE.'),
  TLS_CLIENT_CA_FILE: file(
    'Authorities (PEM) that must have issued the certificate of each caller. Not set: callers need none.',
  ),
  OPS_HOST: setting(
    '127.0.0.1',
    'an address',
    text,
    'Address of the ops listener (console, `/metrics`, `/openapi.json`, `/reference`). Beyond the loopback it needs OPS_TOKEN.',
  ),
  OPS_PORT: whole('9464', 0, 65_535, 'Port of the ops listener; 0: off.'),
  OPS_TOKEN: secret(
    undefined,
    '16 to 1024 printable ASCII characters without spaces',
    matching(/^[\x21-\x7e]{16,1024}$/),
    'Secret of the ops listener: a bearer token, or the sign-in to the console. Not set: none, on the loopback only.',
  ),
  OPS_TLS: flag('The ops listener speaks TLS, with TLS_CERT_FILE and TLS_KEY_FILE.'),
  ADMIN_TOKEN: secret(
    undefined,
    '`name:token`, several with commas; a token is 32 to 1024 ASCII letters, digits, `_`, `.`, `~`, `+`, `/`, `=` and `-`',
    adminTokens,
    'Who may use the admin API of the ops listener. Not set: there is none.',
  ),
  ADMIN_DATABASE_URL: secret(
    undefined,
    'a postgres:// URL',
    databaseUrl,
    'The database of DATABASE_URL for the admin API, as a role that may change clients. Not set: DATABASE_URL.',
  ),
  REUSE_PORT: flag('Share PORT with other nodes of this machine that set it.'),
  DATABASE_URL: secret(
    undefined,
    'a postgres:// URL',
    databaseUrl,
    'PostgreSQL (14 or newer) with the vault. With several hosts (`host1,host2:5433`), the node finds the primary. Not set: the embedded database in DATA_DIR.',
  ),
  DATABASE_CONNECTIONS: whole('12', 6, 200, 'Connections of a node to the database.'),
  DATA_DIR: setting('./data', 'a folder', text, 'Folder of the embedded database and its KEK.'),
  BOOTSTRAP_API_KEY_FILE: file(
    'API key of the first client, made with `standin api-key new`; read only while the vault has no client.',
  ),
  ...KEK_SETTINGS,
  ...JWT_SETTINGS,
  TOKEN_SUFFIX: setting(
    'tok',
    '1 to 16 ASCII letters and digits',
    matching(/^[A-Za-z0-9]{1,16}$/),
    'End of each token, after `_`. Fixed when the vault is made.',
  ),
  CLIENT_PREFIX: setting(
    'standin',
    '1 to 32 ASCII letters and digits',
    matching(/^[A-Za-z0-9]{1,32}$/),
    'Start of the ids of new clients, before `_`.',
  ),
  INTERFACE_VERSION: choice(
    ['1.0.5', '1.0.4'],
    '1.0.5',
    'Version of the interface: response field names, and the 429 error.',
  ),
  RATE_LIMIT: rate(
    '1000',
    'Requests a second of a client without its own limit, except detokenize; 0: no limit.',
  ),
  DETOKENIZE_LIMIT: rate(
    '500',
    'Detokenize requests a second of a client without its own limit; 0: no limit.',
  ),
  LOOKUP_LIMIT: rate(
    '10',
    'Look-up requests a second of a client without its own limit; 0: no limit.',
  ),
  UNKNOWN_TOKEN_LIMIT: rate(
    '1',
    'Unknown tokens a second that a client without its own limit may send to detokenize; 0: no limit.',
  ),
  REDIS_URL: secret(
    undefined,
    'a redis:// or rediss:// URL',
    redisUrl,
    'Redis (5 or newer) or Valkey that shares rate limits among nodes. Not set: each node limits on its own.',
  ),
  BODY_LIMIT: whole('1048576', 1024, 67_108_864, 'Largest request body in bytes.'),
  VALUES_LIMIT: whole('10000', 1, 1_000_000, 'Most values in one request.'),
  MEMORY_BUDGET: whole(
    undefined,
    4_194_304,
    68_719_476_736,
    'Bytes that requests under way may hold in a node. Not set: an eighth of its memory, 256 MiB at most.',
  ),
  LICENSE_FILE: file('License (a signed JWT). Not set: none is checked.'),
  LICENSE_PUBLIC_KEY_FILE: file('Public key (PEM) that verifies LICENSE_FILE.'),
  DRAIN_DELAY_MS: whole(
    '2000',
    0,
    10_000,
    'Time after SIGTERM in which requests are still accepted while /health returns 503.',
  ),
  ALLOW_UNSAFE_POSTGRES: flag(
    'Allow fsync, full_page_writes or synchronous_commit off: a crash can lose acknowledged tokens.',
  ),
  AUDIT_LOG: setting(
    undefined,
    'a file, or stdout',
    text,
    'File with one line for each tokenize and detokenize. Not set: no audit log.',
  ),
  AUDIT_REQUIRED: flag('Answer with success only after the line is in AUDIT_LOG.'),
  LOG_LEVEL: choice(
    ['trace', 'debug', 'info', 'warn', 'error', 'silent'],
    'info',
    'Lowest level that is logged; requests are `info`.',
  ),
  LOG_FORMAT: choice(
    ['auto', 'json', 'pretty'],
    'auto',
    'auto: pretty on a terminal, JSON lines otherwise.',
  ),
  ...TRACING_SETTINGS,
  ...SERVICE_SETTINGS,
} as const;
