import { type Ask, BulkError } from '#bulk';

/** What follows the last `_` of a token. */
const SUFFIX = /_[A-Za-z0-9]{1,16}$/;

/**
 * The suffix of the vault, if all values end in it; undefined: they are no tokens. A value can end
 * so by chance. Only a detokenize could tell, which the client may not be allowed to do, and which
 * counts as a guess.
 * @param tokens what the vault gave for the values
 */
export function suffixOfTokens(
  values: readonly string[],
  tokens: readonly string[],
): string | undefined {
  const [suffix] = SUFFIX.exec(tokens[0] ?? '') ?? [];
  const haveIt = (texts: readonly string[]) => texts.every((text) => text.endsWith(suffix!));
  return suffix !== undefined && haveIt(values) && haveIt(tokens) ? suffix : undefined;
}

/** Of a text that may be meant as the name of a file. A slash can also be in a token. */
const FILE_FORM =
  /\.(csv|tsv|json|ndjson|jsonl|gz|txt|xlsx|parquet)$|[\\/](?!.*_[A-Za-z0-9]{1,16}$)/is;

export function looksLikeFile(text: string): boolean {
  return FILE_FORM.test(text);
}

/** Ends a run whose first rows have a field of tokens, before it writes. */
export function refusingTokens(ask: Ask): Ask {
  let isChecked = false;
  return async (values, signal, fields) => {
    // Not the requests that are under way beside the first one.
    const isFirst = !isChecked;
    isChecked = true;
    const tokens = await ask(values, signal, fields).catch((error) => {
      if (isFirst) isChecked = false;
      throw error;
    });
    for (const field of isFirst ? new Set(fields) : []) {
      const ofField = (_: string, i: number) => fields[i] === field;
      const suffix = suffixOfTokens(values.filter(ofField), tokens.filter(ofField));
      if (suffix !== undefined)
        throw new BulkError(
          `The field ${JSON.stringify(field)} has tokens already: all values in the first rows end in ${suffix}, as tokens of this vault do. Leave the field out, or add --retokenize to make tokens of tokens`,
        );
    }
    return tokens;
  };
}
