import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../support/program.ts';

const VAULT = 'vault.pml';
const IMPORTS = 'imports.pml';
const COMMANDS = 'commands.pml';

/** Of the vault, each with two values and, unless it says so, two nodes; everything at once has too many states. */
export const PARTS = {
  'rotate, reseal and retire': ['-DALONE', '-DWITHOUT_DAMAGE', '-DWITHOUT_FORGET', VAULT],
  'one node: rotate, reseal and retire of three versions, forget': [
    ...['-DALONE', '-DWITHOUT_DAMAGE', '-DONE_NODE', '-DVERSIONS=3', VAULT],
  ],
  'one node: keys, forget and damage': ['-DALONE', '-DONE_NODE', VAULT],
  'failover with rotate, reseal and retire': ['-DWITHOUT_DAMAGE', '-DWITHOUT_FORGET', VAULT],
  'failover, forget and damage': ['-DWITHOUT_KEYS', VAULT],
  'failover, forget and damage, values that draw the same token': [
    ...['-DWITHOUT_KEYS', '-DDRAWS', VAULT],
  ],
  'both values forgotten, values that draw the same token': [
    ...['-DALONE', '-DWITHOUT_KEYS', '-DONE_NODE', '-DDRAWS', '-DFORGETS_BOTH', VAULT],
  ],
  'imports, aliases, forget, rotate, reseal and retire': ['-DALONE', '-DWITH_KEYS', IMPORTS],
  'two imports, aliases and forget': ['-DALONE', '-DTWO_IMPORTS', IMPORTS],
  'imports, aliases, forget and failover': [IMPORTS],
  'repeated commands: rewrap and policies': [COMMANDS],
  'policies with an asynchronous standby': ['-DASYNC', COMMANDS],
} as const;
export type Part = keyof typeof PARTS;

/** A check that a NO_... of the model takes out. Spin then finds a loss in each of these parts. */
interface Fence {
  readonly promise: string;
  readonly parts: readonly Part[];
  /** The entries of test/mutation that take it out of the program. */
  readonly mutants: readonly string[];
  /** Where the program has it: keys of CODE. */
  readonly code: readonly string[];
}

const KEYS = 'rotate, reseal and retire';
const THREE = 'one node: rotate, reseal and retire of three versions, forget';
const DAMAGE = 'one node: keys, forget and damage';
const KEYS_FAILOVER = 'failover with rotate, reseal and retire';
const DRAWS = 'failover, forget and damage, values that draw the same token';
const MOVES = 'imports, aliases, forget, rotate, reseal and retire';
const TWO_IMPORTS = 'two imports, aliases and forget';
const MOVES_FAILOVER = 'imports, aliases, forget and failover';
const REPEATED = 'repeated commands: rewrap and policies';
const ASYNC = 'policies with an asynchronous standby';

/**
 * Not here, because Spin finds no loss without them: the version fence of reseal (the shared lock suffices), the value
 * in KEEP and in the mend (both follow a look-up that saw the own value, and no row changes its value but an alias).
 */
