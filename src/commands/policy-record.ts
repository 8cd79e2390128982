import { nearest, pathText } from '#paths';
import { CallerError, OperatorError } from '../errors.ts';
import type { DeclaredPolicy } from '../policy/policy.ts';
import { type Kind, PolicyRules } from '../policy/rules.ts';
import { BodyWalk } from '../public/body/body-walk.ts';
import {
  checkedText,
  collectFields,
  isObject,
  type JsonObject,
  parseData,
} from '../public/body/data.ts';
import { isListOfValues } from '../public/body/request-data.ts';
import { DEFAULT_KIND } from '../types.ts';
import { nameOf, readText } from './text-file.ts';

/** Strings of a record that have the same path, but for indexes, and become the same. */
export interface Strings {
  /** As a policy would name it. */
  readonly path: string;
  readonly strings: number;
  /** A kind, `in clear`, or `refused: ` with the reason. */
  readonly becomes: string;
  /** The path of the policy that was probably meant. */
  readonly meant: string | null;
}

const MAX_RECORD_BYTES = 1024 * 1024;

/**
 * The strings of a record, and the result of the policy for each, as the service computes it.
 * @param file a record, a list of records, a body with `data`, or a record a line
 */
export async function stringsIn(file: string, policy: DeclaredPolicy): Promise<Strings[]> {
  const text = await readText(file, MAX_RECORD_BYTES);
  if (Buffer.byteLength(text) > MAX_RECORD_BYTES)
    throw new OperatorError(`${nameOf(file)} is larger than 1 MiB: take a part of it`);
  try {
    return stringsOf(Buffer.from(bodyOf(text)), policy);
  } catch (error) {
    if (!(error instanceof CallerError)) throw error;
    throw new OperatorError(`${nameOf(file)}, sent to tokenize, is refused: ${error.message}`);
  }
}

function bodyOf(text: string): string {
  try {
    const json = JSON.parse(text);
    return isObject(json) && Object.hasOwn(json, 'data') ? text : `{"data":${text}}`;
  } catch {
    const lines = text.split('\n').filter((line) => line.trim() !== '');
    return `{"data":[${lines.join(',')}]}`;
  }
}

function stringsOf(body: Buffer, policy: DeclaredPolicy): Strings[] {
  const rules = new PolicyRules({ ...policy, version: 1, tag: '' });
  const checked = checkedText(body);
  const data = parseData(checked, rules.tree !== undefined);
  const isPlain = rules.tree === undefined || isListOfValues(data, rules.tree);
  if (isPlain) collectFields(data as JsonObject, Infinity);
  const tree = isPlain ? undefined : rules.tree;
  const walked = { tree, elsewhere: 'tokenize' } as const;
  const { places } = new BodyWalk(checked.text, walked, { maxPlaces: Infinity });
  const fields = (policy.fields ?? []).map((field) => field.path);
  const found = new Map<string, Strings>();
  for (const place of places) {
    const isElsewhere = !isPlain && place.path === '';
    const kind = isPlain ? rules.kind(DEFAULT_KIND) : rules.kindAt(place.path);
    const becomes = (isElsewhere && ELSEWHERE[policy.elsewhere]) || outcome(kind, place.text);
    const path = policyPath(place.step, Array.isArray(data));
    const key = JSON.stringify([path, becomes]);
    const known = found.get(key);
    const meant = known === undefined && isElsewhere ? nearest(path, fields) : known?.meant;
    found.set(key, { path, strings: (known?.strings ?? 0) + 1, becomes, meant: meant ?? null });
  }
  return [...found.values()];
}

/** '': as any text. */
const ELSEWHERE = {
  pass: 'in clear',
  refuse: 'refused: the policy names no such path',
  tokenize: '',
};

/** The path as a policy would name it, for each item of a list. */
function policyPath(path: Iterable<string | number>, isList: boolean): string {
  return pathText(['', ...[...path].slice(isList ? 2 : 1)])
    .replace(/^\./, '')
    .replaceAll(/\[\d+\]/g, '[*]');
}

function outcome(kind: Kind, text: string): string {
  const accepted = kind.accept(text);
  return 'reason' in accepted ? `refused: ${accepted.reason}` : kind.settings.name;
}
