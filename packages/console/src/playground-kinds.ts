import { type Steps, stepsOf } from './json-place.ts';
import { leavesOf } from './playground-input.ts';
import type { FieldState, PolicyDetail } from './protocol.ts';

/** Places of an example in one list. */
const MAX_ITEMS = 10;
const TEXT = 'text';

/** The kind of each string that the service replaces, by path. Other values pass unchanged. */
export function kindsIn(data: unknown, policy: PolicyDetail): ReadonlyMap<string, string> {
  const strings = leavesOf(data).filter(({ value }) => typeof value === 'string');
  if (policy.fields === null || isList(data, policy.fields))
    return new Map(strings.map(({ path }) => [path, TEXT]));
  const { fields } = policy;
  // The service replaces no empty string under a policy with fields.
  const named = strings.filter(({ value }) => value !== '');
  return new Map(
    named.flatMap(({ path }) => {
      const steps = leafSteps(path);
      const field = fields.find((one) => fits(one.steps, steps));
      const kind = field?.kind ?? (policy.elsewhere === 'tokenize' ? TEXT : undefined);
      return kind === undefined ? [] : [[path, kind] as const];
    }),
  );
}

/** Whether the service takes `data` for a list of values, of no field of the policy. */
function isList(data: unknown, fields: readonly FieldState[]): boolean {
  const isAlone = Object.keys(data as object).length === 1;
  if (!isAlone || !Array.isArray((data as { values?: unknown }).values)) return false;
  return fields.every(({ steps }) => steps[0] !== 'values');
}

/** The steps of a path from `leavesOf`. */
function leafSteps(path: string): Steps {
  return stepsOf(path.startsWith('[') ? path : `.${path}`);
}

/** @param wanted of the policy: null stands for every index */
function fits(wanted: Steps, steps: Steps): boolean {
  return (
    wanted.length === steps.length &&
    wanted.every((step, i) => step === steps[i] || (step === null && typeof steps[i] === 'number'))
  );
}

/** A record with an example in each field, and a number beside them. */
export function recordOf({ kinds, fields }: PolicyDetail): object | undefined {
  if (fields === null) return undefined;
  const root: Branch = { order: 1001 };
  for (const { steps, kind } of fields) {
    const { example } = kinds.find(({ name }) => name === kind)!;
    if (steps.every((step) => typeof step !== 'number' || step < MAX_ITEMS))
      place(root, steps, example.value);
  }
  return root;
}

type Branch = Record<string | number, unknown>;

function place(root: Branch, steps: Steps, value: string): void {
  let branch = root;
  for (const [i, step] of steps.entries()) {
    const at = step ?? 0;
    // Items before it must be something, too.
    if (typeof at === 'number') for (let n = 0; n < at; n++) branch[n] ??= null;
    const next = steps[i + 1];
    const isLast = i === steps.length - 1;
    if (isLast) branch[at] = value;
    else if (typeof branch[at] !== 'object' || branch[at] === null)
      branch[at] = typeof next === 'string' ? {} : [];
    branch = branch[at] as Branch;
  }
}
