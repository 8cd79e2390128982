import type { FastifyReply } from 'fastify';
import type { Admission, Quota } from '../service/limits/client-limits.ts';
import type { LimitName } from '../types.ts';

/** Names of the limits in headers. */
const NAMES: Readonly<Record<LimitName, string>> = {
  requests: '"requests"',
  detokenize: '"detokenize"',
  unknown_tokens: '"unknown-tokens"',
};

const policies = new WeakMap<readonly Quota[], string>();

/**
 * Adds headers with the limits, and with the state of the limit that refuses, else of the request
 * limit (draft-ietf-httpapi-ratelimit-headers-11).
 * They never tell how many unknown tokens are left: the number would tell a forgotten token, which
 * costs nothing, from an unknown one.
 */
export function addRateLimit(reply: FastifyReply, { quotas, state }: Admission): void {
  if (quotas.length === 0) return;
  let policy = policies.get(quotas);
  if (policy === undefined) {
    policy = quotas
      .map(({ limit, size, windowS }) => `${NAMES[limit]};q=${size};w=${windowS}`)
      .join(', ');
    policies.set(quotas, policy);
  }
  reply.header('RateLimit-Policy', policy);
  if (state === undefined) return;
  reply.header('RateLimit', `${NAMES[state.limit]};r=${state.left};t=${state.windowS}`);
}
