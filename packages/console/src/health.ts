import { date, duration } from './format.ts';
import type { ConsoleState } from './protocol.ts';

/** `neutral`: not in use, or not known. */
export type Level = 'good' | 'neutral' | 'warning' | 'bad';

/** A check of the service, with the result in words. */
export type Check = readonly [name: string, text: string, level: Level];

const DAY_MS = 86_400_000;
/** The same limits as for the warnings in the log. */
const LICENSE_WARNING_DAYS = 30;
const CERTIFICATE_WARNING_MS = 14 * DAY_MS;
/** A process whose keyring is older than this reads the keyring again before it seals. */
const KEYRING_WARNING_S = 30;

export function checksOf(state: ConsoleState, nowMs: number): Check[] {
  const { areLimitsShared, certificate, database, keys, license, policy } = state;
  const checks: Check[] = [databaseCheck(database)];
  if (license === null) checks.push(['License', 'not required', 'neutral']);
  else checks.push(['License', ...licenseCheck(license.daysLeft)]);
  if (certificate === null) checks.push(['Certificate', 'none: HTTP without TLS', 'neutral']);
  else checks.push(certificateCheck(Date.parse(certificate.expires_at), nowMs));
  if (areLimitsShared === null) checks.push(['Rate limits', 'counted by this node', 'neutral']);
  else if (areLimitsShared) checks.push(['Rate limits', 'shared by the nodes', 'good']);
  else checks.push(['Rate limits', 'not shared: REDIS_URL does not answer', 'warning']);
  // If the keyring could not be read, the database is away.
  if (keys !== null) {
    const read = `read ${duration(keys.age_s * 1_000)} ago`;
    checks.push(['Encryption keys', read, keys.age_s > KEYRING_WARNING_S ? 'warning' : 'good']);
  }
  if (policy.problem !== null)
    checks.push(['Policy', 'not known, so requests fail: see Vault & keys', 'bad']);
  else if (policy.version > 0) checks.push(['Policy', `version ${policy.version}`, 'good']);
  return checks;
}

/** What to do about a database that is away; undefined: it answers. */
export function databaseAdvice({ database }: ConsoleState): string | undefined {
  if (database.isUp) return undefined;
  const trouble = 'The database does not answer, so tokenize and detokenize fail.';
  return database.kind === 'embedded'
    ? `${trouble} Restart the service. If that does not help, run: standin doctor`
    : `${trouble} Check that PostgreSQL runs and that DATABASE_URL reaches it: standin doctor says what is wrong. The service connects again by itself.`;
}

/** The worst level, and the check that has it. */
export function worstOf(checks: readonly Check[]): { level: Level; text: string } {
  const of = (wanted: Level) => checks.find(([, , level]) => level === wanted);
  const worst = of('bad') ?? of('warning');
  if (worst === undefined) return { level: 'good', text: 'Healthy' };
  const [name, text, level] = worst;
  return { level, text: `${name}: ${text}` };
}

function databaseCheck({ kind, isUp, isSafe }: ConsoleState['database']): Check {
  if (!isUp) return ['Database', 'does not answer', 'bad'];
  if (isSafe === false) return ['Database', 'can lose tokens: run standin doctor', 'bad'];
  return ['Database', `${kind === 'embedded' ? kind : 'PostgreSQL'}, answers`, 'good'];
}

function licenseCheck(daysLeft: number): [text: string, level: Level] {
  if (daysLeft <= 0) return ['expired or not valid', 'bad'];
  const days = Math.floor(daysLeft);
  const level = days < LICENSE_WARNING_DAYS ? 'warning' : 'good';
  return [days === 1 ? '1 day left' : `${days} days left`, level];
}

function certificateCheck(endsMs: number, nowMs: number): Check {
  const leftMs = endsMs - nowMs;
  if (leftMs <= 0) return ['Certificate', `expired on ${date(endsMs)}`, 'bad'];
  const level = leftMs < CERTIFICATE_WARNING_MS ? 'warning' : 'good';
  return ['Certificate', `until ${date(endsMs)}, ${duration(leftMs)} left`, level];
}
