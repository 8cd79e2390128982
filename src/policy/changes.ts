import { type Steps, stepsOf, suggested } from '#paths';
import type { Client } from '../client-settings.ts';
import { defaultKind, type KindSettings, type MaskSettings } from '../shape/kind-settings.ts';
import { cut } from './document.ts';
import {
  type DeclaredPolicy,
  ELSEWHERE,
  entryOf,
  kindsInUse,
  OTHERS,
  RIGHTS,
  rightOf,
} from './policy.ts';

/** A line of a policy that the next policy adds, removes or changes. */
export interface Change {
  /** For example `kind card`, `field customer.email` or `right of support to card`. */
  readonly what: string;
  /** In words; null: it was not there. */
  readonly before: string | null;
  /** In words; null: it is not there any more. */
  readonly after: string | null;
}

export function changesOf(before: DeclaredPolicy, after: DeclaredPolicy): Change[] {
  const [old, next] = [entriesOf(before), entriesOf(after)];
  return [...new Set([...old.keys(), ...next.keys()])].flatMap((what) => {
    const change = { what, before: old.get(what) ?? null, after: next.get(what) ?? null };
    return change.before === change.after ? [] : [change];
  });
}

/** The lines of a policy in words, by what they are about. */
function entriesOf(policy: DeclaredPolicy): ReadonlyMap<string, string> {
  const { kinds, fields = [], elsewhere, rights, detect } = policy;
  const declared = kinds.filter(({ name, shape }) => name !== shape);
  const granted = Object.entries(rights ?? {}).flatMap(([client, ofKinds]) =>
    Object.entries(ofKinds).map(
      ([kind, right]) => [`right of ${client} to ${kind}`, right] as const,
    ),
  );
  return new Map([
    ...declared.map((kind) => [`kind ${kind.name}`, kindInWords(kind)] as const),
    ...fields.map(({ path, kind }) => [`field ${path}`, kind] as const),
    ...detect.map(({ detector, kind }) => [`detection of ${detector}`, kind] as const),
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

type Named = Pick<Client, 'client_id' | 'name'>;
type Known = Named & Pick<Client, 'can_detokenize' | 'disabled_at'>;

/** More names are counted only. */
const MAX_NAMES = 20;
/** Names that a misspelt one is compared with. */
const MAX_NEAR = 1_000;

/**
 * The consequences of a policy, a sentence each: what will be in clear or refused, who will see
 * less or more, and which rights are nobody's. An apply asks before it does this.
 */
export function consequencesOf(
  before: DeclaredPolicy,
  after: DeclaredPolicy,
  clients: readonly Known[],
): string[] {
  return [
    ...ofStrings(before, after),
    ...ofDetection(before, after),
    ...ofRemovedKinds(before, after),
    ...ofRights(before, after, clients.filter(canSee)),
    ...ofUnknownClients(after, clients),
  ];
}

/** Whether rights are of use to the client. */
export function canSee({ can_detokenize: can, disabled_at: disabledAt }: Known): boolean {
  return can && disabledAt === null;
}

function ofStrings(before: DeclaredPolicy, after: DeclaredPolicy): string[] {
  const { elsewhere } = after;
  if (elsewhere === 'tokenize') return [];
  const will = `will ${ELSEWHERE[elsewhere]}.`;
  const [old, next] = [stepped(before), stepped(after)];
  const left = old.filter(({ steps }) => !next.some((one) => leadsTo(one.steps, steps)));
  const texts = left.map(({ path, kind }) => `${path} ${will} Today it is tokenized, as ${kind}.`);
  if (namesValues(next) && !namesValues(old))
    texts.unshift(
      'Requests of the form {"data":{"values":[...]}}, which clients without a policy send, will follow the fields. Today all their strings are tokenized, as text.',
    );
  if (elsewhere !== before.elsewhere)
    texts.unshift(`Strings that no field names ${will} Today they ${ELSEWHERE[before.elsewhere]}.`);
  return texts;
}

function ofDetection({ detect }: DeclaredPolicy, after: DeclaredPolicy): string[] {
  const found = new Set(after.detect.map(({ detector }) => detector));
  const lost = detect.filter(({ detector }) => !found.has(detector));
  return lost.map(
    ({ detector, kind }) =>
      `${cut(detector)} in texts will stay in clear. Today it is found, as ${kind}.`,
  );
}

function stepped({ fields = [] }: DeclaredPolicy) {
  return fields.map((field) => ({ ...field, steps: stepsOf(field.path) }));
}

function namesValues(fields: readonly { readonly steps: Steps }[]): boolean {
  return fields.some(({ steps }) => steps[0] === 'values');
}

/** Whether a path covers all of another. */
function leadsTo(path: Steps, other: Steps): boolean {
  const isAt = (step: Steps[number], i: number) =>
    step === other[i] || (step === null && typeof other[i] === 'number');
  return path.length === other.length && path.every(isAt);
}

function ofRemovedKinds(before: DeclaredPolicy, after: DeclaredPolicy): string[] {
  const left = new Set(after.kinds.map(({ name }) => name));
  const removed =
    after.rights === undefined ? [] : before.kinds.filter((one) => !left.has(one.name));
  return removed.map(
    ({ name }) =>
      `The kind ${name} is removed, its values stay: only a right to "${OTHERS}" will show them, and masked will show ****.`,
  );
}

/** One sentence for all clients that lose or gain the same. */
function ofRights(
  before: DeclaredPolicy,
  after: DeclaredPolicy,
  clients: readonly Named[],
): string[] {
  const entriesOf = (one: Named) => [entryOf(before, one), entryOf(after, one)];
  // Clients of the same lines see the same.
  const groups = grouped(clients, (one) => JSON.stringify(entriesOf(one)));
  const changes = [...groups.values()].flatMap((group) =>
    textsOf(before, after, group[0]!).map((text) => ({ text, names: group.map(nameOf) })),
  );
  const byText = grouped(changes, ({ text }) => text);
  return [...byText].map(
    ([text, same]) => `${listed(same.flatMap(({ names }) => names))} will see ${text}.`,
  );
}

/** The kinds that a client will see less or more of: `less: card full -> masked`. */
function textsOf(before: DeclaredPolicy, after: DeclaredPolicy, client: Named): string[] {
  const old = [...kindsInUse(before).map(nameOf), OTHERS];
  const all = [...new Set([...kindsInUse(after).map(nameOf), ...old])];
  const textOf = (how: string, kinds: readonly string[], isMove: (by: number) => boolean) => {
    const moves = kinds.flatMap((kind) => {
      const [from, to] = [rightOf(before, client, kind), rightOf(after, client, kind)];
      const words = kind === OTHERS ? 'all other kinds' : kind;
      return isMove(RIGHTS.indexOf(to) - RIGHTS.indexOf(from))
        ? [{ words, move: `${from} -> ${to}` }]
        : [];
    });
    const texts = [...grouped(moves, ({ move }) => move)].map(([move, same]) => {
      const named = same.map(({ words }) => words).join(', ');
      return `${same.length === kinds.length ? 'every kind' : named} ${move}`;
    });
    return texts.length === 0 ? [] : [`${how}: ${texts.join('; ')}`];
  };
  return [
    ...textOf('less', all, (by) => by > 0),
    // Nobody has seen values of a new kind.
    ...textOf('more', old, (by) => by < 0),
  ];
}

function nameOf({ name }: { readonly name: string }): string {
  return name;
}

function grouped<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item)) ?? [];
    group.push(item);
    groups.set(keyOf(item), group);
  }
  return groups;
}

function ofUnknownClients({ rights = {} }: DeclaredPolicy, all: readonly Named[]): string[] {
  const known = new Set([OTHERS, ...all.flatMap((one) => [one.client_id, one.name])]);
  const missing = Object.keys(rights).filter((named) => !known.has(named));
  if (missing.length === 0) return [];
  const names = all.slice(0, MAX_NEAR).map(nameOf);
  const near = missing.slice(0, MAX_NAMES).map((named) => suggested(cut(named), names));
  return [
    `No client of the vault is called ${listed([...near, ...missing.slice(MAX_NAMES)])}: nobody will have these rights.`,
  ];
}

function listed(names: readonly string[]): string {
  const more = names.length - MAX_NAMES;
  return names.slice(0, MAX_NAMES).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
