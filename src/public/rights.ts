import { TLSSocket } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import type { Caller } from '../access/authenticator.ts';
import type { Seen } from '../audit/audit-log.ts';
import { CallerError, overloaded } from '../errors.ts';
import { afterwards } from '../limits/buckets.ts';
import { isAllowed } from '../limits/client-limits.ts';
import { entryOf, rightIn } from '../policy/policy.ts';
import type { PolicyRules } from '../policy/rules.ts';
import type { Exchange, Shown } from './exchange.ts';
import { MESSAGES } from './schema.ts';

/*
 * A body can end half a minute after its headers, and a vault can take seconds. So the rights of a
 * request are judged again before the vault is asked and before anything of the response leaves.
 */

/**
 * Looks again at API key or JWT, client and permission, in memory. A process that stood still reads
 * them first.
 * @throws CallerError unauthorized, forbidden or overloaded; InternalError when they cannot be read
 */
function judgeCaller(exchange: Exchange): void | Promise<void> {
  const { context, request } = exchange;
  const found = context.authenticator.find(request.headers.authorization);
  return afterwards(found, (late) => takeCaller(exchange, late));
}

function takeCaller(exchange: Exchange, caller: Caller): void {
  const { operation } = exchange;
  const { client_id: clientId, space } = exchange.caller!.client;
  // The subject of a JWT can become that of another client.
  if (caller.client.client_id !== clientId || caller.client.space !== space) throw overloaded();
  exchange.caller = caller;
  if (operation !== undefined && !isAllowed(caller.client, operation))
    throw new CallerError('forbidden', MESSAGES.forbidden(operation));
}

/**
 * Whether the response may leave.
 * @returns false: by the policy that is in force now, the caller would see other values
 * @throws as judgeCaller
 */
export function isStillRight(exchange: Exchange): boolean | Promise<boolean> {
  const { caller, shown } = exchange;
  if (caller === null) return true;
  if (shown === undefined) return afterwards(judgeCaller(exchange), () => true);
  return afterwards(judgedRules(exchange), (rules) => seesTheSame(exchange, shown, rules));
}

/**
 * The policy in force, for a caller who is still admitted.
 * @throws as judgeCaller; InternalError when the policy cannot be read
 */
export function judgedRules(exchange: Exchange): PolicyRules | Promise<PolicyRules> {
  const judged = judgeCaller(exchange);
  const rules = exchange.context.policies.current();
  if (judged instanceof Promise || rules instanceof Promise)
    return Promise.all([rules, judged]).then(([late]) => late);
  return rules;
}

function seesTheSame({ caller }: Exchange, { viewer, kinds }: Shown, rules: PolicyRules): boolean {
  const line = entryOf(rules.policy, caller!.client);
  const before = viewer.rules;
  if (line === null || (rules === before && line === viewer.entry)) return true;
  if (kinds === undefined) return false;
  return [...kinds.keys()].every((kind) => {
    const right = rightIn(rules.policy, line, kind);
    if (right !== 'masked') return right === 'full';
    const isMasked = rightIn(before.policy, viewer.entry, kind) === 'masked';
    return (
      isMasked &&
      isDeepStrictEqual(before.byName.get(kind)?.settings, rules.byName.get(kind)?.settings)
    );
  });
}

/** Cuts the connection of a response under way when the caller may not have the rest. */
export async function cutUnlessRight(exchange: Exchange): Promise<void> {
  try {
    if (await isStillRight(exchange)) return;
  } catch {
    // The caller has lost the right, or nobody knows.
  }
  const { socket } = exchange.request;
  if (socket instanceof TLSSocket) socket.destroy();
  // What the system has not sent yet goes with it.
  else socket.resetAndDestroy();
}

/** How many values of each kind there are, by the caller's right; undefined: without a policy. */
export function seenOf(shown: Shown | undefined): Seen | undefined {
  if (shown === undefined || shown.viewer.rules.policy.version === 0) return undefined;
  const { viewer, kinds = [], hidden } = shown;
  const { rules, entry: line } = viewer;
  const seen: Seen = {};
  for (const [kind, count] of kinds) seen[kind] = { [rightIn(rules.policy, line, kind)]: count };
  for (const [kind, count] of hidden) seen[kind] = { ...seen[kind], none: count };
  return Object.keys(seen).length > 0 ? seen : undefined;
}
