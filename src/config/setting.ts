export interface Setting<T> {
  /** As it is written in the environment; undefined: not set. */
  readonly default: string | undefined;
  /** What is accepted, in words. */
  readonly accepts: string;
  readonly meaning: string;
  /** undefined: not acceptable. */
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

/** Settings that can have a secret in them: never shown. */
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

/** What is not acceptable becomes undefined, and a problem under its name. */
export function parseSettings(
  settings: Record<string, Setting<unknown>>,
  environment: NodeJS.Dict<string>,
): { values: Record<string, unknown>; problems: Map<string, string> } {
  const values: Record<string, unknown> = {};
  const problems = new Map<string, string>();
  for (const [name, setting] of Object.entries(settings)) {
    // An empty variable is how shells and compose files say "not set".
    const written = environment[name] || setting.default;
    values[name] = written === undefined ? undefined : setting.parse(written);
    if (written !== undefined && values[name] === undefined) {
      const shown = SECRETS.includes(name) ? 'is not' : `is "${written}"; it must be`;
      problems.set(name, `${name} ${shown} ${setting.accepts}.`);
    }
  }
  return { values, problems };
}
