import { IDENTIFIER, replaceLiterals, replaceText } from '#paths/json-text';
import { ProxyError } from './failures.ts';
import { type Fields, type Rule, SOURCE } from './routes.ts';

/** Gives the text that the provider may read. */
export type Replace = (text: string) => string;

interface Walk {
  readonly replace: Replace;
  readonly passesFiles: boolean;
}

/**
 * A copy of a request in which `replace` made every text.
 * @throws ProxyError for what has no rule, or is refused
 */
export function replaceTexts(body: object, fields: Fields, walk: Walk): Record<string, unknown> {
  return byRule(body, fields, '', walk) as Record<string, unknown>;
}

function byRule(value: unknown, rule: Rule, path: string, walk: Walk): unknown {
  if (value === null) return value;
  if (Array.isArray(value)) return value.map((one, i) => byRule(one, rule, `${path}[${i}]`, walk));
  if (typeof rule === 'object')
    return typeof value === 'object'
      ? byFields(value, rule, path, walk)
      : byRule(value, 'text', path, walk);
  switch (rule) {
    case 'text':
      if (typeof value === 'string') return replaceText(value, walk.replace);
      throw new ProxyError(
        400,
        `${path}: must be text; the proxy cannot check anything else here.`,
      );
    case 'json':
      // In a list, because a number alone is no JSON text to look into.
      return JSON.parse(replaceText(JSON.stringify([value]), walk.replace))[0];
    case 'verbatim':
      return verbatim(value, path);
    case 'file':
      if (walk.passesFiles) return value;
      throw new ProxyError(
        400,
        `${path}: images and files are refused, because nobody looks into them; --images pass lets them through.`,
      );
    default:
      if (value === false) return value;
      throw new ProxyError(400, `${path}: ${rule}.`);
  }
}

function byFields(value: object, fields: Fields, path: string, walk: Walk): unknown {
  const { type } = value as { type?: unknown };
  if (fields === SOURCE && type !== 'text' && type !== 'content')
    return byRule(value, 'file', path, walk);
  if (type === 'item_reference')
    throw new ProxyError(400, `${path}: send the item itself, because the proxy checks all texts.`);
  const made = Object.entries(value).map(([name, one]) => {
    const at = path === '' ? shown(name) : `${path}.${shown(name)}`;
    if (!Object.hasOwn(fields, name))
      throw new ProxyError(
        400,
        `${at}: the proxy does not know this field, so it cannot tell what is personal in it; leave it out.`,
      );
    return [name, byRule(one, fields[name]!, at, walk)];
  });
  return Object.fromEntries(made);
}

/** A name that a person could have written is not repeated in an error. */
const shown = (name: string) => (IDENTIFIER.test(name) ? name : '*');
/** Ids, types, names of tools and models, Base64. */
const VERBATIM = /^@?[\w.:/+=-]*$/;

function verbatim(value: unknown, path: string): unknown {
  replaceLiterals(JSON.stringify(value), (text) => {
    if (VERBATIM.test(text)) return text;
    throw new ProxyError(
      400,
      `${path}: goes to the provider as it is, so it may have only letters, digits and _ . : / + = -.`,
    );
  });
  return value;
}
