import {
  type Client,
  LIMIT_COLUMNS,
  type LimitColumn,
  RIGHT_NAMES,
  type RightName,
  wordsOf,
} from '../client-settings.ts';
import { shown } from '../terminal.ts';
import { time } from './command.ts';

type Permissions = Pick<Client, RightName>;

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
  const limits = LIMIT_COLUMNS.map(
    (column) => `${wordsOf(column).toLowerCase()} ${rateText(client[column])}`,
  );
  const jwt = client.subject === null ? '' : `, subject ${shown(client.subject)}`;
  return `${client.client_id}  ${shown(client.name)}: ${state}${jwt}, can ${canText(client)}, ${limits.join(', ')}, ${client.token_mode} tokens, time to live ${timeToLiveText(client.time_to_live_s)}`;
}

export function canText(client: Permissions): string {
  return RIGHT_NAMES.filter((right) => client[right])
    .map((right) => right.slice('can_'.length))
    .join(',');
}

export const headingOf = (column: LimitColumn) => wordsOf(column).toUpperCase();

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
