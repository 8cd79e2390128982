import { pathText } from '#paths';
import { CLIENT_SETTINGS } from '../../client-settings.ts';
import * as schemas from '../../openapi/schemas.ts';
import { checkText, invalid } from '../../public/body/data.ts';
import { MAX_VALUE_BYTES } from '../../public/schema.ts';
import { type ForgetRequest, forget as forgetValues } from '../../records/forget.ts';
import { findTokens, NoSuchValue } from '../../records/found-values.ts';
import type { EveryKind } from '../../tokens/every-kind.ts';
import { DEFAULT_SPACE, restate, type Token, type Value } from '../../types.ts';
import {
  type AdminCall,
  type AdminDone,
  type AdminPart,
  type AdminParts,
  type AdminResponse,
  changing,
  type Field,
  field,
  flag,
  isText,
  isTexts,
  reading,
} from './operation.ts';

/** Each value is looked for under every kind. */
const MAX_VALUES = 100;
const MAX_TOKENS = 10_000;
/** Some 2 s of processor time. */
const MAX_DRAWS = 100_000;

function stored(description: string, example: string, maxItems: number): Field<readonly string[]> {
  const items = { type: 'string', maxLength: MAX_VALUE_BYTES, examples: [example] };
  const schema = { ...schemas.list(description, items), maxItems };
  const isFit = (json: unknown): json is readonly string[] =>
    isTexts(json) && json.length <= maxItems;
  return field(schema, `an array of up to ${maxItems} strings`, isFit);
}

const LOOKUP = {
  values: stored('Values, as they were tokenized.', 'ann@example.com', MAX_VALUES),
  kind: field(
    { ...schemas.text('Look under this kind only. Missing: every kind.'), minLength: 1 },
    'the name of a kind',
    (json): json is string => isText(json) && json !== '',
  ),
  space: {
    ...CLIENT_SETTINGS.space,
    schema: {
      ...CLIENT_SETTINGS.space.schema,
      description: 'The space of the tokens. Missing: the default space.',
    },
  },
};
const FORGET = {
  tokens: stored('Tokens.', 'urb@waovwde.dhq_tok', MAX_TOKENS),
  ...{ ...LOOKUP, dry_run: flag('Count, and change nothing.') },
};

export const VALUES: AdminPart = {
  ...{ tag: 'Values', description: 'By value or token.' },
  schemas: {
    LookupAnswer: schemas.object('Tokens of the values.', {
      tokens: schemas.list('For each value its tokens.', {
        ...{ type: 'array', items: schemas.ref('FoundToken') },
      }),
    }),
    FoundToken: schemas.object('A token of a value.', {
      kind: schemas.text('The kind under which the value has it.', 'email'),
      token: schemas.text('The token.', 'urb@waovwde.dhq_tok'),
    }),
    ForgetAnswer: schemas.object('Numbers of different tokens.', {
      is_dry_run: schemas.flag('Nothing was changed.'),
      known: schemas.whole('That had values before.'),
      forgotten: schemas.whole('Whose values are gone now.'),
      already_forgotten: schemas.whole('Whose values were gone before.'),
      unknown: schemas.list('Places of tokens and values that the vault never had.', {
        ...{ type: 'string', examples: ['tokens[0]'] },
      }),
      not_searched: schemas.list(
        'Where tokens of the values may be left, in words, and how to find them.',
        { type: 'string' },
      ),
    }),
  },
  operations: [
    reading('post', '/lookup', {
      ...{ act: 'lookup', id: 'findTokens', summary: 'The tokens that values have' },
      description: 'Under every kind, or one. Random tokens cannot be found.',
      body: {
        ...{ name: 'LookupRequest', description: 'Values to find.', fields: LOOKUP },
        required: ['values'],
      },
      response: 'LookupAnswer',
      run: lookup,
    }),
    changing('post', '/forget', {
      ...{ act: 'forget', id: 'forget', summary: 'Forget values' },
      description:
        'Removes values for ever, as `standin forget`: the named tokens, and every token of the values that any version of the policy drew, under every kind or one. `not_searched` says what it cannot find. After an error, send it again.',
      body: {
        ...{ name: 'ForgetRequest', fields: FORGET },
        description: 'What to forget: `tokens`, `values` or both.',
      },
      response: 'ForgetAnswer',
      run: forget,
    }),
  ],
};

async function lookup(
  parts: AdminParts,
  { body: { values = [], ...where } }: AdminCall<typeof LOOKUP>,
): Promise<AdminResponse> {
  return { body: { tokens: await tokensOf(parts, values, where) }, values: values.length };
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

async function forget(
  { forgetting }: AdminParts,
  { body }: AdminCall<typeof FORGET>,
): Promise<AdminDone> {
  const { tokens, values, kind, space = DEFAULT_SPACE, dry_run: isDryRun = false } = body;
  if (tokens === undefined && values === undefined)
    throw invalid('body: must have tokens, values or both');
  const request = {
    tokens: checked('tokens', tokens) as Token[],
    values: checked('values', values) as Value[],
    ...{ kind, space, isDryRun },
  };
  if (request.values.length > 0) await checkDraws(forgetting.kinds, request);
  const result = await forgetValues(forgetting, request);
  const { known, forgotten, notSearched } = result;
  const unknown = (['tokens', 'values'] as const).flatMap((list) =>
    result[list].flatMap((state, i) => (state === 'unknown' ? [pathText([list, i])] : [])),
  );
  const done = restate(result, {
    ...{ is_dry_run: isDryRun, known, forgotten: isDryRun ? 0 : known },
    ...{ already_forgotten: forgotten, unknown, not_searched: notSearched },
  });
  return { body: done, values: isDryRun ? 0 : known };
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
