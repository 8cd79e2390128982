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

/** `timeouts VAULT_TIMEOUT_MS`, or the sum or product of two. */
function figure(expression: string): number {
  const [one, operator, other] = expression.split(/ ([+*]) /);
  const numberOf = (text: string) => {
    const [path, name] = text.split(' ') as [string, string];
    return constant(`${path}.ts`, name);
  };
  const first = numberOf(one!);
  if (other === undefined) return first;
  return operator === '+' ? first + numberOf(other) : first * numberOf(other);
}

/** What each row must say, in milliseconds, in the order of its figures. */
const ROWS = Object.fromEntries(
  `
TLS handshake | public/transport/connections HANDSHAKE_TIMEOUT_MS
headers of a request | public/transport/connections HEADERS_TIMEOUT_MS
headers and body of a request | public/transport/connections REQUEST_TIMEOUT_MS
answer of tokenize or detokenize | timeouts VAULT_TIMEOUT_MS + vault/leased-keyring SEAL_TIMEOUT_MS
answer of \`/health\` | tokens/health PROBE_TIMEOUT_MS
answer that the caller does not read | public/transport/connections UNREAD_TIMEOUT_MS
texts of a request with Presidio | detect/presidio PRESIDIO_TIMEOUT_MS
next request on a connection | public/transport/connections KEEP_ALIVE_TIMEOUT_MS
idle caller while memory is short | limits/byte-budget STALLED_AFTER_TICKS * limits/byte-budget TICK_MS
name look-up, connection, TLS and login | store/connection CONNECT_TIMEOUT_MS
all statements of a request, with the waits for connections and keys | timeouts VAULT_TIMEOUT_MS | timeouts LEAST_TIMEOUT_MS
read of the keyring, every 2 s | vault/keyring-follower REFRESH_INTERVAL_MS | vault/keyring-follower REFRESH_TIMEOUT_MS
read of the policy, every 2 s | policy/policy-follower REFRESH_INTERVAL_MS | policy/policy-follower REFRESH_TIMEOUT_MS
standby that a new key or policy waits for | timeouts STANDBY_TIMEOUT_MS
statement of a command or of the start | timeouts COMMAND_TIMEOUT_MS
migration | timeouts MIGRATION_TIMEOUT_MS
rate limit from Redis | limits/shared-buckets TIMEOUT_TICKS * limits/shared-buckets TICK_MS
connection to Redis | limits/redis-buckets CONNECT_TIMEOUT_MS | limits/redis-buckets MAX_RECONNECT_DELAY_MS
silence of Redis | limits/redis-buckets SILENCE_TIMEOUT_MS
keys of \`JWT_ISSUER\` | access/issuer-keys FETCH_TIMEOUT_MS
KEK from a command, KMS or transit | kek/source totalMs | kek/source attemptMs | kek/clouds totalMs
start of the embedded database | embedded/embedded-database START_TIMEOUT_MS
line of a required audit log | audit/audit-log TIMEOUT_MS
requests under way after draining | process/public-listener FINISH_TIMEOUT_MS
callers that change nodes (\`REUSE_PORT\`) | process/public-listener LEAVE_TIMEOUT_MS`
    .trim()
    .split('\n')
    .map((row) => row.split(' | '))
    .map(([what, ...figures]) => [what, figures.map(figure)]),
);

/** Bounds that no row needs: inside of a bound that has one, of a command, or nothing that a caller or operator waits for. */
const WITHOUT_ROW = [
  ...['vault/key-lifecycle.ts SCAN_TIMEOUT_MS', 'records/record-scan.ts OUTAGE_TIMEOUT_MS'],
  ...['ops/console/current-state.ts TIMEOUT_MS', 'timeouts.ts OPENING_TIMEOUT_MS'],
  ...['timeouts.ts CLOSE_TIMEOUT_MS', 'access/api-key-uses.ts WRITE_TIMEOUT_MS'],
  ...['access/api-key-uses.ts LAST_WRITE_TIMEOUT_MS', 'store/connection.ts CANCEL_TIMEOUT_MS'],
  ...['tokens/write-guards.ts REFRESH_TIMEOUT_MS', 'tokens/write-guards.ts PROBE_TIMEOUT_MS'],
  ...['policy/policy-work.ts TIMEOUT_MS', 'store/wrapped-keys.ts LOCKS_TIMEOUT_MS'],
  ...['store/database-error.ts READ_ONLY_TIMEOUT_MS', 'store/schema.ts COPY_TIMEOUT_MS'],
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

test.each([
  '{public/transport/connections MOST_CONNECTIONS} connections, or its open-file limit less {public/transport/connections RESERVE} and',
  'the ops listener {ops/server MAX_CONNECTIONS}, and {ops/console/events MAX_STREAMS} readers of',
  'longer than {tokens/threads/queue-delay MAX_DELAY_MS} ms for the vault',
  '{tokens/threads/queue-delay MIN_CALLS} calls may always wait',
  'longer than {s public/transport/shedding MAX_TURN_MS} for the event loop',
  '{tokens/threads/vault-client MAX_PENDING_CALLS} calls or {tokens/threads/vault-client MAX_PENDING_TEXTS} values',
  'after {s vault/leased-keyring SEAL_LEASE_MS} (the key lease)',
  'until the newest is {twice vault/leased-keyring SEAL_LEASE_MS} old, twice the key lease',
  'waits up to {s vault/key-lifecycle WRITERS_TIMEOUT_MS}',
])('a document has the bound of the program: %s', (sentence) => {
  const documents = readText(DOCUMENT) + readText('docs/operating/keys.md');
  const expected = sentence.replaceAll(/\{(s |twice )?([^}]+)\}/g, (_, unit, which) => {
    const number = figure(which) * (unit === 'twice ' ? 2 : 1);
    return unit === undefined ? number.toLocaleString('en') : `${number / 1_000} s`;
  });
  expect(documents.replaceAll(/\s+/g, ' ')).toContain(expected);
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
