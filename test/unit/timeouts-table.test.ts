import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT, readText } from '../support/docs.ts';

const DOCUMENT = 'docs/operating/timeouts.md';
const UNITS_MS: Record<string, number> = { ms: 1, s: 1_000, h: 3_600_000 };

/** Constants that a row depends on: `store/connection.ts CANCEL_TIMEOUT_MS`. */
const used = new Set<string>();

/** The constant of a source file, read from its text: most are not exported. */
function constant(path: string, name: string): number {
  used.add(`${path} ${name}`);
  const found = new RegExp(`\\b${name}(?: =|:) ([\\d_]+)`).exec(readText(`src/${path}`));
  if (found === null) throw new Error(`src/${path} has no number ${name}`);
  return Number(found[1]!.replaceAll('_', ''));
}

const file = (path: string) => (name: string) => constant(path, name);
const listener = file('public/transport/connections.ts');
const ops = file('ops/server.ts');
const sharedByAll = file('timeouts.ts');
const follower = file('vault/keyring-follower.ts');
const policies = file('policy/policy-follower.ts');
const redis = file('limits/redis-buckets.ts');
const shared = file('limits/shared-buckets.ts');
const budget = file('limits/byte-budget.ts');
const kek = file('kek/source.ts');
const embedded = file('embedded/embedded-database.ts');
const sealTimeoutMs = constant('vault/leased-keyring.ts', 'SEAL_TIMEOUT_MS');

/** What each row must say, in milliseconds, in the order of its figures. */
const ROWS: Record<string, readonly number[]> = {
  'TLS handshake': [listener('HANDSHAKE_TIMEOUT_MS')],
  'headers of a request': [listener('HEADERS_TIMEOUT_MS')],
  'headers and body of a request': [listener('REQUEST_TIMEOUT_MS')],
  'answer of tokenize or detokenize': [sharedByAll('VAULT_TIMEOUT_MS') + sealTimeoutMs],
  'answer of `/health`': [constant('tokens/health.ts', 'PROBE_TIMEOUT_MS')],
  'answer that the caller does not read': [
    constant('public/transport/connections.ts', 'UNREAD_TIMEOUT_MS'),
  ],
  'next request on a connection': [listener('KEEP_ALIVE_TIMEOUT_MS')],
  'idle caller while memory is short': [budget('STALLED_AFTER_TICKS') * budget('TICK_MS')],
  'name look-up, connection, TLS and login': [
    constant('store/connection.ts', 'CONNECT_TIMEOUT_MS'),
  ],
  'all statements of a request, with the waits for connections and keys': [
    sharedByAll('VAULT_TIMEOUT_MS'),
    sharedByAll('LEAST_TIMEOUT_MS'),
  ],
  'read of the keyring, every 2 s': [
    follower('REFRESH_INTERVAL_MS'),
    follower('REFRESH_TIMEOUT_MS'),
  ],
  'read of the policy, every 2 s': [
    policies('REFRESH_INTERVAL_MS'),
    policies('REFRESH_TIMEOUT_MS'),
  ],
  'standby that a new key or policy waits for': [sharedByAll('STANDBY_TIMEOUT_MS')],
  'statement of a command or of the start': [sharedByAll('COMMAND_TIMEOUT_MS')],
  migration: [sharedByAll('MIGRATION_TIMEOUT_MS')],
  'rate limit from Redis': [shared('TIMEOUT_TICKS') * shared('TICK_MS')],
  'connection to Redis': [redis('CONNECT_TIMEOUT_MS'), redis('MAX_RECONNECT_DELAY_MS')],
  'silence of Redis': [redis('SILENCE_TIMEOUT_MS')],
  'keys of `JWT_ISSUER`': [constant('access/issuer-keys.ts', 'FETCH_TIMEOUT_MS')],
  'KEK from a command, KMS or transit': [
    kek('totalMs'),
    kek('attemptMs'),
    constant('kek/clouds.ts', 'totalMs'),
  ],
  'start of the embedded database': [embedded('START_TIMEOUT_MS')],
  'line of a required audit log': [constant('audit/audit-log.ts', 'TIMEOUT_MS')],
  'requests under way after draining': [
    constant('process/public-listener.ts', 'FINISH_TIMEOUT_MS'),
  ],
  'callers that change nodes (`REUSE_PORT`)': [
    constant('process/public-listener.ts', 'LEAVE_TIMEOUT_MS'),
  ],
};

