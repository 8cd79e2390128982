import { mutantsIn } from './mutant.ts';

/** Rows, keys and tokens: what stands between a write, a key version, a standby and a forget. */
export const VAULT = mutantsIn(`
records/export.ts

export-wrong-token: An export never has a wrong token.
in #found by postgres/export
- === record.token_fingerprint;
+ !== ('' as never);

batcher.ts

batcher-unbounded: The queue is bounded.
in submit by unit/batcher
- > this.#options.maxWaitingItems
+ > Infinity

batcher-mixes: Each caller gets its own results.
in #answer by unit/batcher
- results.slice(from, from + entry.items.length)
+ results.slice(0, entry.items.length)

refresher.ts

refresher-stale: A slow read brings back no older keys, policy or API keys.
in #now by postgres/api-key-loads: a revocation back
- if (startedAtMs < this.#takenMs) return;

embedded/owner.ts

embedded-folder: A process does not write to a folder that was replaced.
in Owner.constructor by postgres/embedded-database
- [socket, databaseFolder(dataDir)]
+ [socket]

records/import.ts

alias-forgotten-value: An alias stays when its value was forgotten.
in #takePlaces by postgres/alias-moves: stays when its value
- at = at.filter((_, i) => isFree[i]);

import-not-marked: Guesses at imported tokens count.
in #insert by cli/import: C37
- await this.#markBareTokens(drafts);

records/removal.ts

alias-forgotten: Forget leaves aliases as they are.
in tokensAmong by postgres/aliases
- isNobodys(found[i]) ? undefined : one
+ one

alias-forgotten-between: Forget leaves an alias that comes between its statements.
in tokensAmong by postgres/aliases: comes between
- one === undefined || (one !== null
+ (!!one

store/connection.ts

pool-isolation: The snapshot of a write is younger than its lock.
in BEGIN by postgres/fences
- 'begin isolation level read committed'
+ 'begin isolation level repeatable read'

pool-doubtful: A commit whose wait for the standby was cancelled is no success.
in openConnections by postgres/pool
- if (code === PLAIN_WARNING) doubtful.add(client);

store/pool.ts

pool-late-reused: An answer that comes late is never taken for another.
in #cut by fault/network
- destroy(client); client.release(true);
+ client.release(false);

pool-old-connection: An open connection to an older primary is not used any more.
in #onPrimary by postgres/pool: another pool has seen
- || this.#timeline.isOld(session.timeline)

pool-any-server: An older primary is refused.
in #sessionOf by fault/failover: F33
- this.#timeline.require(session.timeline, 'The server of DATABASE_URL');

pool-reads-without-wait: "Already" waits for the standby as "done" does.
in durably by postgres/pool: what durably only reads
- const result = await work(query); await
+ const result = await work(query); if (deadlineMs > 0) return result as Durable<T>; await

store/record-sql.ts

records-keep-other-value: A token never comes to stand for another value.
in KEEP by postgres/fences
- there.value_fingerprint = excluded.value_fingerprint and (
+ (

insert-closed: No insert writes a record with a key version that was closed.
in INSERT by postgres/fences fault/retire
- sealed) where version = any(
+ sealed) where 0 < cardinality(

keep-closed: No row comes back with a key version that was closed.
in LEASED by postgres/fences fault/retire
- where version = any(
+ where 0 < cardinality(

mend-closed: No record is mended with a key version that was closed.
in REPLACE by postgres/fences
- fresh.version = any(
+ 0 < cardinality(

key-of-another: No record of a lost key is written once another key has its version.
in openVersions by postgres/fences: lost key
- and created_at = any(
+ and 0 < cardinality(

mend-changed: A record is mended or resealed only while it is the one that was read.
in REPLACE by postgres/fences postgres/keys
- = fresh.old_sealed
+ is not null

find-not-durable: A record that was found is as durable as a new one.
in ONCE by fault/standby
- {MESSAGE} end)
+ {'null'} end)

supersede-changed: A record takes the place of an alias only while it is the one that was read.
in SUPERSEDE by postgres/fences: takes the place
- there.sealed = any(
+ there.sealed is not null or there.sealed = any(

store/record-walk.ts

walk-no-lock: Retire waits for the batches of a reseal.
in replaceWalked by postgres/fences postgres/keys
- pg_advisory_xact_lock_shared($1::bigint)
+ $1::bigint

walk-old-version: A reseal stops when its key version is not the newest any more.
in replaceWalked by postgres/fences postgres/keys
- Number(newest[0]!.version) !== keyVersion
+ newest.length === 0

store/records.ts

records-expired-found: An expired token is unknown at once.
in FIND by postgres/retention
- expires_at <= now() then ''
+ expires_at <= null then ''

records-collision-stored: A row that was there before is compared before it counts as stored.
in #store by postgres/records: collision
- === rows.length
+ <= rows.length

store/removal.ts

removal-removes-new: A record that was extended in the meantime is not removed.
in EXPIRE by postgres/retention
- there.expires_at <= excluded.expires_at
+ true

forget-found-only: Forget removes what comes back between its statements.
in forgetTokens by postgres/fences: between its statements
- columns(rows)
+ columns(rows.filter((row) => row.state === 'known'))

forget-no-stub: A forgotten token keeps its value fingerprint.
in REMOVE by postgres/retention
- set sealed = excluded.sealed, expires_at
+ set sealed = excluded.sealed, value_fingerprint = there.token_fingerprint, expires_at

store/rights.ts

admin-reads-digests: The role of the admin API reads no digest of an API key.
in ADMIN_RIGHTS by postgres/rights: the rights of the admin API
- select: API_KEY_COLUMNS
+ select: 'all'

store/wrapped-keys.ts

keys-made-again: A vault whose keys were deleted gets no new ones.
in create by postgres/start
- throw new OperatorError(KEYS_ARE_GONE);
+ void 0;

tokens/detokenizer.ts

detokenizer-row-fingerprint: A record opens for the token of the caller only.
in #open by postgres/tamper: C07
- { ...found, token_fingerprint: tokenFingerprint }
+ found

detokenizer-damaged-unknown: A damaged record is an error, not an unknown token.
in #open by postgres/tamper: C06
- throw new InternalError(isMissing ? 'key_missing' : 'record_damaged');
+ return undefined;

tokens/every-kind.ts

forget-older-kinds: Forget by value finds tokens of every version of the policy.
in #update by policy/forget-values
- for (const settings of policy.kinds) this.#add(settings);

tokens/recently-stored.ts

opened-by-token: A record that was changed since it opened is opened again.
in bytesOf by unit/recently-stored postgres/tamper
- + sealed.toString('latin1')

tokens/threads/thread-rules.ts

threads-space: A client gets tokens of its own space.
in #termsOfKinds by policy/service
- {space}
+ {''}

tokens/tokenizer.ts

tokenizer-dead: A value whose record does not open is sealed again.
in #checked by postgres/tamper: is sealed again when its value comes
- if (dead.length > 0) await this.#mend(dead, isKeyringKnown, deadlineMs);

tokenizer-collision: No two values share a token.
in stepOf by http/volume postgres/records: L15
- === 'collision'
+ === ('never' as string)

tokenizer-no-lease: Tokenize asks for newer keys before it seals with old ones.
in #insert by postgres/fences: keys that were last read long ago
- await this.#keys.readyToSeal(deadlineMs);
+ void 0;

lookup-forgotten: A look-up finds nothing that was forgotten.
in #stepAt by policy/service: look-up finds
- (leftS ?? 1) > 0
+ (leftS ?? 1) > -1

vault/key-lifecycle.ts

retire-not-closed: Retire closes the version before it counts.
in retireKey by postgres/fences
- await locked.close(version);

retire-writers: Retire waits for writes that began before.
in retireKey by postgres/fences
- await store.writersGone(writersTimeoutMs)
+ []

retire-early: Retire waits until no node seals with the version.
in refuseEarly by cli/keyring: rotate, reseal, retire
- ageS < minPrimaryAgeS
+ ageS < 0

retire-needed: A version that records need cannot be retired.
in refuseNeeded by cli/keyring: rotate, reseal, retire
- records === 0
+ records >= 0

retire-no-count: Retire counts again under its lock.
in retireKey by postgres/fences
- await locked.countRecords(version)
+ (await locked.countRecords(version)) * 0

retire-became-primary: A version that became the primary is not destroyed.
in retireKey by postgres/fences: as after a failover
- refusePrimaryVersion(locked.keys, version); refuseNeeded
+ refuseNeeded

vault/keyring-follower.ts

follower-key-replaced: A node never takes the key of another vault for a version of its own.
in #unwrap by postgres/keys: key of another vault
- throw keyReplaced(row.version);
+ void 0;

follower-key-not-durable: A key that a failover loses seals nothing.
in #rows by postgres/keys: a failover would lose seals nothing
- listDurable
+ list

vault/leased-keyring.ts

leased-closed-version: A node does not seal again with a version that was closed.
in readyToSealAfter by unit/leased-keyring: takes no more records
- this.keyring.primaryId === keyId
+ this.keyring.primaryId === ''

leased-no-lease: A process with old keys asks before it seals.
in isLeased by unit/leased-keyring
- < SEAL_LEASE_MS
+ < Infinity

leased-not-durable: A key that the standby lacks seals nothing.
in readyToSeal by unit/leased-keyring
- || !this.#snapshot.isDurable

vault/vault.ts

foreign-code-unseen: Every start looks for code of others in the schema.
in bringUp by postgres/rights: stops the next start
- await requireNothingForeign(pool.queryUntil(commandDeadline()));
`);
