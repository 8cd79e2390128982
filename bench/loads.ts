import { type ContestantName, type Entry, TITLES } from './contestants.ts';
import { FIELDS, VALUES_PER_RECORD } from './interfaces.ts';
import { whole } from './results.ts';

export const SMALL = ['tokenize', 'repeat', 'detokenize'] as const;
export type SmallLoadName = (typeof SMALL)[number];
/** Those after bulk have their own contestants. growth takes minutes, so it runs only if it is named. */
export const LOADS = [...SMALL, 'bulk', 'policy', 'start', 'growth'] as const;
export type LoadName = (typeof LOADS)[number];

/** Loads of small requests have so many connections. */
export const CONNECTIONS = [64, 256] as const;
export const STEADY_CONNECTIONS = 64;

/** One kind of requests, the same for every contestant. */
export interface Load {
  readonly name: SmallLoadName | 'bulk';
  /** The heading of the table. */
  readonly title: string;
  readonly connections: number;
  /** New records of a request. */
  readonly records: number;
}

const SMALL_TITLES = {
  tokenize: 'Tokenize 3 new values a request',
  detokenize: 'Detokenize 3 tokens a request',
  repeat: 'Tokenize 3 values a request that are stored already',
};

export function small(name: SmallLoadName, connections: number): Load {
  const title = `${SMALL_TITLES[name]}, ${connections} connections`;
  return { name, title, connections, records: 1 };
}

/** What a request may have by default: 10,000 values. */
export const MOST_RECORDS = 1_000;
const BULK_CONNECTIONS = 8;

export const BULK: Load = {
  name: 'bulk',
  title: `Bulk: tokenize ${whole(MOST_RECORDS)} new records of ${VALUES_PER_RECORD} values a request, ${BULK_CONNECTIONS} connections`,
  connections: BULK_CONNECTIONS,
  records: MOST_RECORDS,
};

/** The loads of a run, in order. */
export function expandLoads(names: readonly LoadName[]): Load[] {
  const all = (Object.keys(SMALL_TITLES) as SmallLoadName[]).flatMap((name) =>
    CONNECTIONS.map((count) => small(name, count)),
  );
  return [...all, BULK].filter(({ name }) => names.includes(name));
}

/** Each kind of small requests, for vaults that take turns. */
function steadyLoads(kind: string, values: number): Load[] {
  return SMALL.map((name) => {
    const load = small(name, STEADY_CONNECTIONS);
    return { ...load, title: `${kind}: ${load.title.replaceAll('3', String(values))}` };
  });
}

/** The loads of small and filled vaults, which take turns. */
export const GROWTH_LOADS = steadyLoads('Growth', VALUES_PER_RECORD);

/** Records of ten fields, with a policy and without: what a policy costs. */
export const POLICY_LOADS = steadyLoads('Policy', Object.keys(FIELDS).length);
export const WITHOUT_POLICY = 'Standin without a policy';
export const WITH_POLICY = 'Standin, a policy of ten fields';

/** Ten fields of three kinds. */
const POLICY = {
  version: 1,
  kinds: {
    phone: { shape: 'digits', keep_last: 2 },
    mail: { shape: 'email', keep: 'domain' },
  },
  fields: {
    ...FIELDS,
    ...Object.fromEntries(
      Object.entries(FIELDS).map(([name, kind]) => [`records[*].${name}`, kind]),
    ),
  },
  elsewhere: 'pass',
  rights: { '*': { '*': 'full' } },
};

/** Who takes part in the loads of policies. The earlier Standin need not know them. */
export function policyEntries(contestants: readonly ContestantName[]): Entry[] {
  const entries: Entry[] = [
    { name: 'past', title: TITLES.past, isWide: true },
    { name: 'postgres', title: WITHOUT_POLICY, isWide: true },
    { name: 'postgres', title: WITH_POLICY, isWide: true, policy: JSON.stringify(POLICY) },
  ];
  return entries.filter(({ name }) => name !== 'past' || contestants.includes(name));
}