/** Bounds that no row needs: inside of a bound that has one, of a command, or nothing that a caller or operator waits for. */
const WITHOUT_ROW = [
  'vault/key-lifecycle.ts SCAN_TIMEOUT_MS',
  'records/record-scan.ts OUTAGE_TIMEOUT_MS',
  'ops/console/current-state.ts TIMEOUT_MS',
  'timeouts.ts OPENING_TIMEOUT_MS',
  'timeouts.ts CLOSE_TIMEOUT_MS',
  'access/api-key-uses.ts WRITE_TIMEOUT_MS',
  'access/api-key-uses.ts LAST_WRITE_TIMEOUT_MS',
  'store/connection.ts CANCEL_TIMEOUT_MS',
  'tokens/write-guards.ts REFRESH_TIMEOUT_MS',
  'tokens/write-guards.ts PROBE_TIMEOUT_MS',
  'ops/console/routes.ts TIMEOUT_MS',
  'store/schema.ts COPY_TIMEOUT_MS',
  'policy/policy-work.ts TIMEOUT_MS',
  'store/wrapped-keys.ts LOCKS_TIMEOUT_MS',
  'store/database-error.ts READ_ONLY_TIMEOUT_MS',
];

function figuresMs(text: string): number[] {
  return [...text.matchAll(/(?<![\d.])(\d+(?:\.\d+)?) (ms|s|h)\b/g)].map(
    ([, number, unit]) => Number(number) * UNITS_MS[unit!]!,
  );
}

/** The rows of all tables of time-outs: what, and the figures of the row. */
function written(document: string): [string, number[]][] {
  return [
    ...document.matchAll(/^\| What \| Ends after \| Then \|\n\|---\|---\|---\|\n((?:\|.*\n)+)/gm),
  ]
    .flatMap(([, rows]) => rows!.trim().split('\n'))
    .map((row) => {
      const [what] = row.slice(2).split(' | ');
      return [what!.replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1'), figuresMs(row)];
    });
}

test('each row of timeouts.md has the figures of the constants, and each has a row', () => {
  expect(Object.fromEntries(written(readText(DOCUMENT)))).toEqual(ROWS);
});

test('a row that says another time, or that is missing, is found', () => {
  const document = readText(DOCUMENT);
  const changed = document.replace('| TLS handshake | 5 s |', '| TLS handshake | 6 s |');
  expect(Object.fromEntries(written(changed))).not.toEqual(ROWS);
  const shortened = document.replace(/^\| migration .*\n/m, '');
  expect(Object.fromEntries(written(shortened))).not.toEqual(ROWS);
});

test('bounds in the sentences of timeouts.md are those of the program', () => {
  const text = readText(DOCUMENT).replaceAll(/\s+/g, ' ');
  const descriptors = file('public/transport/connections.ts');
  const queue = file('tokens/threads/queue-delay.ts');
  const client = file('tokens/threads/vault-client.ts');
  const whole = (number: number) => number.toLocaleString('en');
  const taken = `${whole(descriptors('MOST_CONNECTIONS'))} connections, or its open-file limit less`;
  expect(text).toContain(`${taken} ${descriptors('RESERVE')} and`);
  const readers = constant('ops/console/events.ts', 'MAX_STREAMS');
  const calls = constant('ops/console/routes.ts', 'MAX_UNDER_WAY');
  expect(text).toContain(`the ops listener ${ops('MAX_CONNECTIONS')}, ${readers} readers of`);
  expect(text).toContain(`and ${calls} playground calls`);
  expect(text).toContain(`longer than ${queue('MAX_DELAY_MS')} ms for the vault`);
  expect(text).toContain(`${queue('MIN_CALLS')} calls may always wait`);
  expect(text).toContain(
    `longer than ${constant('public/transport/shedding.ts', 'MAX_TURN_MS') / 1_000} s for the event loop`,
  );
  expect(text).toContain(
    `${whole(client('MAX_PENDING_CALLS'))} calls or ${whole(client('MAX_PENDING_TEXTS'))} values`,
  );
});

test('keys.md has the key lease, and how old the newest version must be', () => {
  const leaseS = constant('vault/leased-keyring.ts', 'SEAL_LEASE_MS') / 1_000;
  const text = readText('docs/operating/keys.md').replaceAll(/\s+/g, ' ');
  expect(text).toContain(`after ${leaseS} s (the key lease)`);
  expect(text).toContain(`until the newest is ${2 * leaseS} s old, twice the key lease`);
  expect(text).toContain(
    `waits up to ${constant('vault/key-lifecycle.ts', 'WRITERS_TIMEOUT_MS') / 1_000} s`,
  );
});

test('a time-out or patience that the service gets needs a row', () => {
  const paths = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter(
    (path) =>
      path.endsWith('.ts') && !/^(commands|config|embedded|kek|main|observe|process)\b/.test(path),
  );
  const bounds = paths.flatMap((path) =>
    [...readText(`src/${path}`).matchAll(/const (\w*(?:TIMEOUT|PATIENCE)_MS) =/g)].map(
      ([, name]) => `${path} ${name}`,
    ),
  );
  const withoutRow = bounds.filter((bound) => !used.has(bound));
  expect(withoutRow.sort()).toEqual(WITHOUT_ROW.toSorted());
});
