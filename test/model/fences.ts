import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { definitionOf } from '../mutation/mutant.ts';
import { ROOT } from '../support/program.ts';

/**
 * What Spin explores, and its command line. Of the vault, each with two values and, unless it says so, two nodes;
 * everything at once has too many states.
 */
export const PARTS: Readonly<Record<string, readonly [about: string, command: string]>> = {
  KEYS: ['rotate, reseal and retire', '-DALONE -DWITHOUT_DAMAGE -DWITHOUT_FORGET vault.pml'],
  THREE: [
    'one node: rotate, reseal and retire of three versions, forget',
    '-DALONE -DWITHOUT_DAMAGE -DONE_NODE -DVERSIONS=3 vault.pml',
  ],
  DAMAGE: ['one node: keys, forget and damage', '-DALONE -DONE_NODE vault.pml'],
  KEYS_FAILOVER: [
    'failover with rotate, reseal and retire',
    '-DWITHOUT_DAMAGE -DWITHOUT_FORGET vault.pml',
  ],
  FAILOVER: ['failover, forget and damage', '-DWITHOUT_KEYS vault.pml'],
  DRAWS: [
    'failover, forget and damage, values that draw the same token',
    '-DWITHOUT_KEYS -DDRAWS vault.pml',
  ],
  FORGETS_BOTH: [
    'both values forgotten, values that draw the same token',
    '-DALONE -DWITHOUT_KEYS -DONE_NODE -DDRAWS -DFORGETS_BOTH vault.pml',
  ],
  MOVES: ['imports, aliases, forget, rotate, reseal and retire', '-DALONE -DWITH_KEYS imports.pml'],
  TWO_IMPORTS: ['two imports, aliases and forget', '-DALONE -DTWO_IMPORTS imports.pml'],
  MOVES_FAILOVER: ['imports, aliases, forget and failover', 'imports.pml'],
  REPEATED: ['repeated commands: rewrap and policies', 'commands.pml'],
  ASYNC: ['policies with an asynchronous standby', '-DASYNC commands.pml'],
};

/** A check that a NO_... of the model takes out. Spin then finds a loss in each of these parts. */
interface Fence {
  readonly name: string;
  readonly promise: string;
  /** Keys of PARTS. */
  readonly parts: readonly string[];
  /** The entries of test/mutation that take it out of the program. */
  readonly mutants: readonly string[];
  /** Where the program has it: keys of CODE. */
  readonly code: readonly string[];
}

/**
 * Not here, because Spin finds no loss without them: the version fence of reseal (the shared lock suffices), the value
 * in KEEP and in the mend (both follow a look-up that saw the own value, and no row changes its value but an alias).
 */
export const FENCES: readonly Fence[] = `
NO_FENCE_INSERT: an insert checks its key version
in KEYS KEYS_FAILOVER by insert-closed key-of-another
INSERT openVersions keyIdsOf close

NO_FENCE_KEEP: a stub comes back only with an open key version
in THREE by keep-closed
LEASED KEEP INSERT_LEASED

NO_FENCE_MEND: a record is mended only with an open key version
in DAMAGE by mend-closed
REPLACE

NO_FENCE_SUPERSEDE: an alias gives its place only to a record with an open key version
in MOVES by keep-closed
LEASED SUPERSEDE

NO_LOCK_FIRST: the snapshot of a write follows its lock
in KEYS by pool-isolation
BEGIN WRITERS

NO_RETIRE_WAIT: retire waits for writes under way
in KEYS by retire-writers
WRITERS writersGone retireKey

NO_COUNT: retire counts the records
in KEYS by retire-needed
retireKey countRecords remove

NO_OLD_SEALED: reseal replaces only what it has read
in THREE by mend-changed
REPLACE

NO_RESEAL_LOCK: reseal shares the lock of the vault
in THREE by walk-no-lock
replaceWalked lockAndList

NO_RESEAL_NEWEST: reseal writes only with the newest version
in THREE by walk-old-version
replaceWalked

NO_WAIT: an answer waits for the standby
in DRAWS REPEATED MOVES_FAILOVER by pool-doubtful
openConnections durably

NO_DURABLE_LOOK: a record that was found is as durable as a new one
in DRAWS MOVES_FAILOVER by find-not-durable
WAITS_FOR_STANDBY ONCE findingWith #store #written

NO_DURABLE_FORGET: a value that was forgotten already is forgotten durably
in DRAWS by pool-reads-without-wait
FIND forgetTokens durably

NO_FORGET_WAIT: forget waits for the standby
in DRAWS by pool-doubtful
FORGET forgetTokens

NO_FORGET_FOUND: forget removes what comes back between its statements
in DRAWS by forget-found-only
forgetTokens FORGET

NO_TIMELINE: a node never goes back to an older primary
in DRAWS KEYS_FAILOVER by pool-old-connection pool-any-server
#onPrimary

NO_COLLISION: a token that another value has is not taken
in DRAWS by records-collision-stored tokenizer-collision
outcomeOf stepOf

NO_STUB: a forgotten token keeps its row
in DRAWS by forget-no-stub
REMOVE FORGET

NO_OPENING: a record that is found is opened
in DRAWS by tokenizer-dead
#checked #mend

NO_DURABLE_KEY: a node takes a key only when the standby has it
in KEYS_FAILOVER by follower-key-not-durable
listDurable

NO_MOVE_ORDER: an alias leads on from its next draw before it gives its place
in TWO_IMPORTS by alias-forgotten-value
#takePlaces leave lead

NO_SUPERSEDE_READ: only the alias that was read gives its place
in TWO_IMPORTS by supersede-changed
SUPERSEDE #written

NO_ALIAS_KEPT: forget leaves an alias
in TWO_IMPORTS by alias-forgotten
tokensAmong

NO_ABSENT_KEPT: forget leaves an alias that comes between its statements
in TWO_IMPORTS by alias-forgotten-between
tokensAmong forgetRecords

NO_DURABLE_REWRAP: keys that are wrapped already are wrapped durably
in REPEATED by pool-reads-without-wait
rewrapKeys locked update

NO_DURABLE_APPLY: a policy that was applied already is applied durably
in REPEATED by pool-reads-without-wait
apply durably

NO_DURABLE_VERSION: a node takes a policy only when the standby has it
in REPEATED by policy-not-durable
CANDIDATES #newestDurable

NO_CONTENT: a node compares the content of a version, too
in ASYNC by policy-same-number
isVersion
`
  .trim()
  .split('\n\n')
  .map((fence) => {
    const [, name, promise, ...lists] = /^(\w+): (.+)\nin (.+) by (.+)\n(.+)$/.exec(fence)!;
    const [parts, mutants, code] = lists.map((list) => list.split(' '));
    return { name: name!, promise: promise!, parts: parts!, mutants: mutants!, code: code! };
  });

