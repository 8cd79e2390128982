import { date, duration } from './format.ts';
import type { ConsoleState } from './protocol.ts';

/** `neutral`: not in use, or not known. */
export type Level = 'good' | 'neutral' | 'warning' | 'bad';

/** A check of the service, with the result in words. */
export interface Check {
  readonly name: string;
  readonly level: Level;
  readonly text: string;
}

const DAY_MS = 86_400_000;
/** The same limits as for the warnings in the log. */
const LICENSE_WARNING_DAYS = 30;
const CERTIFICATE_WARNING_MS = 14 * DAY_MS;
/** A process whose keyring is older than this reads the keyring again before it seals. */
const KEYRING_WARNING_S = 30;

export function checksOf(state: ConsoleState, nowMs: number): Check[] {
  return [
    databaseCheck(state),
    licenseCheck(state),
    certificateCheck(state, nowMs),
    limitsCheck(state),
    ...keyringChecks(state),
    ...policyChecks(state),
  ];
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
  const bad = checks.find(({ level }) => level === 'bad');
  const worst = bad ?? checks.find(({ level }) => level === 'warning');
  if (worst === undefined) return { level: 'good', text: 'Healthy' };
  return { level: worst.level, text: `${worst.name}: ${worst.text}` };
}

function databaseCheck({ database }: ConsoleState): Check {
  const name = 'Database';
  const kind = database.kind === 'embedded' ? 'embedded' : 'PostgreSQL';
  if (!database.isUp) return { name, level: 'bad', text: 'does not answer' };
  if (database.isSafe === false)
    return { name, level: 'bad', text: 'can lose tokens: run standin doctor' };
  return { name, level: 'good', text: `${kind}, answers` };
}

function licenseCheck({ license }: ConsoleState): Check {
  const name = 'License';
  if (license === null) return { name, level: 'neutral', text: 'not required' };
  const days = Math.floor(license.daysLeft);
  if (license.daysLeft <= 0) return { name, level: 'bad', text: 'expired or not valid' };
  const level = days < LICENSE_WARNING_DAYS ? 'warning' : 'good';
  return { name, level, text: days === 1 ? '1 day left' : `${days} days left` };
}

function certificateCheck({ certificate }: ConsoleState, nowMs: number): Check {
  const name = 'Certificate';
  if (certificate === null) return { name, level: 'neutral', text: 'none: HTTP without TLS' };
  const endsMs = Date.parse(certificate.expires_at);
  const leftMs = endsMs - nowMs;
  if (leftMs <= 0) return { name, level: 'bad', text: `expired on ${date(endsMs)}` };
  const level = leftMs < CERTIFICATE_WARNING_MS ? 'warning' : 'good';
  return { name, level, text: `until ${date(endsMs)}, ${duration(leftMs)} left` };
}

function limitsCheck({ areLimitsShared }: ConsoleState): Check {
  const name = 'Rate limits';
  if (areLimitsShared === null) return { name, level: 'neutral', text: 'counted by this node' };
  return areLimitsShared
    ? { name, level: 'good', text: 'shared by the nodes' }
    : { name, level: 'warning', text: 'not shared: REDIS_URL does not answer' };
}

/** Empty if the keyring could not be read: databaseCheck reports that the database is away. */
function keyringChecks({ keys }: ConsoleState): Check[] {
  if (keys === null) return [];
  const isOld = keys.age_s > KEYRING_WARNING_S;
  const text = `read ${duration(keys.age_s * 1_000)} ago`;
  return [{ name: 'Encryption keys', level: isOld ? 'warning' : 'good', text }];
}

/** Empty without a policy. */
function policyChecks({ policy: { version, problem } }: ConsoleState): Check[] {
  const name = 'Policy';
  if (problem !== null)
    return [{ name, level: 'bad', text: 'not known, so requests fail: see Vault & keys' }];
  return version === 0 ? [] : [{ name, level: 'good', text: `version ${version}` }];
}
