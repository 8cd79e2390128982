import { isSchemaBound } from '#paths';
import { invalid, isObject } from '../body/data.ts';

/** The schema of a tool is the deepest. */
const MAX_DEPTH = 64;
/** Names and ids, by which the model and its callers find things again, and what is signed. */
const VERBATIM = new Set(
  'role type id tool_call_id call_id status format pattern $ref strict signature encrypted_content data'.split(
    ' ',
  ),
);
/** Of those names, Base64 and ids. Mail addresses and sentences do not have this form. */
const ID = /^[\w.:/+=-]*$/;
/** A number of fewer than seven digits, or a fraction, is none of a telephone, card or account. */
const LEAST_NUMBER = 1_000_000;
const IDENTIFIER = /^[\w.-]{1,64}$/;
/** Parts of messages that are text. All others are images and files. */
const TEXT_PARTS = new Set(
  'text input_text output_text summary_text refusal thinking redacted_thinking tool_result'.split(
    ' ',
  ),
);

/** What becomes of the strings of an object or list. */
interface Walk {
  /** For messages. */
  readonly path: string;
  /** @param name of the string, '' in a list */
  readonly replace: (text: string, name: string) => string;
  /** Called for each image or file of a message, which stays. */
  readonly onFile?: () => void;
}

/**
 * A copy of a JSON value in which `replace` made all strings and long numbers that a person can
 * have written. A number that it changes becomes a string.
 * @param within the name of the value, or of the list that it is in
 * @throws CallerError invalid_type when it is nested too deep
 */
export function replaceStrings(json: unknown, walk: Walk, within = '', depth = 0): unknown {
  if (typeof json === 'string') return isVerbatim(within, json) ? json : walk.replace(json, within);
  if (typeof json === 'number') return replaceNumber(json, within, walk);
  if (typeof json !== 'object' || json === null || within === 'required') return json;
  if (depth > MAX_DEPTH) throw invalid(`${walk.path}: is nested deeper than ${MAX_DEPTH} levels`);
  // Entry by entry: a list can have 500,000, and the walk ends at the bound of strings.
  if (Array.isArray(json))
    return json.map((one) => {
      if (within !== 'content' || !isFile(one))
        return replaceStrings(one, walk, typeof one === 'object' ? within : '', depth + 1);
      walk.onFile?.();
      return one;
    });
  const entries = Object.entries(json).map(([name, one]) => [
    name,
    replaceStrings(one, walk, name, depth + 1),
  ]);
  return Object.fromEntries(entries);
}

function replaceNumber(number: number, name: string, { replace }: Walk): unknown {
  if (!Number.isInteger(number) || Math.abs(number) < LEAST_NUMBER || isSchemaBound(name))
    return number;
  const text = String(number);
  const replaced = replace(text, name);
  return replaced === text ? number : replaced;
}

function isVerbatim(name: string, text: string): boolean {
  return VERBATIM.has(name) ? ID.test(text) : name === 'name' && IDENTIFIER.test(text);
}

function isFile(part: unknown): boolean {
  return isObject(part) && typeof part.type === 'string' && !TEXT_PARTS.has(part.type);
}
