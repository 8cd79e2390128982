import { unsafeCharacter } from './terminal.ts';
import { DEFAULT_SPACE, isScopeName, SCOPE_NAMES } from './types.ts';

/**
 * A setting of a client: a column of its row, a field of the admin API and of its document, and an
 * option of commands.
 */
export interface ClientSetting<T> {
  /** Of a client that is made without it. */
  readonly default: T;
  /** Begins with a capital and ends without a period. */
  readonly meaning: string;
  /** undefined: it cannot be null. */
  readonly nullMeans?: string;
  /** The JSON that `read` takes, in words after `must be`. */
  readonly accepts: string;
  /** As much of it as JSON Schema can express, and what it means. */
  readonly schema: Readonly<Record<string, unknown>>;
  /** Returns undefined for JSON that is not acceptable. The database does not check it. */
  readonly read: (json: unknown) => T | undefined;
  /** Reads the text of the column. */
  readonly ofColumn: (text: string) => T;
}

/** @param more sentences for the schema */
function setting<T>(one: ClientSetting<T>, ...more: readonly string[]): ClientSetting<T> {
  const ofNull = one.nullMeans === undefined ? '' : `; null: ${one.nullMeans}`;
  const description = [`${one.meaning}${ofNull}.`, ...more].join(' ');
  return { ...one, schema: { ...one.schema, description } };
}

function orNull<T>(
  nullMeans: string,
  rules: Omit<ClientSetting<T>, 'default' | 'nullMeans'>,
  ...more: readonly string[]
): ClientSetting<T | null> {
  const { accepts, schema, read } = rules;
  const one: ClientSetting<T | null> = {
    ...{ ...rules, default: null, nullMeans, accepts: `${accepts}; or null` },
    schema: { ...schema, type: [schema.type, 'null'] },
    read: (json) => (json === null ? null : read(json)),
  };
  return setting(one, ...more);
}

function flag(isDefault: boolean, meaning: string): ClientSetting<boolean> {
  return setting({
    ...{ default: isDefault, meaning, accepts: 'true or false', schema: { type: 'boolean' } },
    read: (json) => (typeof json === 'boolean' ? json : undefined),
    ofColumn: (text) => text === 't',
  });
}

/** Nothing printable controls a terminal or disguises what it shows. */
function printable(isFit: (text: string) => boolean): ClientSetting<string>['read'] {
  return (json) => {
    const isText = typeof json === 'string' && unsafeCharacter(json) === undefined;
    return isText && isFit(json) ? json : undefined;
  };
}

export const MAX_RATE = 1_000_000;
const THOUSAND = 1_000;

/** 0.001 is one in about a quarter of an hour. */
function limit(counted: string, ofDeployment: string): ClientSetting<number | null> {
  return orNull(ofDeployment, {
    meaning: `${counted} a second, with up to 3 decimals; 0: no limit`,
    accepts: `0 to ${MAX_RATE}, with up to 3 decimals`,
    schema: { type: 'number', minimum: 0, maximum: MAX_RATE },
    read: (json) => {
      const isRate = typeof json === 'number' && json >= 0 && json <= MAX_RATE;
      return isRate && Math.round(json * THOUSAND) / THOUSAND === json ? json : undefined;
    },
    ofColumn: Number,
  });
}

export type TokenMode = 'deterministic' | 'random';
export const TOKEN_MODES: readonly TokenMode[] = ['deterministic', 'random'];
const MAX_TIME_TO_LIVE_S = 10_000 * 86_400;

