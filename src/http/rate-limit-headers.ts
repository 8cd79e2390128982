import type { FastifyReply } from 'fastify';
import type { Admission, Quota } from '../service/limits/client-limits.ts';
import type { LimitName } from '../types.ts';

/** The names of the limits in headers. */
const NAMES: Readonly<Record<LimitName, string>> = {
  requests: '"requests"',
  detokenize: '"detokenize"',
  unknown_tokens: '"unknown-tokens"',
};

const policies = new WeakMap<readonly Quota[], string>();

/**
 * Says which limits there are, and how the limit stands that refuses, or that of requests
 * (draft-ietf-httpapi-ratelimit-headers-11). Never how many unknown tokens are left: the number
 * would tell a token that was forgotten, which costs none, from one that never was.
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
