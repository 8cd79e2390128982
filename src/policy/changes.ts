import { defaultKind, type KindSettings, type MaskSettings } from '../shape/kind-settings.ts';
import { type DeclaredPolicy, ELSEWHERE } from './policy.ts';

/** A line of a policy that the next policy adds, removes or changes. */
export interface Change {
  /** For example `kind card`, `field customer.email` or `right of support to card`. */
  readonly what: string;
  /** In words; null: it was not there. */
  readonly before: string | null;
  /** In words; null: it is not there any more. */
  readonly after: string | null;
}

/** @param before undefined: no policy */
export function changesOf(before: DeclaredPolicy | undefined, after: DeclaredPolicy): Change[] {
  const [old, next] = [entriesOf(before ?? NO_POLICY), entriesOf(after)];
  return [...new Set([...old.keys(), ...next.keys()])].flatMap((what) => {
    const change = { what, before: old.get(what) ?? null, after: next.get(what) ?? null };
    return change.before === change.after ? [] : [change];
  });
}

export const NO_POLICY: DeclaredPolicy = {
  ...{ kinds: [], fields: undefined, elsewhere: 'tokenize', rights: undefined },
};

/** The lines of a policy in words, by what they are about. */
function entriesOf(policy: DeclaredPolicy): ReadonlyMap<string, string> {
  const { kinds, fields = [], elsewhere, rights } = policy;
  const declared = kinds.filter(({ name, shape }) => name !== shape);
  const granted = Object.entries(rights ?? {}).flatMap(([client, ofKinds]) =>
    Object.entries(ofKinds).map(
      ([kind, right]) => [`right of ${client} to ${kind}`, right] as const,
    ),
  );
  return new Map([
    ...declared.map((kind) => [`kind ${kind.name}`, kindInWords(kind)] as const),
    ...fields.map(({ path, kind }) => [`field ${path}`, kind] as const),
    ['strings at all other paths', ELSEWHERE[elsewhere]],
    ['what clients see', rights ? 'what their rights say' : 'everything'],
    ...granted,
  ]);
}

/** The shape, and the options that are not the default: `digits, keep_last 4`. */
export function kindInWords(kind: KindSettings): string {
  const defaults = defaultKind(kind.name, kind.shape);
  const names = Object.keys(kind) as (keyof KindSettings)[];
  const options = names.flatMap((name) => {
    const [value, usual] = [kind, defaults].map((one) => optionInWords(one[name]));
    return value === usual ? [] : [`${name} ${value}`];
  });
  return [kind.shape, ...options].join(', ');
}

function optionInWords(value: KindSettings[keyof KindSettings]): string {
  if (Array.isArray(value)) return value.join(' and ');
  if (typeof value !== 'object' || value === null) return String(value);
  const { show, ...ends } = value as MaskSettings;
  return [show, ...Object.entries(ends).map(([end, count]) => `${end} ${count}`)].join(' ');
}
