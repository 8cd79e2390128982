export interface Setting<T> {
  /** As written in the environment; undefined: not set. */
  readonly default: string | undefined;
  /** The accepted values, in words. */
  readonly accepts: string;
  readonly meaning: string;
  /** Returns undefined for a text that is not acceptable. */
  readonly parse: (text: string) => T | undefined;
}

export function setting<T>(
  fallback: string | undefined,
  accepts: string,
  parse: Setting<T>['parse'],
  meaning: string,
): Setting<T> {
  return { default: fallback, accepts, meaning, parse };
}

/** Settings that can contain a secret. Messages never show their values. */
const SECRETS: readonly string[] = [
  'OPS_TOKEN',
  'DATABASE_URL',
  'STANDIN_URL',
  'STANDIN_API_KEY',
  'REDIS_URL',
  'KEK_AWS_KMS_ENDPOINT',
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_SESSION_TOKEN',
  'KEK_TRANSIT_URL',
  'VAULT_TOKEN',
];

/** A setting that is not acceptable has the value undefined and a problem under its name. */
export function parseSettings(
  settings: Record<string, Setting<unknown>>,
  environment: NodeJS.Dict<string>,
): { values: Record<string, unknown>; problems: Map<string, string> } {
  const values: Record<string, unknown> = {};
  const problems = new Map<string, string>();
  for (const [name, setting] of Object.entries(settings)) {
    // Shells and compose files pass an empty variable to say "not set".
    const written = environment[name] || setting.default;
    values[name] = written === undefined ? undefined : setting.parse(written);
    if (written !== undefined && values[name] === undefined) {
      const shown = SECRETS.includes(name) ? 'is not' : `is "${written}"; it must be`;
      problems.set(name, `${name} ${shown} ${setting.accepts}.`);
    }
  }
  return { values, problems };
}
