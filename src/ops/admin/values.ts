import { CLIENT_SETTINGS } from '../../client-settings.ts';
import { checkText, invalid } from '../../http/data.ts';
import { pathText } from '../../http/path.ts';
import type { EveryKind } from '../../service/every-kind.ts';
import { type ForgetRequest, forget as forgetValues } from '../../service/records/forget.ts';
import { findTokens, NoSuchValue } from '../../service/records/found-values.ts';
import { DEFAULT_SPACE, restate, type Token, type Value } from '../../types.ts';
import {
  type AdminAnswer,
  type AdminCall,
  type AdminDone,
  type AdminParts,
  type AdminRoutes,
  type Field,
  flag,
  readFields,
  textField,
} from './call.ts';

/** Each value is looked for under every kind. */
const MAX_VALUES = 100;
const MAX_TOKENS = 10_000;
/** Some 2 s of processor time. */
const MAX_DRAWS = 100_000;

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
  space: CLIENT_SETTINGS.space,
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

async function forget({ openForgetting }: AdminParts, call: AdminCall): Promise<AdminDone> {
  const {
    tokens,
    values,
    kind,
    space = DEFAULT_SPACE,
    dry_run: isDryRun = false,
  } = readFields(await call.json(), FORGET);
  if (tokens === undefined && values === undefined)
    throw invalid('body: must have tokens, values or both');
  const request = {
    tokens: checked('tokens', tokens) as Token[],
    values: checked('values', values) as Value[],
    ...{ kind, space, isDryRun },
  };
  const parts = await openForgetting();
  if (request.values.length > 0) await checkDraws(parts.kinds, request);
  const result = await forgetValues(parts, request);
  const { known, forgotten, notSearched } = result;
  const unknown = (['tokens', 'values'] as const).flatMap((list) =>
    result[list].flatMap((state, i) => (state === 'unknown' ? [pathText([list, i])] : [])),
  );
  const body = restate(result, {
    ...{ is_dry_run: isDryRun, known, forgotten: isDryRun ? 0 : known },
    ...{ already_forgotten: forgotten, unknown, not_searched: notSearched },
  });
  return { status: 200, body, values: isDryRun ? 0 : known };
}

function checked(name: string, given: readonly string[] = []): string[] {
  given.forEach((text, i) => {
    checkText(text, [name, i]);
  });
  return [...given];
}

/** Each value is drawn for each kind that any version of the policy had. */
async function checkDraws(kinds: EveryKind, { values, kind }: ForgetRequest): Promise<void> {
  await kinds.update();
  const names = kind === undefined ? kinds.names : [kind];
  const draws = names.flatMap((name) => kinds.deterministic(name)).length;
  if (draws === 0) throw invalid('kind: must be a kind whose tokens are not random');
  const most = Math.max(1, Math.floor(MAX_DRAWS / draws));
  if (values.length > most)
    throw invalid(
      `values: at most ${most}, because the versions of the policy have ${draws} kinds`,
    );
}
