import type { ClientOperation } from '../service/limits/client-limits.ts';
import { shown } from '../terminal.ts';
import type { Client } from '../types.ts';
import { time } from './command.ts';

/** The limits: column, key of the option, what is counted, and the name in texts and tables. */
export const LIMITS = [
  {
    column: 'rate_limit',
    key: 'rateLimit',
    counted: 'requests',
    name: 'rate limit',
    heading: 'RATE LIMIT',
  },
  {
    column: 'detokenize_limit',
    key: 'detokenizeLimit',
    counted: 'detokenize requests',
    name: 'detokenize limit',
    heading: 'DETOKENIZE',
  },
  {
    column: 'lookup_limit',
    key: 'lookupLimit',
    counted: 'look-up requests',
    name: 'look-up limit',
    heading: 'LOOK-UP',
  },
  {
    column: 'unknown_token_limit',
    key: 'unknownTokenLimit',
    counted: 'unknown tokens',
    name: 'unknown tokens',
    heading: 'UNKNOWN TOKENS',
  },
] as const;

export type Permissions = Pick<Client, `can_${ClientOperation}`>;

export const OPERATIONS = ['tokenize', 'detokenize', 'lookup'] as const;

/** @param clientId for a name that a shell would not take as one word */
export function mayText(
  may: Permissions & Pick<Client, 'subject'>,
  name: string,
  clientId: string,
): string {
  if (!(may.can_tokenize && may.can_detokenize)) return canText(may);
  const word = /^[\w.-]+$/.test(name) ? name : clientId;
  const credential = may.subject === null ? 'its API key turns' : 'its JWTs turn';
  return `tokenize and detokenize: ${credential} tokens back into values
         to allow less: standin client update ${word} --can tokenize`;
}

export function describe(client: Client): string {
  const state =
    client.disabled_at === null ? 'enabled' : `disabled since ${time(client.disabled_at)}`;
  const limits = LIMITS.map(({ name, column }) => `${name} ${rateText(client[column])}`);
  const jwt = client.subject === null ? '' : `, subject ${shown(client.subject)}`;
  return `${client.client_id}  ${shown(client.name)}: ${state}${jwt}, can ${canText(client)}, ${limits.join(', ')}, ${client.token_mode} tokens, time to live ${timeToLiveText(client.time_to_live_s)}`;
}

export function canText(client: Permissions): string {
  return OPERATIONS.filter((operation) => client[`can_${operation}`]).join(',');
}

export function rateText(rateLimit: number | null): string {
  if (rateLimit === null) return 'default';
  return rateLimit === 0 ? 'none' : `${rateLimit}/s`;
}

const UNITS_S = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
] as const;

/** In the form that the options accept. */
export function timeToLiveText(timeToLiveS: number | null): string {
  if (timeToLiveS === null) return 'for ever';
  const unit = UNITS_S.find(([, seconds]) => timeToLiveS % seconds === 0);
  return unit === undefined ? `${timeToLiveS}s` : `${timeToLiveS / unit[1]}${unit[0]}`;
}
