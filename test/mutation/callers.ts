import { mutantsIn } from './mutant.ts';

/** Who may do and see what, and how much. */
export const CALLERS = mutantsIn(`
access/authenticator.ts

authenticator-stale-header: Without the database a known API key ends after 4 s.
in find by postgres/api-key-loads: older than 4 s
- && this.#isFresh()

authenticator-expired: An API key ends at its time.
in live by postgres/api-key-loads: beyond its end
- || entry.expiresAtMs <= Date.now()

authenticator-kept-header: A revoked API key is refused after the next load.
in #take by http/protocol: ends alone
- this.#byHeader = new Map();

access/jwt-verifier.ts

jwt-any-issuer: A JWT of another issuer is refused.
in #subjectOf by unit/jwt
- iss === issuer &&

jwt-any-audience: A JWT for another service is refused.
in #subjectOf by unit/jwt
- && [aud].flat().includes(audience)

jwt-known-for-ever: A known JWT ends at its time.
in known by unit/jwt
- || verified.expiresAtMs <= this.#nowMs()

jwt-known-after-withdrawal: A JWT of a withdrawn key is refused although it was verified.
in known by unit/jwt
- this.keys.current?.byKid.get(kid) === key
+ this.keys.current && key

jwt-no-bound: A flood of wrong signatures costs a bounded number of checks.
in #check by unit/jwt
- if (count >= MAX_CHECKS)
+ if (count > 100 * MAX_CHECKS)

audit/audit-link.ts

audit-unchained: A link covers the line before.
in writeLine by unit/audit-chain
- const mac = macOf(lastMac, buffer
+ const mac = macOf('', buffer

config/config.ts

kek-command-gets-all: KEK_COMMAND gets no secret of another part.
in environmentOfKek by kek/command
- .filter(([name]) => !isOther(name))

limits/client-limits.ts

guess-told-unpaid: A response with gaps leaves only if the budget pays all that it tells.
in ClientLimits.charge by http/what-callers-learn: 25 by 25
- || left < 0

ops/access.ts

act-of-programs: Only a page acts with a session.
in #checkPage by http/admin-access: acts with a ticket
- checkIsPage(request);

ops/admin/api.ts

admin-act-untold: An act of an administrator has its attempt in the audit log before it is done.
in respond by fault/audit: F12: an act
- if (!isReading(incoming)) await onAct(
+ if (isReading(incoming)) await onAct(

ops/access.ts

session-cookie-alone: The cookie of a session is worth nothing without the secret of the page.
in find by http/console-access: who signs in
- || !isSecret(secret, session.digest)

packages/client/src/replacement.ts

passed-in-clear: A client takes no answer that left strings of its list in clear.
in replaceStrings by clients/typescript
- checkPassed(answer);

packages/paths/src/json-text.ts

record-number-left: A number at a path of the policy is refused, not left in clear.
in JsonWalk.value by policy/service: nothing stays in clear
- literal === 'n'
+ literal === 'n' || /[0-9]/.test(literal!)

policy/policy-follower.ts

policy-not-durable: A policy that a failover loses is not in force.
in #newestDurable by postgres/policies
- this.#store.newestDurable(performance.now() + STANDBY_TIMEOUT_MS)
+ (this.#store.newest(deadlineMs) as Promise<Durable<StoredPolicy>>)

policy-same-number: A version of a restored database is read, also with the number of the last.
in isVersion by postgres/policies: of a database that was restored
- isDeepStrictEqual(versionOf(head), versionOf(version))
+ head.version === version.version

policy/policy-follower.ts

policy-stale: A process that stood still serves no request by an older policy.
in #isFresh by policy/service: stood still
- < POLICY_LEASE_MS
+ < Infinity

policy/policy.ts

right-by-default: What no line of the rights says is none.
in rightIn by unit/policy
- 'none'
+ 'full'

right-of-prototype: A client called constructor has the rights of all others.
in entryOf by unit/policy
- Object.hasOwn(rights, name)
+ name in rights

policy/rules.ts

policy-kind-gone: A kind that left the policy is masked whole.
in mask by policy/service: leaves the policy
- ?? HIDDEN
+ ?? value

public/responses.ts

rights-late-vault: Rights are judged when the vault has answered.
in respond by http/rights: looked the values up
- isRight === true || (await isRight)
+ isRight !== undefined

public/body/data.ts

body-parts: A body has a bound of objects, lists and names, before it is parsed.
in countMembers by unit/body: at most 100,000
- if (names + containers > most)
+ if (names > most)

public/body/body-walk.ts

elsewhere-not-refused: A policy that refuses strings elsewhere lets none through.
in #checkElsewhere by unit/body-walk: refuse names the first
- if (this.#elsewhere === 'refuse')
+ if (this.#elsewhere === 'pass')

elsewhere-not-tokenized: A policy that tokenizes strings elsewhere lets none through.
in inside by unit/body-walk: tokenize replaces every string
- && this.#elsewhere === 'pass'

public/body/request-data.ts

rights-late-body: A client that was disabled while its body came stores nothing.
in viewerOf by http/rights: last byte
- const judged = judgedRules(exchange);
+ const judged = exchange.context.policies.current();

public/detokenize.ts

hidden-size: No response tells the size of a hidden value.
in fetchSized by policy/service: how long a value is
- if (!viewer.seesAll)
+ if (viewer.isPlain)

reserved-response: The bytes of a response are reserved before it is made.
in reserve by policy/reserved
- exchange.reserve(bytes - reserved);
+ void 0;

public/guards.ts

guards-permission: A client does only what it may.
in admitOperation by http/protocol: in this order
- if (!isAllowed(client, operation))
+ if (client === undefined)

guards-limit: A client over its limit is refused.
in checkLimits by http/limits http/turned-away
- throw new CallerError(
+ void new CallerError(

public/transport/connections.ts

answer-bad-request-open: No second request is read after a doubtful end.
in endsConnection by http/protocol
- code === 'bad_request' ||

public/transport/pipelining.ts

pipelining-budget: Requests sent ahead have bounded memory.
in #reserve by http/timeouts: nobody reads end their connection
- this.#unanswered >= maxAhead || !budget.reserve(held, bytes)
+ this.#unanswered >= Infinity

shape/mask.ts

mask-both-ends: A mask shows half of a value at most.
in endsMask by unit/masks
- atLeast(2 * (first + last))
+ atLeast(first + last)

tokens/threads/thread-rules.ts

rights-full: A value leaves the thread as the rights of the client say.
in showOf by policy/service: laundered
- rightIn(rules.policy, line, kind)
+ rightIn(rules.policy, null, kind) as 'full' | 'masked' | 'none'
`);