export const FENCES: Readonly<Record<string, Fence>> = {
  NO_FENCE_INSERT: {
    promise: 'an insert checks its key version',
    parts: [KEYS, KEYS_FAILOVER],
    mutants: ['insert-closed', 'key-of-another'],
    code: ['INSERT', 'openVersions', 'keyIdsOf', 'close'],
  },
  NO_FENCE_KEEP: {
    promise: 'a stub comes back only with an open key version',
    parts: [THREE],
    mutants: ['keep-closed'],
    code: ['LEASED', 'KEEP', 'INSERT_LEASED'],
  },
  NO_FENCE_MEND: {
    promise: 'a record is mended only with an open key version',
    parts: [DAMAGE],
    mutants: ['mend-closed'],
    code: ['REPLACE'],
  },
  NO_FENCE_SUPERSEDE: {
    promise: 'an alias gives its place only to a record with an open key version',
    parts: [MOVES],
    mutants: ['keep-closed'],
    code: ['LEASED', 'SUPERSEDE'],
  },
  NO_LOCK_FIRST: {
    promise: 'the snapshot of a write follows its lock',
    parts: [KEYS],
    mutants: ['pool-isolation'],
    code: ['BEGIN', 'WRITERS'],
  },
  NO_RETIRE_WAIT: {
    promise: 'retire waits for writes under way',
    parts: [KEYS],
    mutants: ['retire-writers'],
    code: ['WRITERS', 'writersGone', 'retireKey'],
  },
  NO_COUNT: {
    promise: 'retire counts the records',
    parts: [KEYS],
    mutants: ['retire-needed'],
    code: ['retireKey', 'countRecords', 'remove'],
  },
  NO_OLD_SEALED: {
    promise: 'reseal replaces only what it has read',
    parts: [THREE],
    mutants: ['mend-changed'],
    code: ['REPLACE'],
  },
  NO_RESEAL_LOCK: {
    promise: 'reseal shares the lock of the vault',
    parts: [THREE],
    mutants: ['walk-no-lock'],
    code: ['replaceWalked', 'lockAndList'],
  },
  NO_RESEAL_NEWEST: {
    promise: 'reseal writes only with the newest version',
    parts: [THREE],
    mutants: ['walk-old-version'],
    code: ['replaceWalked'],
  },
  NO_WAIT: {
    promise: 'an answer waits for the standby',
    parts: [DRAWS, REPEATED, MOVES_FAILOVER],
    mutants: ['pool-doubtful'],
    code: ['openConnections', 'durably'],
  },
  NO_DURABLE_LOOK: {
    promise: 'a record that was found is as durable as a new one',
    parts: [DRAWS, MOVES_FAILOVER],
    mutants: ['find-not-durable'],
    code: ['WAITS_FOR_STANDBY', 'ONCE', 'findingWith', 'store', 'written'],
  },
  NO_DURABLE_FORGET: {
    promise: 'a value that was forgotten already is forgotten durably',
    parts: [DRAWS],
    mutants: ['pool-reads-without-wait'],
    code: ['FIND', 'states', 'durably'],
  },
  NO_FORGET_WAIT: {
    promise: 'forget waits for the standby',
    parts: [DRAWS],
    mutants: ['pool-doubtful'],
    code: ['FORGET', 'states'],
  },
  NO_FORGET_FOUND: {
    promise: 'forget removes what comes back between its statements',
    parts: [DRAWS],
    mutants: ['forget-found-only'],
    code: ['forget', 'FORGET'],
  },
  NO_TIMELINE: {
    promise: 'a node never goes back to an older primary',
    parts: [DRAWS, KEYS_FAILOVER],
    mutants: ['pool-old-connection', 'pool-any-server'],
    code: ['onPrimary'],
  },
  NO_COLLISION: {
    promise: 'a token that another value has is not taken',
    parts: [DRAWS],
    mutants: ['records-collision-stored', 'tokenizer-collision'],
    code: ['outcomeOf', 'stepOf'],
  },
  NO_STUB: {
    promise: 'a forgotten token keeps its row',
    parts: [DRAWS],
    mutants: ['forget-no-stub'],
    code: ['REMOVE', 'FORGET'],
  },
  NO_OPENING: {
    promise: 'a record that is found is opened',
    parts: [DRAWS],
    mutants: ['tokenizer-dead'],
    code: ['checked', 'mend'],
  },
  NO_DURABLE_KEY: {
    promise: 'a node takes a key only when the standby has it',
    parts: [KEYS_FAILOVER],
    mutants: ['follower-key-not-durable'],
    code: ['listDurable'],
  },
  NO_MOVE_ORDER: {
    promise: 'an alias leads on from its next draw before it gives its place',
    parts: [TWO_IMPORTS],
    mutants: ['alias-forgotten-value'],
    code: ['takePlaces', 'leave', 'lead'],
  },
  NO_SUPERSEDE_READ: {
    promise: 'only the alias that was read gives its place',
    parts: [TWO_IMPORTS],
    mutants: ['supersede-changed'],
    code: ['SUPERSEDE', 'written'],
  },
  NO_ALIAS_KEPT: {
    promise: 'forget leaves an alias',
    parts: [TWO_IMPORTS],
    mutants: ['alias-forgotten'],
    code: ['tokensAmong'],
  },
  NO_ABSENT_KEPT: {
    promise: 'forget leaves an alias that comes between its statements',
    parts: [TWO_IMPORTS],
    mutants: ['alias-forgotten-between'],
    code: ['tokensAmong', 'forgetRecords'],
  },
  NO_DURABLE_REWRAP: {
    promise: 'keys that are wrapped already are wrapped durably',
    parts: [REPEATED],
    mutants: ['pool-reads-without-wait'],
    code: ['rewrapKeys', 'locked', 'update'],
  },
  NO_DURABLE_APPLY: {
    promise: 'a policy that was applied already is applied durably',
    parts: [REPEATED],
    mutants: ['pool-reads-without-wait'],
    code: ['applyPolicy', 'durably'],
  },
  NO_DURABLE_VERSION: {
    promise: 'a node takes a policy only when the standby has it',
    parts: [REPEATED],
    mutants: ['policy-not-durable'],
    code: ['CANDIDATES', 'newestDurable'],
  },
  NO_CONTENT: {
    promise: 'a node compares the content of a version, too',
    parts: [ASYNC],
    mutants: ['policy-same-number'],
    code: ['isVersion'],
  },
};

