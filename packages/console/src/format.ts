/** Short forms of numbers and times, in every locale with SI units and 24 hours. */

import type { ClientState } from './protocol.ts';

const UNKNOWN = '–';

/** In at most four characters, and the first unit in which it is below 1,000. */
function scaled(value: number | null | undefined, units: readonly string[]): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return UNKNOWN;
  const [unit, ...larger] = units;
  if (Math.abs(value) < 999.5 || larger.length === 0) return short(value) + unit;
  return scaled(value / 1_000, larger);
}

/** A count or rate with an SI prefix: 0.25, 12.5, 840, 1.24 k. */
export function si(value: number | null | undefined): string {
  return scaled(value, ['', ' k', ' M', ' G', ' T']);
}

/** A count in full, with its digits in groups of three. */
export function whole(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** A limit as it was set. */
export function limitShown(perS: number): string {
  return perS < 999.5 ? si(perS) : whole(perS);
}

/** Estimates, above 200,000 records, are short. */
export function recordsText(count: number, isEstimate: boolean): string {
  return isEstimate ? `≈ ${si(count)}` : whole(count);
}

export function bytes(value: number | null): string {
  return scaled(value, [' B', ' kB', ' MB', ' GB', ' TB']);
}

/** A time in milliseconds, with its unit. */
export function ms(value: number | null | undefined): string {
  return scaled(value, [' ms', ' s']);
}

/** A share of 0 to 1. Below 1 it is never rounded up to 100 %. */
export function percent(share: number): string {
  const ofHundred = share >= 1 ? 100 : Math.min(99.9, share * 100);
  return `${ofHundred.toFixed(ofHundred % 1 === 0 ? 0 : 1)} %`;
}

/** A duration in one or two units: 12 s, 4 min, 3 h 20 min, 5 d 2 h. */
export function duration(lengthMs: number): string {
  const s = Math.max(0, Math.floor(lengthMs / 1_000));
  if (s < 60) return `${s} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 24) return min % 60 === 0 ? `${h} h` : `${h} h ${min % 60} min`;
  const d = Math.floor(h / 24);
  return h % 24 === 0 ? `${d} d` : `${d} d ${h % 24} h`;
}

/** The vault keeps these times only to the minute, so there are no seconds. */
export function ago(lengthMs: number): string {
  return lengthMs < 60_000 ? 'less than a minute ago' : `${duration(lengthMs)} ago`;
}

/** 14:03:22 in the time zone of the browser. */
export function clock(atMs: number): string {
  return new Date(atMs).toTimeString().slice(0, 8);
}

/** 2026-11-21 14:03 in the time zone of the browser. */
export function date(atMs: number): string {
  return new Date(atMs).toLocaleString('sv').slice(0, 16);
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

function short(value: number): string {
  const size = Math.abs(value);
  if (size > 0 && size < 0.005) return '< 0.01';
  return String(Number(value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2)));
}

/** The address of the client's page. */
export function clientAddress(clientId: string): string {
  return `#/client/${encodeURIComponent(clientId)}`;
}

/** What a client may do, in words for whoever decides on it. */
export const RIGHTS = {
  can_tokenize: 'Tokenize',
  can_detokenize: 'Detokenize: its API keys turn tokens back into values',
  can_lookup: 'Look up: it finds tokens by value',
} as const;
type RightName = keyof typeof RIGHTS;
export const RIGHT_NAMES = Object.keys(RIGHTS) as RightName[];

export function rightsOf(client: Pick<ClientState, RightName>): string {
  const given = RIGHT_NAMES.filter((right) => client[right]);
  return given.map((right) => right.slice('can_'.length)).join(', ') || 'nothing';
}
