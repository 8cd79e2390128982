import { distance } from '#paths';
import { SETTINGS } from './settings.ts';

/**
 * Starts of names that only Standin uses. Others, such as AWS_ or LOG_, are settings of other
 * programs too.
 */
const OURS =
  /^(STANDIN|KEK|OPS|AUDIT|TLS|LICENSE|DATABASE|RATE|DETOKENIZE|UNKNOWN_TOKEN|BOOTSTRAP|INTERFACE|DRAIN)_/;
/** Kubernetes and Docker set such variables for a service, for example STANDIN_PORT. */
const SERVICE_LINK = /_(SERVICE_(HOST|PORT)|PORT)(_|$)/;

/** A start without one of these can be less safe than its operator means. */
const GUARDS = Object.keys(SETTINGS).filter((name) =>
  /^(ADMIN|AUDIT|JWT|KEK|OPS|TLS)_|^UNKNOWN_TOKEN_LIMIT$/.test(name),
);

/** Names that were probably meant as settings, in words. A misspelt limit must not be silent. */
export function unknownSettings(environment: NodeJS.Dict<string>): string[] {
  return Object.keys(environment).flatMap((name) => {
    if (Object.hasOwn(SETTINGS, name) || guardOf(name) !== undefined) return [];
    const meant = Object.keys(SETTINGS).find(
      (setting) => distance(name.toUpperCase(), setting) <= 1,
    );
    if (meant !== undefined) return [`${name} is not a setting. Did you mean ${meant}?`];
    const isOurs = OURS.test(name) && !SERVICE_LINK.test(name);
    return isOurs ? [`${name} is not a setting. List the settings with: standin config`] : [];
  });
}

/** Names that were probably meant as settings that protect something: problems of a start. */
export function misspeltGuards(environment: NodeJS.Dict<string>): string[] {
  return Object.keys(environment).flatMap((name) => {
    const meant = environment[name] ? guardOf(name) : undefined;
    if (meant === undefined) return [];
    return [
      `${name} is not a setting. Did you mean ${meant}, which protects? Correct or unset it.`,
    ];
  });
}

/** The guard that a name misses by two letters at most. The first is right: not SSL_CERT_FILE. */
function guardOf(name: string): string | undefined {
  const upper = name.toUpperCase();
  if (Object.hasOwn(SETTINGS, name) || SERVICE_LINK.test(name)) return undefined;
  return GUARDS.find((guard) => upper[0] === guard[0] && distance(upper, guard) <= 2);
}