/** A piece of the program that the model is about: where it begins, and the digest of what was compared with the model. */
type Piece = readonly [file: string, begin: string, digest: string];

/**
 * What the models say. When one changes, look at the models, renew them and docs/architecture.md, then the digest here.
 */
export const CODE: Readonly<Record<string, Piece>> = {
  openVersions: ['store/record-sql.ts', 'const openVersions', '2a9f78be'],
  keyIdsOf: ['store/record-sql.ts', 'function keyIdsOf', '6b2bc7f1'],
  INSERT: ['store/record-sql.ts', 'const INSERT =', '0daa0fe3'],
  LEASED: ['store/record-sql.ts', 'const LEASED', '313a3d6d'],
  INSERT_LEASED: ['store/record-sql.ts', 'const INSERT_LEASED', 'b9b181a6'],
  KEEP: ['store/record-sql.ts', 'const KEEP', '15a5b465'],
  SUPERSEDE: ['store/record-sql.ts', 'const SUPERSEDE', 'd69103ca'],
  REPLACE: ['store/record-sql.ts', 'const REPLACE', '9b0beb53'],
  HAS_STANDBY: ['store/record-sql.ts', 'const HAS_STANDBY', '84ab223a'],
  MESSAGE: ['store/record-sql.ts', 'const MESSAGE', '499fcdc0'],
  WAITS_FOR_STANDBY: ['store/record-sql.ts', 'export const WAITS_FOR_STANDBY', '8d8ad3c0'],
  ONCE: ['store/record-sql.ts', 'const ONCE', '6c01d35b'],
  findingWith: ['store/record-sql.ts', 'function findingWith', '7f89606b'],
  written: ['store/records.ts', '#written(', '4787142f'],
  store: ['store/records.ts', 'async #store(', 'd779e882'],
  keepMissing: ['store/records.ts', 'async #keepMissing(', '8b68dc06'],
  outcomeOf: ['store/records.ts', 'export function outcomeOf', 'e5121692'],
  FIND: ['store/removal.ts', 'const FIND =', '7bbdb0bb'],
  REMOVE: ['store/removal.ts', 'const REMOVE', '3aeb5498'],
  FORGET: ['store/removal.ts', 'const FORGET', '5613db73'],
  forget: ['store/removal.ts', 'forget(tokens', 'd0440237'],
  states: ['store/removal.ts', '#states(', 'e2bb695a'],
  WRITERS: ['store/wrapped-keys.ts', 'const WRITERS =', '69e7d231'],
  close: ['store/wrapped-keys.ts', 'close: async', '4e5cdb5a'],
  remove: ['store/wrapped-keys.ts', 'remove: async', 'd791f8b1'],
  update: ['store/wrapped-keys.ts', 'update: async', 'fc96873a'],
  locked: ['store/wrapped-keys.ts', 'async locked<T>', 'd2320db2'],
  listDurable: ['store/wrapped-keys.ts', 'async listDurable', '1cd6694f'],
  writersGone: ['store/wrapped-keys.ts', 'async writersGone', 'b423ad64'],
  lockAndList: ['store/wrapped-keys.ts', 'async function lockAndList', 'a7670ef3'],
  insertKey: ['store/wrapped-keys.ts', 'async function insertKey', 'aa3a5085'],
  countRecords: ['store/wrapped-keys.ts', 'async function countRecords', '64fda9eb'],
  replaceWalked: ['store/record-walk.ts', 'async replace(', 'a07b6a53'],
  BEGIN: ['store/connection.ts', 'export const BEGIN =', '3e17b084'],
  openConnections: ['store/connection.ts', 'export function openConnections', '68cd3335'],
  durably: ['store/pool.ts', 'async durably<T>', 'efcae6d1'],
  onPrimary: ['store/pool.ts', 'async #onPrimary<T>', 'be63e85d'],
  CANDIDATES: ['store/policies.ts', 'const CANDIDATES', '9aaf6366'],
  newestDurable: ['policy/policy-follower.ts', 'async #newestDurable', '740f238f'],
  isVersion: ['policy/policy-follower.ts', 'function isVersion', 'ca5e99fa'],
  applyPolicy: ['store/policies.ts', 'async apply(', '3afa9db0'],
  retireKey: ['vault/key-lifecycle.ts', 'export async function retireKey', 'fb14f0a8'],
  rewrapKeys: ['vault/key-lifecycle.ts', 'export async function rewrapKeys', 'd1460666'],
  checked: ['tokens/tokenizer.ts', 'async #checked(', '81e4f89f'],
  mend: ['tokens/tokenizer.ts', 'async #mend(', '8e89a16c'],
  stepOf: ['tokens/tokenizer.ts', 'function stepOf', '7d794395'],
  place: ['records/import.ts', 'async #place(', '244d1354'],
  takePlaces: ['records/import.ts', 'async #takePlaces(', '04d83bea'],
  besideDraws: ['records/import.ts', '#besideDraws(draft: Draft)', '5d389c4a'],
  lead: ['records/aliases.ts', 'async lead<', '9bc09768'],
  leave: ['records/aliases.ts', 'async leave(', '131c945a'],
  forgetRecords: ['records/removal.ts', 'export async function forgetRecords', '269d3805'],
  tokensAmong: ['records/removal.ts', 'async function tokensAmong', '444bf25a'],
};