export const CLIENT_SETTINGS = {
  name: setting<string>(
    {
      ...{ default: '', meaning: 'What people and commands call it' },
      accepts: '1 to 200 characters, none of which controls a terminal or turns its text',
      schema: { type: 'string', minLength: 1, maxLength: 200 },
      read: printable((text) => text.trim() !== '' && text.length <= 200),
      ofColumn: String,
    },
    'PATCH changes it.',
  ),
  rate_limit: limit('Requests', 'RATE_LIMIT'),
  token_mode: setting<TokenMode>({
    ...{ default: 'deterministic', accepts: TOKEN_MODES.join(' or ') },
    meaning: 'Equal values get equal tokens, or a new token each time',
    schema: { type: 'string', enum: TOKEN_MODES },
    read: (json) => TOKEN_MODES.find((one) => one === json),
    ofColumn: (text) => text as TokenMode,
  }),
  can_tokenize: flag(true, 'It may tokenize'),
  can_detokenize: flag(true, 'It may turn tokens back into values'),
  can_lookup: flag(false, 'It may look tokens up by value'),
  detokenize_limit: limit('Detokenize requests', 'DETOKENIZE_LIMIT'),
  lookup_limit: limit('Look-up requests', 'LOOKUP_LIMIT'),
  unknown_token_limit: limit('Unknown tokens', 'UNKNOWN_TOKEN_LIMIT'),
  time_to_live_s: orNull<number>(
    'for ever',
    {
      meaning: 'How long its tokens are known',
      accepts: `1 to ${MAX_TIME_TO_LIVE_S}, a whole number`,
      schema: { type: 'integer', minimum: 1, maximum: MAX_TIME_TO_LIVE_S },
      read: (json) => {
        const isWhole = typeof json === 'number' && Number.isInteger(json);
        return isWhole && json >= 1 && json <= MAX_TIME_TO_LIVE_S ? json : undefined;
      },
      ofColumn: Number,
    },
    'In seconds since they were last given out.',
  ),
  space: setting<string>(
    {
      ...{ default: DEFAULT_SPACE, accepts: `"", or ${SCOPE_NAMES}` },
      meaning: 'Its tokens are unknown outside this space; "": the default space',
      schema: { type: 'string', pattern: '^[A-Za-z0-9_-]{0,32}$' },
      read: printable((text) => text === DEFAULT_SPACE || isScopeName(text)),
      ofColumn: String,
    },
    'Never changes.',
  ),
  subject: orNull<string>(
    'no JWT',
    {
      meaning: 'Callers may send a JWT with this JWT_CLIENT_CLAIM',
      accepts: '1 to 512 characters, no space at the ends, none that controls a terminal',
      schema: { type: 'string', pattern: '^\\S(.*\\S)?$', minLength: 1, maxLength: 512 },
      read: printable((text) => text.trim() === text && text !== '' && text.length <= 512),
      ofColumn: String,
    },
    'No space at its ends, and no character that controls a terminal or turns its text.',
  ),
};

export type ClientSettings = {
  readonly [Name in keyof typeof CLIENT_SETTINGS]: (typeof CLIENT_SETTINGS)[Name]['default'];
};
export type SettingName = keyof ClientSettings;
export const SETTING_NAMES = Object.keys(CLIENT_SETTINGS) as SettingName[];

const { name: _, ...OPTIONAL } = CLIENT_SETTINGS;
/** Settings of a client created with a name only. */
export const DEFAULT_SETTINGS = Object.fromEntries(
  Object.entries(OPTIONAL).map(([name, one]) => [name, one.default]),
) as unknown as Omit<ClientSettings, 'name'>;

/** A client as its API key or JWT identifies it. */
export interface Client extends ClientSettings {
  readonly client_id: string;
  readonly created_at: Date;
  readonly disabled_at: Date | null;
}

/** Settings of a client that decide how its tokens are made. */
export type TokenOptions = Pick<Client, 'token_mode' | 'time_to_live_s'>;

/** The limits of each right, the limit of its requests first. */
export const LIMITS_OF = {
  can_tokenize: ['rate_limit'],
  can_detokenize: ['detokenize_limit', 'unknown_token_limit'],
  can_lookup: ['lookup_limit'],
} as const;

export type RightName = keyof typeof LIMITS_OF;
export const RIGHT_NAMES = Object.keys(LIMITS_OF) as RightName[];

export type LimitColumn = (typeof LIMITS_OF)[RightName][number];
export const LIMIT_COLUMNS: readonly LimitColumn[] = Object.values(LIMITS_OF).flat();

/** Limits a second of clients without their own, from the settings RATE_LIMIT and so on. */
export type DefaultLimits = Readonly<Record<LimitColumn, number>>;

/** The name of a limit for people, such as `Lookup limit`. */
export function wordsOf(column: LimitColumn): string {
  return `${column[0]!.toUpperCase()}${column.slice(1).replaceAll('_', ' ')}`;
}