/**
 * What the models say: definitions of the program, each with the digest of what was compared with the models. When
 * one changes, look at the models, renew them and docs/architecture.md, then the digest here.
 */
export const CODE: Readonly<Record<string, readonly [file: string, digest: string]>> =
  Object.fromEntries(
    `
store/record-sql.ts
openVersions=2a9f78be keyIdsOf=7e983d68 INSERT=0daa0fe3 LEASED=313a3d6d INSERT_LEASED=b9b181a6 KEEP=15a5b465
SUPERSEDE=d69103ca REPLACE=9b0beb53 HAS_STANDBY=84ab223a MESSAGE=499fcdc0 WAITS_FOR_STANDBY=8d8ad3c0 ONCE=6c01d35b
findingWith=7f89606b

store/records.ts
#written=4787142f #store=d779e882 #keepMissing=8b68dc06 outcomeOf=e5121692

store/removal.ts
FIND=7bbdb0bb REMOVE=3aeb5498 FORGET=5613db73 forgetTokens=88c605e9 find=05f3181f

store/wrapped-keys.ts
WRITERS=69e7d231 close=d3369451 remove=704c6fc8 update=944f7d76 locked=d2320db2 listDurable=1cd6694f
writersGone=26fe0cf5 lockAndList=a7670ef3 insertKey=08f9019a countRecords=7b791e46

store/record-walk.ts
replaceWalked=4a9327e1

store/connection.ts
BEGIN=3e17b084 openConnections=01f58b63

store/pool.ts
durably=efcae6d1 #onPrimary=be63e85d

store/policies.ts
CANDIDATES=9aaf6366 apply=3afa9db0

policy/policy-follower.ts
#newestDurable=7954652f isVersion=ca5e99fa

vault/key-lifecycle.ts
retireKey=a91527e9 rewrapKeys=cab47140

tokens/tokenizer.ts
#checked=7557df52 #mend=fbaeb6a0 stepOf=9f0b9b78

records/import.ts
#place=c6a0c4bf #takePlaces=04d83bea #besideDraws=a2356417

records/aliases.ts
lead=45d696f2 leave=131c945a

records/removal.ts
forgetRecords=9653b2b5 tokensAmong=4346d8ed
`
      .trim()
      .split('\n\n')
      .flatMap((paragraph) => {
        const [file, ...definitions] = paragraph.split(/\s/);
        return definitions.map((one) => {
          const [name, digest] = one.split('=') as [string, string];
          return [name, [file!, digest] as const];
        });
      }),
  );

/** Files whose statements all have to be in CODE, besides those that the models leave out. */
export const STATEMENT_FILES = [
  'store/record-sql.ts',
  'store/removal.ts',
  'store/wrapped-keys.ts',
] as const;
/** Parts of statements, and the removal of what has expired. */
export const LEFT_OUT =
  'FINGERPRINTS UNSEALED SEALED HAS_CITUS ON_ONE_SERVER ON_CITUS COLUMNS FIND_EXPIRED EXPIRE KEYS_ARE_GONE'.split(
    ' ',
  );

export function sourceOf(file: string): string {
  return readFileSync(join(ROOT, 'src', file), 'utf8');
}

/** Of a definition, without comments and white space. */
export function digestOf(name: string, file: string): string {
  const source = sourceOf(file);
  const found = definitionOf(source, name);
  if (found === undefined) throw new Error(`${file} has no ${name}`);
  const bare = source
    .slice(...found)
    .replace(/^ *(\/\/|\/?\*).*$/gm, '')
    .replace(/\s+/g, ' ');
  return createHash('sha256').update(bare).digest('hex').slice(0, 8);
}
