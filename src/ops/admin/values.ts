import { checkText, invalid, pathText } from '../../http/data.ts';
import { findTokens, NoSuchValue } from '../../service/records/found-values.ts';
import { forgetTokens, tokenStates } from '../../service/records/removal.ts';
import { settled } from '../../service/vault.ts';
import { restate, type Token, type Value } from '../../types.ts';
import {
  type AdminAnswer,
  type AdminCall,
  type AdminDone,
  type AdminParts,
  type AdminRoutes,
  type Field,
  flag,
  readFields,
  spaceField,
  textField,
} from './call.ts';

/** Each value is looked for under every kind. */
const MAX_VALUES = 100;
const MAX_TOKENS = 10_000;
/** Tokens in one statement. A longer statement would hold up requests for the same records. */
const BATCH_TOKENS = 500;

function texts(most: number): Field<readonly string[]> {
  return {
    accepts: `an array of up to ${most} strings`,
    read: (json) => {
      const isFit = Array.isArray(json) && json.length <= most;
      return isFit && json.every((one) => typeof one === 'string') ? json : undefined;
    },
  };
}

const WHERE = {
  kind: textField('the name of a kind', (text) => text !== ''),
  space: spaceField,
};
const LOOKUP = { values: texts(MAX_VALUES), ...WHERE };
const FORGET = { tokens: texts(MAX_TOKENS), ...LOOKUP, dry_run: flag };

export function valueRoutes(parts: AdminParts): AdminRoutes {
  return {
    '/lookup': {
      POST: { act: 'lookup', changesNothing: true, run: (call) => lookup(parts, call) },
    },
    '/forget': { POST: { act: 'forget', run: (call) => forget(parts, call) } },
  };
}

async function lookup(parts: AdminParts, call: AdminCall): Promise<AdminAnswer> {
  const { values, ...where } = readFields(await call.json(), LOOKUP);
  if (values === undefined) throw invalid('values: is missing');
  const found = await tokensOf(parts, values, where);
  return { status: 200, body: { tokens: found }, values: values.length };
}

interface Where {
  readonly kind?: string;
  readonly space?: string;
}

async function tokensOf({ finder }: AdminParts, values: readonly string[], where: Where) {
  values.forEach((value, i) => {
    checkText(value, ['values', i]);
  });
  try {
    return await findTokens(finder, values as readonly Value[], where);
  } catch (error) {
    if (!(error instanceof NoSuchValue)) throw error;
    const place = error.index === undefined ? 'kind' : pathText(['values', error.index]);
    throw invalid(`${place}: ${error.message}`);
  }
}

/** A token to forget, and its first place in the request. */
type Places = Map<Token, string>;

async function forget(parts: AdminParts, call: AdminCall): Promise<AdminDone> {
  const {
    tokens,
    values,
    dry_run: isDryRun = false,
    ...where
  } = readFields(await call.json(), FORGET);
  if (tokens === undefined && values === undefined)
    throw invalid('body: must have tokens, values or both');
  const places: Places = new Map();
  tokens?.forEach((token, i) => {
    checkText(token, ['tokens', i]);
    if (!places.has(token as Token)) places.set(token as Token, pathText(['tokens', i]));
  });
  const found = await tokensOf(parts, values ?? [], where);
  for (const { token } of found.flat()) places.set(token, '');
  const counts = await eachBatch(parts, places, where.space, isDryRun);
  const without = found.flatMap((one, i) => (one.length === 0 ? [pathText(['values', i])] : []));
  const body = restate(counts, {
    is_dry_run: isDryRun,
    known: counts.known,
    forgotten: isDryRun ? 0 : counts.known,
    already_forgotten: counts.forgotten,
    unknown: [...counts.unknown, ...without],
  });
  return { status: 200, body, values: isDryRun ? 0 : counts.known };
}

async function eachBatch(
  { openVault }: AdminParts,
  places: Places,
  space: string | undefined,
  isDryRun: boolean,
) {
  const vault = await openVault();
  const counts = { known: 0, forgotten: 0, unknown: [] as string[] };
  const tokens = [...places.keys()];
  for (let from = 0; from < tokens.length; from += BATCH_TOKENS) {
    const batch = tokens.slice(from, from + BATCH_TOKENS);
    const states = await (isDryRun ? tokenStates : forgetTokens)(vault, batch, space);
    states.forEach((state, i) => {
      if (state === 'unknown') counts.unknown.push(places.get(batch[i]!)!);
      else counts[state]++;
    });
  }
  return settled(vault, counts);
}