/** Files whose statements all have to be in CODE, besides those that the models leave out. */
export const STATEMENT_FILES = [
  'store/record-sql.ts',
  'store/removal.ts',
  'store/wrapped-keys.ts',
] as const;
/** Parts of statements, and the removal of what has expired. */
export const LEFT_OUT = [
  'FINGERPRINTS',
  'UNSEALED',
  'SEALED',
  'HAS_CITUS',
  'ON_ONE_SERVER',
  'ON_CITUS',
  'COLUMNS',
  'FIND_EXPIRED',
  'EXPIRE',
  'KEYS_ARE_GONE',
];

/** From its beginning to the line with which its block or its text ends, without comments and white space. */
export function codeOf([file, begin]: Piece): string {
  const lines = sourceOf(file).split('\n');
  const from = lines.findIndex((line) => line.trimStart().startsWith(begin));
  if (from === -1) throw new Error(`${file} has no ${begin}`);
  const indent = /^ */.exec(lines[from]!)![0];
  const isEnd = (line: string) =>
    begin.includes('const ')
      ? line.endsWith(';')
      : /^ *\},?$/.test(line) && line.startsWith(`${indent}}`);
  const to = lines.findIndex((line, i) => i >= from && isEnd(line));
  return lines.slice(from, to + 1).join('\n');
}

export function digestOf(piece: Piece): string {
  const bare = codeOf(piece)
    .replace(/^ *(\/\/|\/?\*).*$/gm, '')
    .replace(/\s+/g, ' ');
  return createHash('sha256').update(bare).digest('hex').slice(0, 8);
}

export function sourceOf(file: string): string {
  return readFileSync(join(ROOT, 'src', file), 'utf8');
}
